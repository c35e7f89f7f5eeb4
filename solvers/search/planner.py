"""The one interface of all planners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from solvers.problem.problem import Problem
    from solvers.search.monitor import Monitor


class Planner(Protocol):
    """A frozen dataclass whose fields are its options.

    The page's form and the command line's flags are generated from them. It raises nothing but Stop (through
    ``monitor.check``).
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    name: ClassVar[str]
    """Registered name, "downset-dp"."""
    source: ClassVar[str]
    """Where the method is published, with the section."""
    guarantee: ClassVar[str]
    """"exact" (for its own objective) or "heuristic"."""

    def unsupported(self, problem: Problem) -> str | None:
        """What of this problem the planner cannot represent, or None."""
        ...

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        """Search, and offer plans to the monitor.

        Returns True iff the whole search space was covered for the problem's objective, so that the best plan offered
        is optimal (or none exists).
        """
        ...


def at_least(planner: Planner, least: Mapping[str, float]) -> None:
    """Raises ValueError unless options are numbers of at least so much: for `__post_init__`."""
    for name, number in least.items():
        value = getattr(planner, name)
        if not value >= number:
            raise ValueError(f"{name} must be at least {number}, found {value}")


def planner_options(planner: Planner) -> dict[str, object]:
    """The fields of a planner and their values."""
    return {field.name: getattr(planner, field.name) for field in fields(planner)}
