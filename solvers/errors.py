"""The errors of the project. Infeasible, timeout and cancel are statuses of a Result, never errors."""

from __future__ import annotations


class PlacementError(Exception):
    """Base of every error raised on purpose; its message is one line a user can act on."""


class InvalidProblem(PlacementError, ValueError):
    """The graph, cluster, costs or options do not describe a problem (bad input)."""


class UnsupportedProblem(PlacementError):
    """The planner cannot represent this problem; the message says which part."""


class InvalidPlan(PlacementError):
    """A plan breaks a rule: from a file, bad input; from a planner, a defect of the planner."""


class NoLink(InvalidPlan):
    """A plan sends tensors between devices that no link joins: it does not fit the cluster."""


class TraceError(PlacementError):
    """A model could not be turned into an operator graph."""


class RunError(PlacementError):
    """Executing a plan failed."""
