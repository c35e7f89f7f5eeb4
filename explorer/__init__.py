"""Placement Explorer: place the operators of a model on devices.

``trace``, ``plan`` and what is done with plans are loaded on first use: importing this package is light. It hands the
displays of `explorer.notebook.displays` to the values of `solvers`, which are loaded on first use, too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from solvers.problem.displayed import hand_in

if TYPE_CHECKING:
    from explorer.api import configured, decode, diff, export, launch, load, plan, review, show, sweep, trace, why_here
    from explorer.notebook.widget import PlacementWidget
    from explorer.question.settings import (
        ClusterSettings,
        MemorySettings,
        PipelineSettings,
        SearchSettings,
        TrainingSettings,
    )
    from solvers.errors import (
        InvalidPlan,
        InvalidProblem,
        PlacementError,
        RunError,
        TraceError,
        UnsupportedProblem,
    )
    from solvers.formats.workload import Workload
    from solvers.plan.plan import Plan
    from solvers.plan.result import Result, Status, StopReason
    from solvers.problem.cluster import Cluster
    from solvers.problem.graph import OpGraph
    from solvers.problem.problem import Problem

    __version__: str

__all__ = [
    "Cluster",
    "ClusterSettings",
    "InvalidPlan",
    "InvalidProblem",
    "MemorySettings",
    "OpGraph",
    "PipelineSettings",
    "PlacementError",
    "PlacementWidget",
    "Plan",
    "Problem",
    "Result",
    "RunError",
    "SearchSettings",
    "Status",
    "StopReason",
    "TraceError",
    "TrainingSettings",
    "UnsupportedProblem",
    "Workload",
    "configured",
    "decode",
    "diff",
    "export",
    "launch",
    "load",
    "plan",
    "review",
    "show",
    "sweep",
    "trace",
    "why_here",
]

_HOMES = {
    "Cluster": "solvers.problem.cluster",
    "OpGraph": "solvers.problem.graph",
    "Plan": "solvers.plan.plan",
    "Problem": "solvers.problem.problem",
    "Workload": "solvers.formats.workload",
    **dict.fromkeys(
        ("ClusterSettings", "MemorySettings", "PipelineSettings", "SearchSettings", "TrainingSettings"),
        "explorer.question.settings",
    ),
    **dict.fromkeys(("Result", "Status", "StopReason"), "solvers.plan.result"),
    **dict.fromkeys(
        ("InvalidPlan", "InvalidProblem", "PlacementError", "RunError", "TraceError", "UnsupportedProblem"),
        "solvers.errors",
    ),
}
"""Where names come from that are not of `explorer.api`."""


def _hand_in(name: str) -> None:
    def display(value: object) -> object:
        from explorer.notebook.displays import DISPLAYS

        return DISPLAYS[name](value)

    hand_in(name, display)


for _name in ("html", "text", "figure", "graph", "frame", "metrics"):
    _hand_in(_name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> object:
    if name == "PlacementWidget":
        from explorer.notebook.loading import widget_class

        return widget_class()
    if name == "__version__":
        from explorer.library.made_by import PROJECT, version_of

        return version_of(PROJECT)
    if name in __all__:
        return getattr(import_module(_HOMES.get(name, "explorer.api")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
