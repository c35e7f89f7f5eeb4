"""A sweep as one table, as CSV, and as files that plans are saved in."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.cli.terminal.command import print_table
from explorer.costs.interval import and_interval, interval
from explorer.exports.tables import table_text
from explorer.sweeps.points import AXES
from explorer.sweeps.sweep import Cell, Row, row_object
from explorer.words import text
from solvers.plan.result import StopReason

HEADS = {
    "devices": "devices",
    "micro_batches": "micro-batches",
    "bandwidth_bytes_per_s": "bandwidth",
    "memory_bytes": "cap",
    "pipeline": "pipeline",
    "recompute": "recompute",
}
NAMES = ("model", "planner")
"""What a sweep may have several of, besides points."""
MOST_NAME = 100
"""Characters of a file's name that say what is in it."""


def print_sweep(model: str, rows: Sequence[Row]) -> None:
    """A row for every point; below, why those without a plan have none."""
    several = _several(rows)
    swept = [axis for axis in AXES if any(getattr(row.point, axis) is not None for row in rows)]
    objectives = {row.result.problem.objective.value for row in rows if row.result is not None}
    other = len(objectives) == 1 and objectives != {"iteration"}
    split = [] if "micro_batches" in swept else ["micro-batches"]
    idle = ["bubble"] if "pipeline" in swept else []
    objects = [row_object(row) for row in rows]
    estimated = any(entry["low_s"] is not None for entry in objects)
    heads = [*several, *(HEADS[axis] for axis in swept), "status", *(objectives if other else []), "iteration",
             *(["within"] if estimated else []), "samples/s", *idle, "bound", "gap", "peak memory", "in use",
             *split, "time"]  # fmt: skip
    table = [heads]
    seconds = text.seconds_alike([None if row.metrics is None else row.metrics.iteration_s for row in rows], 4)
    for row, entry, iteration in zip(rows, objects, seconds, strict=True):
        used = entry["devices_used"]
        table.append(
            [
                *(getattr(row, name) for name in several),
                *(_cell(row, axis) for axis in swept),
                _status(row),
                *([text.seconds(entry["objective_s"])] if other else []),
                iteration,
                *([_within(row)] if estimated else []),
                text.rate(entry["throughput_per_s"]).removesuffix(" /s"),
                *([text.percent(entry["bubble"])] if idle else []),
                text.seconds(entry["bound_s"] or None),
                text.percent(entry["gap"]),
                text.nbytes(entry["peak_memory_bytes"]),
                text.NOTHING if used is None else text.count(used),
                *([text.count(entry["micro_batches_used"])] if split else []),
                text.seconds(entry["runtime_s"]),
            ]
        )
    print(f"{model}: {text.plural(len(rows), 'point')}")
    print()
    right = frozenset(range(len(several), len(heads))) - {len(several) + len(swept)}
    print_table(table, right=right)
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(row_name(row, rows))
    for reason, where in reasons.items():
        print(f"\n{text.listing(where, 4)}: {reason}".strip())


def _within(row: Row) -> str:
    """Between which times its iteration may lie."""
    if row.result is None or row.metrics is None:
        return text.NOTHING
    within = interval(row.result.problem, row.plan, row.metrics.iteration_s)
    return text.NOTHING if within is None else within.words()


def _cell(row: Row, axis: str) -> str:
    """ "v-half", or "v-half: 1f1b" where it gave way to another order."""
    given = row.point.cell(axis)
    runs = "" if row.plan is None or axis != "pipeline" else row.plan.pipeline
    return f"{given}: {runs}" if runs not in ("", given) else given


def _status(row: Row) -> str:
    """The status, and why the search ended if it was not at its own end: such a row may not be the best there is."""
    early = row.result is not None and row.result.stop_reason is not StopReason.FINISHED
    return text.words(row.status) + (f" ({text.words(row.result.stop_reason.value)})" if early and row.result else "")


def sweep_csv(rows: Sequence[Row], plans: Sequence[str | None]) -> str:
    """The columns of `row_objects`."""
    objects = row_objects(rows, plans)
    heads = list(objects[0]) if objects else []
    return table_text(heads, ([entry[head] for head in heads] for entry in objects))


def row_objects(rows: Sequence[Row], plans: Sequence[str | None]) -> list[dict[str, object]]:
    """`row_object` and the file that each plan was saved in; where there are several models, the model before, and
    where there are several planners, the planner as it was asked."""
    several = _several(rows)
    objects = []
    for row, plan in zip(rows, plans, strict=True):
        axes = {name: getattr(row, name) for name in several}
        objects.append(axes | row_object(row) | axes | {"plan": plan})
    return objects


def row_name(row: Row, rows: Sequence[Row]) -> str:
    """Its point, and its model and planner before where ``rows`` have several."""
    return ", ".join(part for part in (*(getattr(row, name) for name in _several(rows)), row.point.words()) if part)


def row_words(row: Row) -> str:
    """ "feasible, 12 ms", or why there is none."""
    if row.result is None or row.plan is None:
        return f"{_status(row)}: {text.short(row.reason, 100)}"
    seconds = row.result.objective_s
    return f"{_status(row)}, {text.seconds(seconds)}{and_interval(row.result.problem, row.plan, seconds)}"


def cell_words(cells: Sequence[Cell]) -> list[str]:
    """Of every question: its point, and where there are several its model and planner before."""
    models = len({cell.workload.reference for cell in cells}) > 1
    planners = len({cell.planner for cell in cells}) > 1
    return [
        ", ".join(
            part for part in (models * cell.workload.reference, planners * cell.planner, cell.point.words()) if part
        )
        for cell in cells
    ]


def file_name(position: int, description: str) -> str:
    """ "03-4-devices-16-GiB.json": letters, digits and hyphens, in the order of the rows."""
    words = "".join(letter if letter.isalnum() or letter == "." else "-" for letter in description)
    while "--" in words:
        words = words.replace("--", "-")
    return f"{position + 1:02}-{words.strip('-.')[:MOST_NAME]}.json"


def _several(rows: Sequence[Row]) -> list[str]:
    return [name for name in NAMES if len({getattr(row, name) for row in rows}) > 1]
