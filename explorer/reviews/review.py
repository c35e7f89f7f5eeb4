"""A review of one plan: may it be used, and what should one know before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NotRequired, TypedDict

from explorer.reviews import questions
from explorer.reviews.lines import Line, Verdict, worst
from explorer.reviews.plan_hash import plan_hash
from explorer.reviews.transfers import Transfer, transfers
from explorer.view.folded import folded
from explorer.view.graph.stage_graph import again_s
from explorer.view.plan_types import Device, PlanView
from explorer.view.plan_view import devices, plan_view, result_view
from explorer.view.timeline.bars import MAX_BARS, bars
from explorer.view.timeline.exchanges import exchanges, tensor_placements
from explorer.words import text
from solvers.errors import PlacementError
from solvers.evaluation.evaluate import Metrics, evaluate, judge
from solvers.evaluation.simulation import simulate
from solvers.formats.op_graph_json import graph_hash
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.planners.check import check
from solvers.problem.problem import Problem

CLAIM_TOLERANCE = 1e-6
"""Relative difference up to which the objective that a result claims is the one evaluated."""
SHOWN_RULES = 5
FINE = 40_000
"""Spans up to which a drawing is made of all of them."""
MOST_TRANSFERS = 20
"""Transfers that are listed one by one."""


@dataclass(frozen=True)
class Review:
    """lines: in the order of the questions. view and metrics: of the plan, None where it cannot be simulated.
    transfers: what crosses devices, the largest first. broken: the rules that it breaks, a sentence each."""

    lines: tuple[Line, ...]
    broken: tuple[str, ...]
    plan_sha256: str
    graph_sha256: str
    transfers: tuple[Transfer, ...]
    view: PlanView | None
    metrics: Metrics | None

    @property
    def verdict(self) -> Verdict:
        return worst(self.lines)


def review(problem: Problem, plan: Plan, result: Result | None = None) -> Review:
    """Look a plan over. result: what the search claimed of it, checked too. Never raises for what is wrong with the
    plan: that is a line with the verdict FAIL."""
    broken = rules_broken(problem, plan, result)
    lines = [_rules(broken), questions.placed(problem, plan)]
    view, metrics = None, None
    sent: tuple[Transfer, ...] = ()
    if lines[1].verdict is Verdict.PASS:
        try:
            view = view_of(problem, plan, result)
            metrics = evaluate(problem, plan)
            shown = folded(problem, plan, simulate(problem, plan))
            sent = transfers(shown.problem, shown.plan)
        except PlacementError as error:
            what = "no deadlock" if "wait" in str(error) else "simulation"
            lines.append(Line(what, Verdict.FAIL, str(error)))
            view = metrics = None
    if view is not None and metrics is not None:
        names = [device["name"] for device in view["devices"]]
        lines += questions.counted(problem, plan, metrics, sent)
        peaks = [metrics.peak_memory_bytes[same[0]] for same in shown.every]
        lines += questions.divided(problem, plan)
        lines += questions.memory(shown.problem, shown.plan, peaks, names)
        lines += [questions.waiting(shown.problem, shown.plan, shown.schedule), questions.largest(sent, view)]
        lines += questions.balance(view, metrics)
    seconds = math.nan if metrics is None else metrics.objective_s(problem.objective)
    lines += [questions.proved(result), *questions.known(problem, plan, seconds)]
    digest = plan_hash(problem, plan)
    lines.append(Line("plan hash", Verdict.PASS, digest))
    return Review(tuple(lines), broken, digest, graph_hash(problem.as_traced.graph), sent, view, metrics)


def rules_broken(problem: Problem, plan: Plan, result: Result | None) -> tuple[str, ...]:
    """The rules the plan breaks, and the objective that the result claims if it is another than evaluated."""
    broken = check(problem, plan)
    if broken or result is None:
        return broken
    evaluated, claimed = judge(problem, plan).objective_s, result.objective_s
    if math.isclose(evaluated, claimed, rel_tol=CLAIM_TOLERANCE):
        return ()
    return (f"the file says its objective is {claimed} s, evaluated it is {evaluated} s",)


def view_of(problem: Problem, plan: Plan, result: Result | None = None) -> PlanView:
    """The view of a plan in a file, with what its result says of bound, planner and notes, if there is one. Its bars
    are the spans themselves, up to FINE of them: a drawing leaves out what repeats, where the page melts it.

    Raises InvalidPlan if it cannot be simulated."""
    view = None if result is None else result_view(replace(result, problem=problem, plan=plan))
    if view is None:
        objective = evaluate(problem, plan).objective_s(problem.objective)
        view = plan_view(problem, plan, planner="", objective_s=objective, bound_s=0.0)
    if view["by_operator"] or not MAX_BARS < view["spans"] <= FINE:
        return view
    exchanged = exchanges(problem, plan)
    _, plan, schedule, _ = folded(problem, plan, simulate(problem, plan))
    links = {use["resource"]: i for i, use in enumerate(view["links"])}
    return {**view, "bars": bars(schedule, 2 * FINE, again_s(plan, schedule), links, exchanged)}


class LineView(TypedDict):
    what: str
    verdict: str
    reason: str


class TransferView(TypedDict):
    """source, target: names of devices."""

    producer: str
    source: list[str]
    target: list[str]
    bytes: float
    times: int


class ReviewView(TypedDict):
    """See `review_object`."""

    verdict: str
    plan_sha256: str
    graph_sha256: str
    lines: list[LineView]
    largest_transfers: list[TransferView]
    tensor_placements: NotRequired[dict[str, str]]


def review_object(review: Review, problem: Problem) -> ReviewView:
    """A review as JSON: verdict, hashes, lines [{what, verdict, reason}] and the largest transfers."""
    fields: ReviewView = {
        "verdict": review.verdict.value,
        "plan_sha256": review.plan_sha256,
        "graph_sha256": review.graph_sha256,
        "lines": [{"what": line.what, "verdict": line.verdict.value, "reason": line.reason} for line in review.lines],
        "largest_transfers": transfer_rows(review, devices(problem) if review.view is None else review.view["devices"]),
    }
    if (divided := tensor_placements(problem)) is not None:
        fields["tensor_placements"] = divided
    return fields


def transfer_rows(review: Review, devices: Sequence[Device]) -> list[TransferView]:
    """The largest transfers of a review as plain data. devices: as in a plan's view."""
    return [
        {
            "producer": one.producer,
            "source": [devices[d]["name"] for d in one.source],
            "target": [devices[d]["name"] for d in one.target],
            "bytes": one.nbytes,
            "times": one.times,
        }
        for one in review.transfers[:MOST_TRANSFERS]
    ]


def _rules(broken: tuple[str, ...]) -> Line:
    if not broken:
        return Line("rules", Verdict.PASS, "the plan and its schedule keep all of them, checked independently")
    more = f"; and {len(broken) - SHOWN_RULES} more" if len(broken) > SHOWN_RULES else ""
    return Line("rules", Verdict.FAIL, "; ".join(text.short(rule, 300) for rule in broken[:SHOWN_RULES]) + more)
