"""Kernels without counts of references: numba otherwise does two for every array of a named tuple and call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])
_njit: Any = njit  # its stubs leave out _nrt


def uncounted(function: _Function) -> _Function:
    """Compile a kernel that allocates nothing, and so needs no counts: with them small steps take five times as
    long."""
    return cast(_Function, _njit(cache=True, _nrt=False)(function))


def inlined(function: _Function) -> _Function:
    """Compile a small part of `uncounted` kernels into them."""
    return cast(_Function, _njit(cache=True, forceinline=True, _nrt=False)(function))
