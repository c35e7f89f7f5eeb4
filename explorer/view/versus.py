"""Two plans of one problem side by side: what each is, and how much faster one of them is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.view.graph.stage_boxes import depth
from explorer.view.session import IN_SEQUENCE
from explorer.words import text

EQUAL = 0.002
"""Relative difference below which two plans are as fast as each other to people."""
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
METRICS = {"iteration": "iteration_s", "makespan": "makespan_s", "max-load": "max_load_s"}


def name(member: str) -> str:
    """ "pipedream-iter/in-sequence" -> "Sequential"; "equal/in-sequence" -> "Equal split in sequence"."""
    planner = member.removesuffix(IN_SEQUENCE)
    suffix = " in sequence" if planner != member else ""
    return NAMES.get(member, NAMES.get(planner, planner) + suffix)


def is_chain(plan: Mapping[str, Any]) -> bool:
    """Whether every stage of a plan's view but glue lies on its longest path."""
    return depth(plan) == sum(1 for stage in plan["stages"] if not stage["glue"])


def facts(plan: Mapping[str, Any], member: str) -> dict[str, Any]:
    """What is compared of a plan's view: seconds (of its objective), depth, stages, bubble, chain. member:
    what the plan is called in its pair."""
    return {
        "member": member,
        "seconds": plan["metrics"][METRICS[plan["objective"]]],
        "depth": depth(plan),
        "stages": sum(1 for stage in plan["stages"] if not stage["glue"]),
        "bubble": plan["metrics"]["bubble"],
        "span_s": plan["span_s"],
        "chain": is_chain(plan),
    }


def story(told: Sequence[Mapping[str, Any]]) -> str:
    """Two plans (`facts` of each) in one line: "Graph pipeline 12.3 ms, depth 3, bubble 14 %; sequential
    15.1 ms, depth 12, bubble 31 %"."""
    first, second = told
    times = text.seconds_alike([first["seconds"], second["seconds"]], 3)
    words = []
    for fact, shown in zip(told, times, strict=True):
        bubble = text.percent(round(fact["bubble"], 2))
        words.append(f"{name(fact['member'])} {shown}, depth {fact['depth']}, bubble {bubble}")
    planner = second["member"].removesuffix(IN_SEQUENCE)
    if planner not in PROPER and (second["member"] in NAMES or planner in NAMES):
        words[1] = words[1][:1].lower() + words[1][1:]
    return "; ".join(words)


def moved(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], match: Mapping[int, int]) -> frozenset[int]:
    """The operators that are elsewhere in the second of two plans of one graph. before, after: the devices of each
    operator. match: device of the first plan -> its counterpart in the second."""
    pairs = enumerate(zip(before, after, strict=True))
    return frozenset(i for i, (on, to) in pairs if {match.get(device, -1) for device in on} != set(to))


def verdict(told: Sequence[Mapping[str, Any]]) -> str:
    """ "1.23x faster", or why there is no difference."""
    first, second = told
    if not first["seconds"] or not second["seconds"]:
        return "not comparable."
    ratio = second["seconds"] / first["seconds"]
    chains = first["chain"] and second["chain"]
    if abs(ratio - 1) < EQUAL:
        return "equally fast" + (", as both are chains of stages." if chains else ".")
    words = f"{factor(ratio)} faster" if ratio > 1 else f"{factor(1 / ratio)} slower"
    return words + ("; both are chains." if chains else ".")


def factor(ratio: float) -> str:
    """ "1.23×"; three digits below 10."""
    return f"{ratio:.2f}×" if ratio < 9.995 else f"{ratio:,.0f}×"
