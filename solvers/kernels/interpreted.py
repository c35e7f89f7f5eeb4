"""Kernels that run interpreted until compiling them is worth it: a plan of a small model is told in milliseconds
by Python, and in half a minute by a compiler that has not met it yet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import update_wrapper
from sys import modules
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from numba import typeof
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

WORTH_S = 3.0
"""A kernel is compiled once it has run interpreted for this long, in one process."""
PER_ITEM_S = 2e-6
"""What an interpreted kernel takes per item of its arrays, about: see docs/benchmarks.md."""

_worth_s = [WORTH_S]

Function = TypeVar("Function", bound=Callable[..., Any])

_twins: dict[str, dict[str, Any]] = {}
"""Per module its names, with kernels as plain functions."""


class Interpreted:
    """A kernel for callers outside kernels. Both forms give the same bits.

    It runs compiled where that is on disk already, or where this process has spent WORTH_S on the other form or
    would by the next call.
    """

    def __init__(self, kernel: Dispatcher) -> None:
        self.kernel = kernel
        self.spent_s = 0.0
        self._compiled = False
        self._sought = False
        update_wrapper(self, kernel.py_func)

    def __call__(self, *args: Any) -> Any:
        if not self._compiled and not self._sought:
            self._sought, self._compiled = True, self._kept(args)
        if self._compiled:
            return self.kernel(*args)
        if self.spent_s + PER_ITEM_S * sum(_items(args)) >= _worth_s[0]:
            self._compiled = True
            return self.kernel(*args)
        began = time.thread_time()
        with np.errstate(all="ignore"):
            found = interpreted(self.kernel)(*args)
        self.spent_s += time.thread_time() - began
        return found

    def _kept(self, args: tuple[Any, ...]) -> bool:
        """Whether an earlier process has left the compiled kernel."""
        kernel: Any = self.kernel
        with global_compiler_lock:  # which tells `Compiling` that time goes into getting ready
            return kernel._cache.load_overload(tuple(map(typeof, args)), kernel.targetctx) is not None


def until_worth_it(kernel: Function) -> Function:
    """A decorator above ``@njit``: see `Interpreted`. Other kernels cannot call what it gives."""
    if not isinstance(kernel, Dispatcher):
        return kernel  # numba is switched off
    return cast(Function, Interpreted(kernel))


def is_kept(kernel: Callable[..., Any]) -> bool:
    """Whether an earlier process has left a kernel compiled, for whichever arguments."""
    return not isinstance(kernel, Dispatcher) or os.path.exists(cast(Any, kernel)._cache._cache_file._index_path)


def compile_at_once() -> None:
    """From now on nothing runs interpreted in this process."""
    _worth_s[0] = 0.0


def interpreted(kernel: Dispatcher) -> Callable[..., Any]:
    """The kernel as a plain function that calls plain functions."""
    function = kernel.py_func
    return cast(Callable[..., Any], _twin(function.__module__)[function.__name__])


def _twin(module: str) -> dict[str, Any]:
    if module not in _twins:
        names = _twins[module] = dict(vars(modules[module]))
        for name, value in list(names.items()):
            kernel = value.kernel if isinstance(value, Interpreted) else value
            if not isinstance(kernel, Dispatcher):
                continue
            function = kernel.py_func
            if function.__module__ == module:
                plain = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
                names[name] = plain
            else:
                names[name] = _twin(function.__module__)[function.__name__]
    return _twins[module]


def _items(values: tuple[Any, ...]) -> Iterator[int]:
    """The sizes of the arrays among the values, and in tuples among them."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value.size
        elif isinstance(value, tuple):
            yield from _items(value)
