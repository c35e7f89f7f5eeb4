"""Placement Explorer: place the operators of a model on devices.

``trace`` and ``plan`` are loaded on first use: importing this package is light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.api import plan, trace

__all__ = ["plan", "trace"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from explorer import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
