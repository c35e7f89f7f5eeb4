"""Planners side by side: one row each, in order of what was asked for, under the best bound proved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NotRequired, TypedDict

from explorer.costs.interval import interval
from explorer.view.figures import NO_FIGURES, Figures, figures_of, gap
from explorer.words import text
from solvers.evaluation.evaluate import Metrics
from solvers.formats.json_text import finite_or_none
from solvers.plan.result import Result
from solvers.problem.problem import Contiguity, Objective

UNSUPPORTED = "UNSUPPORTED"
"""Status of a planner that cannot represent the problem; its reason says why."""
FAILED = "FAILED"
"""Status of a planner that broke: a defect of ours, described in its reason."""
SAME = 1e-9
"""Relative difference between objectives that is rounding."""
CONTRADICTION = 1e-6
"""Relative excess of a bound over an objective that rounding does not explain."""
WITHIN: Mapping[str, tuple[str, ...]] = {
    Contiguity.ACYCLIC.value: (Contiguity.ACYCLIC.value, Contiguity.CONVEX.value, Contiguity.NONE.value),
    Contiguity.CONVEX.value: (Contiguity.CONVEX.value, Contiguity.NONE.value),
    Contiguity.NONE.value: (Contiguity.NONE.value,),
}
"""Contiguity -> those that allow all of its plans, so that their bounds hold for it too."""


@dataclass(frozen=True, slots=True)
class Row:
    """One planner on one problem, as plain values: what is not known is None.

    planner: the name with the options that were given, "downset-dp:downset_budget=10". status: a
    `Status`, UNSUPPORTED or FAILED, with ``reason`` for those two. bound_s: what this planner proved. figures: of its
    plan. alike: planners of rows before, of the same contiguity, from whose plans estimates do not distinguish its plan
    (`costs.interval.distinguishable`); None where that is not known.
    """

    planner: str
    contiguity: str
    guarantee: str
    source: str
    status: str
    stop_reason: str = ""
    reason: str = ""
    bound_s: float = 0.0
    runtime_s: float | None = None
    figures: Figures | None = None
    alike: tuple[str, ...] | None = None

    @property
    def objective_s(self) -> float | None:
        return None if self.figures is None else self.figures.objective_s

    @property
    def has_plan(self) -> bool:
        return self.objective_s is not None

    @property
    def ran(self) -> bool:
        """Whether the search was made, with a plan or without."""
        return self.runtime_s is not None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row among its fellows: place is its position in the order of arrival, bound_s the best bound
    proved by any of them for its contiguity, gap (objective - bound) / objective against that. apart: whether estimates
    tell its plan from the best, None for that itself and where it is not known."""

    row: Row
    place: int
    best: bool
    bound_s: float
    gap: float | None
    apart: bool | None


def result_row(planner: str, guarantee: str, source: str, result: Result, metrics: Metrics | None) -> Row:
    """The row of a solve. metrics: of its plan, None without one."""
    problem = result.problem
    return Row(
        planner,
        problem.contiguity.value,
        guarantee,
        source,
        result.status.value,
        result.stop_reason.value,
        bound_s=finite_or_none(result.bound_s) or 0.0,
        runtime_s=result.runtime_s,
        figures=None
        if metrics is None or result.plan is None
        else figures_of(
            problem,
            metrics,
            result.bound_s,
            result.objective_s,
            within=interval(problem, result.plan, result.objective_s),
        ),
    )


def best_bound_s(rows: Iterable[Row], contiguity: str) -> float:
    """The largest lower bound that any row proves for ``contiguity``: its own, or that of a looser one."""
    return max((row.bound_s for row in rows if row.contiguity in WITHIN[contiguity]), default=0.0)


def ranked(rows: Sequence[Row]) -> list[Ranked]:
    """The rows by contiguity (strictest first), then by objective, the quicker first among equals;
    those without a plan follow. Every plan as good as the best of its contiguity is marked."""
    entries = []
    for contiguity in WITHIN:
        bound_s = best_bound_s(rows, contiguity)
        mine = [(place, row) for place, row in enumerate(rows) if row.contiguity == contiguity]
        least = min((row.objective_s for _, row in mine if row.objective_s is not None), default=math.inf)
        best = [row.objective_s is not None and row.objective_s <= least * (1 + SAME) for _, row in mine]
        first = next((row for (_, row), is_best in zip(mine, best, strict=True) if is_best), None)
        group = [
            Ranked(row, place, is_best, bound_s, gap(row.objective_s, bound_s), None if is_best else _apart(first, row))
            for (place, row), is_best in zip(mine, best, strict=True)
        ]
        entries += sorted(group, key=lambda entry: _order(entry, least))
    return entries


def _apart(best: Row | None, row: Row) -> bool | None:
    """Whether estimates tell a plan from the best of its contiguity; None where that is not known."""
    if best is None or best.alike is None or row.alike is None:
        return None
    return best.planner not in row.alike and row.planner not in best.alike


def _order(entry: Ranked, least: float) -> tuple[float, ...]:
    row = entry.row
    if row.objective_s is None:
        return 1, {UNSUPPORTED: 1, FAILED: 2}.get(row.status, 0), 0.0, entry.place
    return 0, least if entry.best else row.objective_s, row.runtime_s or 0.0, entry.place


def contradictions(rows: Sequence[Row]) -> list[str]:
    """Claims that cannot all be true, as sentences: a bound above a plan's objective, or a proof of
    infeasibility beside a plan. Empty unless some planner is wrong."""
    sentences = []
    for row in rows:
        if row.objective_s is None:
            continue
        for other in rows:
            if other.contiguity not in WITHIN[row.contiguity]:
                continue
            if other.bound_s > row.objective_s * (1 + CONTRADICTION):
                sentences.append(
                    f"{other.planner} ({other.contiguity}) proves a bound of {other.bound_s:.9g} s, but {row.planner}"
                    f" ({row.contiguity}) has a plan of {row.objective_s:.9g} s"
                )
            if other.status == "INFEASIBLE":
                sentences.append(
                    f"{other.planner} ({other.contiguity}) proves that no plan fits, but {row.planner}"
                    f" ({row.contiguity}) has one"
                )
    return sentences


def family_story(rows: Sequence[Row]) -> str:
    """The best objective per contiguity in one line, strictest first, each against the one before;
    "" with fewer than two contiguities that have plans."""
    best: dict[str, float] = {}
    for row in rows:
        if row.objective_s is not None:
            best[row.contiguity] = min(row.objective_s, best.get(row.contiguity, math.inf))
    names = [name for name in WITHIN if name in best]
    if len(names) < 2:
        return ""
    times = text.seconds_alike([best[name] for name in names])
    words = [f"{names[0]} {times[0]}"]
    for (before, name), shown in zip(pairwise(names), times[1:], strict=True):
        words.append(f"{name} {shown} ({text.change(best[before], best[name], 5e-5)})")
    return ", ".join(words)


class TableRow(TypedDict):
    """cells: see `cells`. place: in the order asked. alike: whether estimates do not distinguish its plan from the
    best. current: whether its plan is on the page; can_show: whether it can be put there."""

    cells: dict[str, str]
    place: int
    best: bool
    alike: bool
    current: bool
    can_show: NotRequired[bool]


def cells(entries: Sequence[Ranked]) -> list[dict[str, str]]:
    """What a table shows of every row, as text: planner, contiguity, status, word (of the status, alone), objective,
    within (between which times it may lie), bound, gap, sample, rate, the three metrics by their names, peak, runtime,
    guarantee and source."""
    of = [entry.row.figures or NO_FIGURES for entry in entries]
    shown = {
        Objective.MAX_LOAD.value: text.seconds_alike([one.max_load_s for one in of], 4),
        Objective.MAKESPAN.value: text.seconds_alike([one.makespan_s for one in of], 4),
        Objective.ITERATION.value: text.seconds_alike([one.iteration_s for one in of], 4),
        "sample": text.seconds_alike([None if one.sample_s == one.objective_s else one.sample_s for one in of], 4),
        "rate": [text.rate(one.per_s).removesuffix(" /s") for one in of],
        "peak": [text.nbytes(one.peak_bytes) for one in of],
    }
    compared = text.seconds_alike([one.objective_s for one in of] + [e.row.bound_s or None for e in entries])
    shown["objective"], shown["bound"] = compared[: len(entries)], compared[len(entries) :]
    return [
        {
            "planner": entry.row.planner,
            "contiguity": entry.row.contiguity,
            "status": status_words(entry.row),
            "word": _word(entry.row),
            "within": (entry.row.figures or NO_FIGURES).within or text.NOTHING,
            "gap": text.percent(entry.gap),
            "runtime": text.seconds(entry.row.runtime_s),
            "guarantee": entry.row.guarantee,
            "source": entry.row.source,
            **{name: values[i] for name, values in shown.items()},
        }
        for i, entry in enumerate(entries)
    ]


def table(rows: Sequence[Row], shown: tuple[str, str] | None) -> list[TableRow]:
    """The page's rows of the planners that ran.

    shown: planner and contiguity of the plan on the page.
    """
    entries = [entry for entry in ranked(rows) if entry.row.ran]
    return [
        {
            "cells": cell,
            "place": entry.place,
            "best": entry.best,
            "alike": entry.apart is False,
            "current": entry.row.has_plan and (entry.row.planner, entry.row.contiguity) == shown,
        }
        for entry, cell in zip(entries, cells(entries), strict=True)
    ]


def left_out(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Why planners could not be asked, or broke: planners (with the contiguities where it is not all of
    them), status and reason; those with one reason together."""
    places: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in rows:
        if not row.ran:
            planners = places.setdefault((status_words(row), " ".join(row.reason.split())), {})
            planners.setdefault(row.planner, []).append(row.contiguity)
    every = len({row.contiguity for row in rows})
    return [
        {
            "planners": ", ".join(
                planner if len(where) == every else f"{planner} ({', '.join(where)})"
                for planner, where in planners_left.items()
            ),
            "status": status,
            "reason": reason,
        }
        for (status, reason), planners_left in places.items()
    ]


def status_words(row: Row) -> str:
    """ "feasible", or why the search ended where that is news: "feasible, time limit"."""
    why = text.words(row.stop_reason) if row.stop_reason in ("TIME_LIMIT", "CANCELLED", "STATE_LIMIT") else ""
    word = _word(row)
    return f"{word}, {why}" if why and row.status in ("FEASIBLE", "NO_PLAN") else word


def _word(row: Row) -> str:
    return text.words(row.status)
