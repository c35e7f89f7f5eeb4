"""Kernels that run interpreted until compiling them is worth it: a plan of a small model is evaluated in milliseconds
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

from solvers.kernels.lazy import Kernel, is_loaded

WORTH_S = 3.0
"""A kernel is compiled once it has run interpreted for this long, in one process."""
PER_ITEM_S = 2e-6
"""What an interpreted kernel takes per item of its arrays, about: see docs/benchmarks.md."""

LOAD_S = 0.5
"""What importing numba takes, about. A process that has not runs kernels interpreted for as long, in all."""

_worth_s = [WORTH_S]
_unloaded_s = [LOAD_S]
"""What is left of LOAD_S."""

Function = TypeVar("Function", bound=Callable[..., Any])

_twins: dict[str, dict[str, Any]] = {}
"""Per module its names, with kernels as plain functions."""


class Interpreted:
    """A kernel for callers outside kernels. Both forms give the same bits.

    It runs compiled where that is on disk already and numba is imported, or where this process has spent WORTH_S on
    the other form or would by the next call.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.spent_s = 0.0
        self._compiled = False
        self._sought = False
        update_wrapper(self, kernel.py_func)

    def __call__(self, *args: Any) -> Any:
        if self._compiled:
            return self.kernel(*args)
        would_s = PER_ITEM_S * sum(_items(args))
        if not self._sought and (is_loaded() or would_s >= _unloaded_s[0]):
            self._sought, self._compiled = True, self._is_cached(args)
        if self._compiled or self.spent_s + would_s >= _worth_s[0]:
            self._compiled = True
            return self.kernel(*args)
        began = time.thread_time()
        with np.errstate(all="ignore"):
            result = interpreted(self.kernel)(*args)
        took_s = time.thread_time() - began
        self.spent_s += took_s
        _unloaded_s[0] -= took_s
        return result

    def _is_cached(self, args: tuple[Any, ...]) -> bool:
        """Whether an earlier process has left the compiled kernel."""
        from numba import typeof
        from numba.core.compiler_lock import global_compiler_lock

        kernel = self.kernel.dispatcher
        if kernel is self.kernel.py_func:  # numba is switched off
            return True
        with global_compiler_lock:  # `Compiling` counts the time under this lock as getting ready
            return kernel._cache.load_overload(tuple(map(typeof, args)), kernel.targetctx) is not None


def until_worth_it(kernel: Function) -> Function:
    """A decorator above ``@njit``: see `Interpreted`. Other kernels cannot call what it gives."""
    return cast(Function, Interpreted(cast(Kernel, kernel)))


def is_cached(kernel: Callable[..., Any]) -> bool:
    """Whether an earlier process has left a kernel compiled, for whichever arguments."""
    lazy = cast(Kernel, kernel)
    return lazy.dispatcher is lazy.py_func or os.path.exists(lazy.dispatcher._cache._cache_file._index_path)


def compile_at_once() -> None:
    """From now on nothing runs interpreted in this process."""
    _worth_s[0] = 0.0


def interpreted(kernel: Kernel) -> Callable[..., Any]:
    """The kernel as a plain function that calls plain functions."""
    function = kernel.py_func
    return cast(Callable[..., Any], _twin(function.__module__)[function.__name__])


def _twin(module: str) -> dict[str, Any]:
    if module not in _twins:
        names = _twins[module] = dict(vars(modules[module]))
        for name, value in list(names.items()):
            kernel = value.kernel if isinstance(value, Interpreted) else value
            if not isinstance(kernel, Kernel):
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
