"""Decorators for kernels that allocate nothing.

numba otherwise counts references, twice for every array that is taken out of a tuple, and steps take up to five times
as long. Without the counts named fields cost nothing.
"""

from __future__ import annotations

from solvers.kernels.lazy import Function, njit


def uncounted(function: Function) -> Function:
    """Compile a kernel that allocates nothing, and leave it on disk."""
    return njit(cache=True, _nrt=False)(function)


def inlined(function: Function) -> Function:
    """Compile a step of `uncounted` kernels into them."""
    return njit(cache=True, forceinline=True, _nrt=False)(function)


def closed(function: Function) -> Function:
    """Compile a function that is made within another for each set of `inlined` steps, with the `uncounted` kernel that
    calls it: numba cannot tell on disk which steps it is of."""
    return njit(_nrt=False)(function)
