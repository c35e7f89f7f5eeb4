"""A sweep as one table, as CSV, and as files that plans are saved in."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.cli.terminal.command import print_table, printable
from explorer.exports.tables import table_text
from explorer.sweeps.points import AXES, Point
from explorer.sweeps.sweep import Row, row_object
from explorer.words import text
from solvers.plan.result import StopReason

HEADS = {
    "devices": "devices",
    "micro_batches": "micro-batches",
    "bandwidth_bytes_per_s": "bandwidth",
    "memory_bytes": "cap",
}


def print_sweep(model: str, rows: Sequence[Row]) -> None:
    """A row for every point; below, why those without a plan have none."""
    swept = [axis for axis in AXES if any(getattr(row.point, axis) is not None for row in rows)]
    objectives = {row.result.problem.objective.value for row in rows if row.result is not None}
    other = len(objectives) == 1 and objectives != {"iteration"}
    split = [] if "micro_batches" in swept else ["micro-batches"]
    heads = [*(HEADS[axis] for axis in swept), "status", *(objectives if other else []), "iteration", "samples/s",
             "bound", "gap", "peak memory", "in use", *split, "time"]  # fmt: skip
    table = [heads]
    seconds = text.seconds_alike([None if row.metrics is None else row.metrics.iteration_s for row in rows], 4)
    for row, iteration in zip(rows, seconds, strict=True):
        told = row_object(row)
        used = told["devices_used"]
        table.append(
            [
                *(row.point.cell(axis) for axis in swept),
                _status(row),
                *([text.seconds(told["objective_s"])] if other else []),
                iteration,
                text.rate(told["throughput_per_s"]).removesuffix(" /s"),
                text.seconds(told["bound_s"] or None),
                text.percent(told["gap"]),
                text.nbytes(told["peak_memory_bytes"]),
                text.NOTHING if used is None else text.count(used),
                *([text.count(told["micro_batches_used"])] if split else []),
                text.seconds(told["runtime_s"]),
            ]
        )
    print(printable(f"{model}: {text.plural(len(rows), 'point')}"))
    print()
    right = frozenset(range(len(heads))) - {len(swept)}
    print_table(table, right=right)
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(row.point.words())
    for reason, where in reasons.items():
        print(printable(f"\n{text.listing(where, 4)}: {reason}".strip()))


def _status(row: Row) -> str:
    """The status, and why the search ended if it was not at its own end: such a row may not be the best there is."""
    early = row.result is not None and row.result.stop_reason is not StopReason.FINISHED
    return text.words(row.status) + (f" ({text.words(row.result.stop_reason.value)})" if early and row.result else "")


def sweep_csv(rows: Sequence[Row], plans: Sequence[str | None]) -> str:
    """The columns of `row_object`, and the file that each plan was saved in."""
    objects = [row_object(row) | {"plan": plan} for row, plan in zip(rows, plans, strict=True)]
    heads = list(objects[0]) if objects else []
    return table_text(heads, ([told[head] for head in heads] for told in objects))


def file_name(position: int, point: Point) -> str:
    """ "03-4-devices-16-GiB.json": letters, digits and hyphens, in the order of the rows."""
    words = "".join(letter if letter.isalnum() or letter == "." else "-" for letter in point.words())
    while "--" in words:
        words = words.replace("--", "-")
    return f"{position + 1:02}-{words.strip('-')}.json"
