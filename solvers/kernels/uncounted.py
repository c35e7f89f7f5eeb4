"""Decorators for kernels that allocate nothing, or that only kernels call.

numba otherwise counts references, twice for every array that is taken out of a tuple, and steps take up to five times
as long. Without the counts named fields cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])

_njit: Any = njit  # its stubs leave out _nrt


def uncounted(function: _Function) -> _Function:
    """Compile a kernel that allocates nothing, and leave it on disk."""
    return cast(_Function, _njit(cache=True, _nrt=False)(function))


def inlined(function: _Function) -> _Function:
    """Compile a step of `uncounted` kernels into them."""
    return cast(_Function, _njit(cache=True, forceinline=True, _nrt=False)(function))


def closed(function: _Function) -> _Function:
    """Compile a function that is made within another for each set of `inlined` steps, with the `uncounted` kernel that
    calls it: numba cannot tell on disk which steps it is of."""
    return cast(_Function, _njit(_nrt=False)(function))


def internal(function: _Function) -> _Function:
    """Compile a function for kernels alone, and leave it on disk: without the code that takes apart what Python hands
    over, which is most of it where that is many arrays."""
    return cast(_Function, _njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))
