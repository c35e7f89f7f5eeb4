"""What one sees in the schedule of a plan: the kinds of its bars, and a sentence for those who see none."""

from __future__ import annotations

from explorer.view.plan_types import PlanView, used_devices
from explorer.view.timeline.phases import is_pipelined
from explorer.words import text
from explorer.words.actions import KIND_WORDS, TRANSFER

KEYS = (("F", "forward"), ("B", "backward"), ("I", "inputs"), ("W", "weights"), ("R", "again"), ("U", "update"),
        ("X", "exchange"), ("T", "transfer"))  # fmt: skip
"""Kinds in the legend's order, with the name of their swatch."""
VISIBLE = 1 / 400
"""Share of the schedule from which on a bar is more than a line."""
LEGEND_WORDS = {**KIND_WORDS, "I": "input gradients", "W": "weight gradients", "R": "recomputed forward"}


def sentence(plan: PlanView) -> str:
    """Of a plan's view."""
    used = used_devices(plan)
    on = text.plural(used, "device")
    if plan["objective"] == "makespan":
        return f"{plan['mini_batch']:,} samples pass once through {on}; the row that is never idle decides the time."
    if used == 1:
        return f"One device does all the work on {text.plural(plan['mini_batch'], 'sample')}."
    if not is_pipelined(plan):
        return f"The mini-batch passes {on} in one piece: most of them wait most of the time."
    sizes = {stage["micro_batch_size"] for stage in plan["stages"]}
    if len(sizes) > 1:
        pieces = "The mini-batch runs in pieces"
    else:
        size = sizes.pop()
        pieces = f"{plan['mini_batch'] // size:,} micro-batches of {text.plural(size, 'sample')} pass {on}"
    return (
        f"{pieces}: forwards (plain) fill the pipeline, backwards (hatched) follow, and"
        f" {text.percent(plan['metrics']['bubble'])} of the devices' time is idle."
    )


def legend_kinds(plan: PlanView) -> list[tuple[str, str]]:
    """(swatch, words) of the kinds of bars of a plan's view."""
    there = _worth(plan)
    return [(name, LEGEND_WORDS[kind]) for kind, name in KEYS if kind in there]


def _worth(plan: PlanView) -> set[str]:
    """The kinds whose bars can be seen."""
    seen: dict[str, float] = {}
    bars = plan["bars"]
    for kind, start, end in zip(bars["kind"], bars["start_s"], bars["end_s"], strict=True):
        seen[kind] = max(seen.get(kind, 0.0), end - start)
    if plan["by_operator"]:  # hundreds of them, each of them short
        return set(seen)
    return {kind for kind, longest in seen.items() if kind == TRANSFER or longest > plan["span_s"] * VISIBLE}
