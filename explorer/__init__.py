"""Placement Explorer: place the operators of a model on devices.

``trace``, ``plan`` and what is done with plans are loaded on first use: importing this package is light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explorer.api import diff, export, plan, review, sweep, trace

__all__ = ["diff", "export", "plan", "review", "sweep", "trace"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from explorer import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
