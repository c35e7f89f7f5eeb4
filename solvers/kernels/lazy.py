"""numba's decorator without numba: importing that takes half a second, which whoever runs no compiled kernel is spared.

A `Kernel` stands for numba's dispatcher, for callers in Python and within other kernels.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache, update_wrapper
from typing import Any, TypeVar, overload

from solvers.kernels.compiling import listen

Function = TypeVar("Function", bound=Callable[..., Any])

_lock = threading.RLock()


class Kernel:
    """A function that numba compiles at its first call: its dispatcher is made then.

    py_func: the function; targetoptions: how it is compiled. Both as of a dispatcher, which numba looks for.
    """

    def __init__(self, py_func: Callable[..., Any], targetoptions: dict[str, Any]) -> None:
        self.py_func = py_func
        self.targetoptions = targetoptions
        self._dispatcher: Any = None
        update_wrapper(self, py_func)

    def __call__(self, *args: Any) -> Any:
        if self._dispatcher is None:
            return self.dispatcher(*args)
        return self._dispatcher(*args)

    @property
    def dispatcher(self) -> Any:
        """numba's own; the plain function where numba is switched off (NUMBA_DISABLE_JIT)."""
        with _lock:  # one dispatcher, whichever threads call first: kernels that call it are compiled for that one
            if self._dispatcher is None:
                self._dispatcher = load().njit(**self.targetoptions)(self.py_func)
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        """What numba asks a global of a kernel for, to call it from there."""
        return self.dispatcher._numba_type_


@overload
def njit(function: Function) -> Function: ...
@overload
def njit(**options: Any) -> Callable[[Function], Function]: ...
def njit(function: Any = None, **options: Any) -> Any:
    """``numba.njit``, but what it makes of a function is a `Kernel`."""
    if function is not None:
        return Kernel(function, options)
    return lambda decorated: Kernel(decorated, options)


@cache
def load() -> Any:
    """Import numba, and pass on what it says of compiling."""
    import numba

    listen()
    return numba


def is_loaded() -> bool:
    """Whether numba is there already, whoever imported it."""
    return "numba" in sys.modules
