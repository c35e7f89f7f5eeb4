"""The rows of a sweep, which show themselves as a curve."""

from __future__ import annotations

from typing import Any

from explorer.sweeps.points import AXES
from explorer.sweeps.sweep import Row
from explorer.view.pictures.card import card, rows
from explorer.view.pictures.curve import Point, curve_picture
from explorer.view.pictures.picture import Picture
from explorer.words import text

AXIS_WORDS = {"devices": "devices", "micro_batches": "micro-batches", "bandwidth_bytes_per_s": "bandwidth",
              "memory_bytes": "memory cap"}  # fmt: skip


class Sweep(tuple[Row, ...]):
    """Rows in the order in which they were asked."""

    __slots__ = ()

    def curve(self) -> Picture | None:
        """The objective and its lower bound along the one axis that varies; None where several do, or no row has a
        plan."""
        varied = [axis for axis in AXES if len({getattr(row.point, axis) for row in self}) > 1]
        solved = [row.result for row in self if row.result is not None and row.plan is not None]
        if len(varied) > 1 or not solved:
            return None
        axis = varied[0] if varied else next(a for a in AXES if getattr(self[0].point, a) is not None)
        points: list[Point] = [
            (
                row.point.cell(axis),
                None if row.result is None or row.plan is None else row.result.objective_s,
                row.result.bound_s if row.result is not None and text.known(row.result.bound_s) else 0.0,
            )
            for row in sorted(self, key=lambda row: getattr(row.point, axis))
        ]
        objective = solved[0].problem.objective.value
        return curve_picture(points, "Iteration time" if objective == "iteration" else objective, AXIS_WORDS[axis])

    def __str__(self) -> str:
        return "\n".join(": ".join(line[:2]) for line in self._lines())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("..." if cycle else str(self))

    def _repr_html_(self) -> str:
        table = rows(("", "objective", "bound", "peak memory", "status"), self._lines())
        name = next((row.result.problem.graph.name for row in self if row.result is not None), "")
        return card(f"Sweep of {name}" if name else "Sweep", (), self.curve(), table)

    def _lines(self) -> list[tuple[str, ...]]:
        return [
            (
                row.point.words(),
                text.NOTHING if row.result is None else text.seconds(row.result.objective_s),
                text.NOTHING if row.result is None or not row.result.bound_s else text.seconds(row.result.bound_s),
                text.NOTHING if row.metrics is None else text.nbytes(max(row.metrics.peak_memory_bytes)),
                row.status.lower() + (f": {text.short(row.reason, 60)}" if row.reason else ""),
            )
            for row in self
        ]
