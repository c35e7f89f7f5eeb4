"""A comparison for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.cli.reports.report import (
    OBJECTIVE_WORDS,
    allowed_words,
    cluster_words,
    print_infeasibility,
    result_object,
)
from explorer.cli.terminal.command import print_table
from explorer.jobs.comparison import Compared
from explorer.view.comparison import Ranked, Row, cells, family_story, left_out, ranked
from explorer.words import text
from solvers.formats.result_json import options_json
from solvers.plan.result import Result, Status, StopReason
from solvers.planners.infeasibility import Infeasibility
from solvers.problem.problem import Objective, Problem
from solvers.search.planner import planner_options

BEST = "*"
REASON = 100
"""Characters of a reason that a line of the table has room for."""


def comparison_list(
    model: str, problem: Problem, done: Sequence[Compared], why: Infeasibility | None = None
) -> list[dict[str, object]]:
    """What ``compare --json`` prints: an object a run as ``plan --json`` prints it, in the order of the
    table, with what only a comparison knows."""
    entries = ranked([compared.row for compared in done])
    return [
        _object(model, problem, done[entry.place], why)
        | {
            "contiguity": entry.row.contiguity,
            "guarantee": entry.row.guarantee,
            "source": entry.row.source,
            "reason": entry.row.reason or None,
            "best": entry.best,
            "told_apart_from_best": entry.distinct,
            "best_bound_s": entry.bound_s,
            "gap_to_best_bound": entry.gap,
            "peak_memory_bytes": None if entry.row.figures is None else entry.row.figures.peak_bytes,
        }
        for entry in entries
    ]


def _object(model: str, problem: Problem, compared: Compared, why: Infeasibility | None) -> dict[str, object]:
    if compared.result is not None:
        return result_object(model, compared.result, why if compared.result.plan is None else None)
    solver = compared.entry.solver
    nothing = Result(problem, None, Status.NO_PLAN, StopReason.FINISHED, math.inf, 0.0, 0.0, solver.name)
    return result_object(model, nothing) | {
        "planner_options": options_json(planner_options(solver)),
        "status": compared.row.status,
        "stop_reason": None,
        "gap": None,
        "runtime_s": None,
        "seed": None,
        "notes": [],
    }


def print_comparison(
    model: str, problem: Problem, done: Sequence[Compared], time_limit_s: float, why: Infeasibility | None = None
) -> None:
    """The table, the best bound, and who could not be asked."""
    rows = [compared.row for compared in done]
    entries = ranked(rows)
    print(f"{model}: {text.plural(len(problem.graph), 'operator')} on {cluster_words(problem)}")
    several = text.listing(list(dict.fromkeys(entry.row.contiguity for entry in entries)))
    within = allowed_words(problem) if problem.is_latency else f"contiguity {several}"
    print(f"objective  {OBJECTIVE_WORDS[problem.objective]}")
    print(f"asked for  {within}, at most {text.seconds(time_limit_s)} a planner")
    ran = [entry for entry in entries if entry.row.ran]
    if ran:
        print()
        _print_rows(problem.objective, entries, ran)
        print()
        print(f"{BEST} best; gap: to the best bound proved here ({_bounds(ran)})")
        if alike := [entry.row.planner for entry in ran if entry.distinct is False]:
            print(
                f"alike  {text.listing(alike)}: not distinguished from the best, since what they do otherwise is"
                " estimated to no better than their times differ"
            )
    story = family_story(rows)
    if story:
        print(f"contiguity  {story}")
    if why is not None:
        print_infeasibility(problem, why)
    _print_left_out(rows)
    _print_why_not(done)


def _print_rows(objective: Objective, entries: Sequence[Ranked], ran: Sequence[Ranked]) -> None:
    several = len({entry.row.contiguity for entry in entries}) > 1
    shown = cells(ran)
    others = [other for other in (Objective.MAX_LOAD, Objective.MAKESPAN, Objective.ITERATION) if other != objective]
    rate, steady = ("rate", "samples/s"), objective is Objective.MAX_LOAD  # then of the iteration, beside it
    columns = [
        *([("contiguity", "contiguity")] if several else []),
        ("status", "status"),
        ("objective", objective.value),
        *([("within", "within")] if any(cell["within"] != text.NOTHING for cell in shown) else []),
        ("bound", "bound"),
        ("gap", "gap"),
        *([("sample", "a sample")] if any(cell["sample"] != text.NOTHING for cell in shown) else []),
        *([] if steady else [rate]),
        *((other.value, other.value) for other in others),
        *([rate] if steady else []),
        ("peak", "peak memory"),
        ("runtime", "time"),
        ("guarantee", "guarantee"),
    ]
    lines = [["", "planner", *(title for _, title in columns)]]
    for entry, values in zip(ran, shown, strict=True):
        lines.append([BEST if entry.best else "", values["planner"], *(values[key] for key, _ in columns)])
    text_columns = {"contiguity", "status", "guarantee"}
    print_table(lines, right=frozenset(i + 2 for i, (key, _) in enumerate(columns) if key not in text_columns))


def _bounds(ran: Sequence[Ranked]) -> str:
    bounds = {entry.row.contiguity: entry.bound_s for entry in ran}
    times = [text.seconds(bound_s) if bound_s else "none" for bound_s in bounds.values()]
    if len(bounds) == 1:
        return times[0]
    return ", ".join(f"{name} {time}" for name, time in zip(bounds, times, strict=True))


def _print_why_not(done: Sequence[Compared]) -> None:
    """What planners that found no plan say of it."""
    lines = [
        ["no plan", f"{compared.row.planner} ({compared.row.contiguity}): {text.short(note, REASON)}"]
        for compared in done
        if compared.result is not None and compared.result.plan is None
        for note in compared.result.notes
    ]
    if lines:
        print()
        print_table(lines)


def _print_left_out(rows: Sequence[Row]) -> None:
    lines = [[left["status"], f"{left['planners']}: {text.short(left['reason'], REASON)}"] for left in left_out(rows)]
    if lines:
        print()
        print_table(lines)
