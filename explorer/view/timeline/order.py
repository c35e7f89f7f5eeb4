"""In which order a plan takes its micro-batches, beside what its stages take in 1F1B or further ahead, in words."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.view.plan_types import OrderView, OtherOrder, PlanView
from explorer.words import text
from solvers.evaluation.evaluate import Judged, judge
from solvers.formats.json_text import finite_or_none
from solvers.plan.plan import Plan
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.schedules.textbook import further_ahead, one_f_one_b

MOST_ACTIONS = 20_000
"""Of an order that is compared with others while somebody waits."""
NAMES = {
    "1f1b": "1F1B",
    "gpipe": "GPipe",
    "interleaved": "interleaved 1F1B",
    "zero-bubble": "zero-bubble",
    "zb-v": "ZB-V",
    "v-half": "V-Half",
    "v-min": "V-Min",
    "dualpipe": "DualPipe",
    "dualpipe-v": "DualPipeV",
    "looped-bfs": "looped breadth-first",
    "none": "one pass",
}
WORTH = 1e-3
"""A relative difference below this is none."""


def order_of(problem: Problem, plan: Plan) -> OrderView:
    """See `OrderView`."""
    order: OrderView = {"name": plan.pipeline, "in_flight": _in_flight(problem, plan), "textbook": None, "ahead": None}
    small = sum(map(len, plan.order)) <= MOST_ACTIONS
    if problem.objective is not Objective.ITERATION or plan.pipeline not in ("1f1b", "custom") or not small:
        return order
    if len(plan.stages) == 1 or (textbook := one_f_one_b(problem, plan)) is None:
        return order
    if textbook.order != plan.order:
        return {**order, "name": "custom", "textbook": _other(judge(problem, textbook))}
    tried = [judge(problem, other) for other in further_ahead(problem, plan)]
    fitting = [one for one in tried if one.feasible]
    ahead = _other(min(fitting, key=lambda one: one.objective_s)) if fitting else None
    return {**order, "name": "1f1b", "ahead": ahead}


def _in_flight(problem: Problem, plan: Plan) -> list[int]:
    most = [0] * len(problem.cluster)
    for stage in plan.stages:
        for device in stage.devices:
            most[device] = max(most[device], stage.in_flight)
    return most


def _other(judged: Judged) -> OtherOrder:
    return {
        "objective_s": finite_or_none(judged.objective_s),
        "peak_bytes": finite_or_none(judged.peak_bytes),
        "over": judged.violation,
    }


def order_name(plan: PlanView) -> str:
    """ "1F1B", "GPipe", "own order, 8 in flight"."""
    order = plan["order"]
    if order["name"] in NAMES:
        return NAMES[order["name"]]
    return f"own order, {max(order['in_flight'], default=1)} in flight"


def order_words(plan: PlanView) -> tuple[str, Pipeline | None]:
    """What the order of the plan is beside 1F1B, and the pipeline to plan with for the other; "" where nothing is to be
    said."""
    order = plan["order"]
    if (textbook := order["textbook"]) is not None:
        most = max(order["in_flight"])
        where = plan["devices"][order["in_flight"].index(most)]["name"]
        return (
            f"Its own order, which launchers do not run: {where} keeps {most} micro-batches in"
            f" flight. In 1F1B, as Megatron-LM and DeepSpeed run it, these stages {_beside(plan, textbook)}.",
            Pipeline.ONE_F_ONE_B,
        )
    if order["name"] != "1f1b" or len(plan["stages"]) < 2:
        return "", None
    words, ahead = "1F1B, as Megatron-LM and DeepSpeed run it.", order["ahead"]
    if ahead is None or not _faster(plan, ahead):
        return words, None
    return f"{words} With more in flight these stages {_beside(plan, ahead)}.", Pipeline.K_F_K_B


def export_words(plan: PlanView) -> str:
    """What launchers run in place of the plan's order, before it is taken to them."""
    textbook = plan["order"]["textbook"]
    if textbook is None:
        return ""
    return (
        "Megatron-LM, DeepSpeed and torchtitan run these stages in 1F1B, not in the plan's own order: they"
        f" {_beside(plan, textbook)}."
    )


def launched_words(problem: Problem, plan: Plan, launcher: str, pipeline: Pipeline) -> str:
    """ "the order of micro-batches: Megatron runs 1F1B, in which these stages take 3.18 s (+12.4 %) ..."; "" where the
    plan's order is that."""
    if plan.pipeline == Pipeline.INTERLEAVED == pipeline:
        return ""
    other = one_f_one_b(problem, plan, pipeline)
    name = NAMES[pipeline.value]
    if other is None:
        return "" if plan.pipeline == pipeline.value else f"the order of micro-batches: {launcher} runs {name}"
    if other.order == plan.order:
        return ""
    own, its = judge(problem, plan), judge(problem, other)
    words = _taken(own.objective_s, own.peak_bytes, _other(its))
    return f"the order of micro-batches: {launcher} runs {name}, in which these stages {words}"


def _faster(plan: PlanView, other: OtherOrder) -> bool:
    own, its = plan["objective_s"], other["objective_s"]
    return own is not None and its is not None and its < own * (1 - WORTH)


def _beside(plan: PlanView, other: OtherOrder) -> str:
    return _taken(plan["objective_s"], plan["figures"]["peak_bytes"], other)


def _taken(seconds: float | None, peak_bytes: float | None, other: OtherOrder) -> str:
    """ "take 3.18 s (+12.4 %) and hold 41 GiB at most (-14.7 GiB)"."""
    if other["objective_s"] is None:
        return f"cannot run: {other['over']}"
    parts: Sequence[str] = [f"take {text.seconds(other['objective_s'])}"]
    if seconds:
        parts = [f"{parts[0]} ({text.signed(other['objective_s'] / seconds - 1)})"]
    if other["peak_bytes"] is not None:
        change = "" if peak_bytes is None else f" ({text.signed(other['peak_bytes'] - peak_bytes, text.nbytes)})"
        parts = [*parts, f"hold {text.nbytes(other['peak_bytes'])} at most{change}"]
    words = " and ".join(parts)
    return f"{words}, which does not fit" if other["over"] else words
