"""Placement Explorer: place the operators of a model on devices.

``trace``, ``plan`` and what is done with plans are loaded on first use: importing this package is light. It hands the
displays of `explorer.notebook.displays` to the values of `solvers`, which are loaded on first use, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from solvers.problem.displayed import hand_in

if TYPE_CHECKING:
    from explorer.api import diff, export, launch, plan, review, show, sweep, trace, why_here
    from explorer.notebook.widget import PlacementWidget

__all__ = ["PlacementWidget", "diff", "export", "launch", "plan", "review", "show", "sweep", "trace", "why_here"]


def _hand_in(name: str) -> None:
    def display(value: object) -> Any:
        from explorer.notebook.displays import DISPLAYS

        return DISPLAYS[name](value)

    hand_in(name, display)


for _name in ("html", "text", "figure", "graph", "frame"):
    _hand_in(_name)


def __getattr__(name: str) -> object:
    if name == "PlacementWidget":
        from explorer.notebook.loading import widget_class

        return widget_class()
    if name in __all__:
        from explorer import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
