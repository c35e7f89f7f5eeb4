"""What a widget refuses, and what it raises where somebody waits for a plan."""

from __future__ import annotations

from traitlets import TraitError

from solvers.errors import InvalidProblem, PlacementError
from solvers.plan.result import Result


class InvalidTrait(InvalidProblem, TraitError):
    """A value that makes no sense was assigned; the old one stays."""


class NoPlan(PlacementError):
    """The search ended without a plan. result: its outcome, with status and reason; None if it could not begin, or
    broke."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result
