"""A mixed-integer linear program as plain lists: what formulations write and back ends solve."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Terms = Iterable[tuple[int, float]]
"""(variable, coefficient) pairs of a linear expression."""


@dataclass(slots=True)
class Model:
    """Minimise the objective over variables with bounds, some of them integers, subject to rows.

    lower, upper, cost, integer: one entry per variable. rows: (variables, coefficients, least,
    most), each variable at most once. start: a value for every variable to begin with, or None.
    Coefficients should lie between about 1e-3 and 1e6: solvers decide by absolute tolerances.
    """

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    rows: list[tuple[list[int], list[float], float, float]] = field(default_factory=list)
    start: list[float] | None = None

    def __len__(self) -> int:
        return len(self.cost)

    def variable(self, lower: float = 0.0, upper: float = 1.0, *, integer: bool = False, cost: float = 0.0) -> int:
        """The number of a new variable."""
        self.lower.append(lower)
        self.upper.append(upper)
        self.cost.append(cost)
        self.integer.append(integer)
        return len(self.cost) - 1

    def binary(self, *, allowed: bool = True) -> int:
        """The number of a new variable that is 0 or 1; 0 where not ``allowed``."""
        return self.variable(0.0, 1.0 if allowed else 0.0, integer=True)

    def row(self, terms: Terms, least: float = -math.inf, most: float = math.inf) -> None:
        """Require ``least <= sum of the terms <= most``; terms of one variable are added up."""
        total: dict[int, float] = {}
        for variable, coefficient in terms:
            total[variable] = total.get(variable, 0.0) + coefficient
        nonzero = {variable: c for variable, c in total.items() if c != 0.0}
        self.rows.append((list(nonzero), list(nonzero.values()), least, most))

    def objective_at(self, values: Sequence[float]) -> float:
        return math.fsum(c * v for c, v in zip(self.cost, values, strict=True))

    def violation(self, values: Sequence[float]) -> float:
        """By how much the worst bound or row is broken; integrality of the integers included."""
        worst = 0.0
        for value, low, high, whole in zip(values, self.lower, self.upper, self.integer, strict=True):
            worst = max(worst, low - value, value - high, abs(value - round(value)) if whole else 0.0)
        for variables, coefficients, least, most in self.rows:
            total = math.fsum(c * values[v] for v, c in zip(variables, coefficients, strict=True))
            worst = max(worst, least - total, total - most)
        return worst

    def to_message(self) -> dict[str, Any]:
        """The model as JSON can carry it; see `from_message`."""
        return {name: getattr(self, name) for name in ("lower", "upper", "cost", "integer", "rows", "start")}

    @staticmethod
    def from_message(message: dict[str, Any]) -> Model:
        rows = [(variables, coefficients, least, most) for variables, coefficients, least, most in message["rows"]]
        return Model(
            message["lower"], message["upper"], message["cost"], message["integer"], rows, message["start"]
        )  # fmt: skip
