"""One plan beside another: whether they answer one question, and how much faster one of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.view.figures import Figures, figures
from explorer.view.graph.stage_boxes import depth
from explorer.view.plan_types import PlanView
from explorer.view.session import IN_SEQUENCE
from explorer.words import text

EQUAL = 0.002
"""Relative difference below which two plans are as fast as each other to people."""
SAME = "equally fast"
NAMES = {
    "graph-pipeline": "Graph pipeline",
    "pipedream-iter/in-sequence": "Sequential",
    "equal": "Equal split",
    "data-parallel": "Data parallel",
    "auto": "Auto",
    "pipedream": "PipeDream",
    "gpipe": "GPipe",
    "piper": "Piper",
}
"""What members of a pair are called beside each other; others by their own name."""
PROPER = ("pipedream", "gpipe", "piper")
"""Names that keep their capital inside a sentence."""


@dataclass(frozen=True, slots=True)
class Member:
    """A plan of a pair. name: what it is called there. depth: stages that a micro-batch passes one after the other.
    chain: whether every stage but auxiliary ones lies on its longest path."""

    name: str
    figures: Figures
    depth: int
    span_s: float
    chain: bool


def member(plan: PlanView, name: str) -> Member:
    """Of a plan's view."""
    deepest = depth(plan)
    chain = deepest == sum(1 for stage in plan["stages"] if not stage["glue"])
    return Member(name, figures(plan), deepest, plan["span_s"], chain)


def shown_name(member: str) -> str:
    """ "pipedream-iter/in-sequence" -> "Sequential"; "equal/in-sequence" -> "Equal split in sequence"."""
    planner = member.removesuffix(IN_SEQUENCE)
    suffix = " in sequence" if planner != member else ""
    return NAMES.get(member, NAMES.get(planner, planner) + suffix)


def story(pair: Sequence[Member]) -> str:
    """A pair in one line: "Graph pipeline 12.3 ms, depth 3, bubble 14 %; sequential 15.1 ms, depth 12, bubble 31 %"."""
    times = text.seconds_alike([one.figures.objective_s for one in pair], 3)
    words = []
    for one, shown in zip(pair, times, strict=True):
        bubble = text.percent(round(one.figures.idle or 0.0, 2))
        words.append(f"{shown_name(one.name)} {shown}, depth {one.depth}, bubble {bubble}")
    planner = pair[1].name.removesuffix(IN_SEQUENCE)
    if planner not in PROPER and (pair[1].name in NAMES or planner in NAMES):
        words[1] = words[1][:1].lower() + words[1][1:]
    return "; ".join(words)


def pair_verdict(pair: Sequence[Member]) -> str:
    """ "1.23× faster; both are chains.": the first beside the second, and why where there is no difference."""
    first, second = pair
    words = verdict(first.figures, second.figures)
    if not (first.chain and second.chain):
        return f"{words}."
    return f"{words}, as both are chains of stages." if words == SAME else f"{words}; both are chains."


def is_one_question(one: Figures, other: Figures) -> bool:
    """Whether both answer it, so that one of them may be called better."""
    return one.question == other.question


def ratio(one: Figures, than: Figures) -> float | None:
    """How many times as fast a plan is, a sample; None where the times are not of one objective and model. It says
    nothing of which is better unless `is_one_question`."""
    if (one.graph, one.objective) != (than.graph, than.objective) or not one.sample_s or not than.sample_s:
        return None
    return than.sample_s / one.sample_s


def verdict(one: Figures, than: Figures) -> str:
    """ "1.23× faster", or "not comparable" with a plan that answers another question."""
    times = ratio(one, than)
    if times is None or not is_one_question(one, than):
        return "not comparable"
    if abs(times - 1) < EQUAL:
        return SAME
    return f"{factor(times)} faster" if times > 1 else f"{factor(1 / times)} slower"


def factor(times: float) -> str:
    """ "1.23×"; three digits below 10."""
    return f"{times:.2f}×" if times < 9.995 else f"{times:,.0f}×"
