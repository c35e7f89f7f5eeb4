"""What the bars of a schedule are: the kinds that can be seen in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from explorer.words.actions import KIND_WORDS, TRANSFER

KEYS = (("F", "forward"), ("B", "backward"), ("I", "inputs"), ("W", "weights"), ("R", "again"), ("U", "update"),
        ("T", "transfer"))  # fmt: skip
"""Kinds in the legend's order, with the name of their swatch."""
VISIBLE = 1 / 400
"""Share of the schedule from which on a bar is more than a line."""
LEGEND_WORDS = {**KIND_WORDS, "I": "input gradients", "W": "weight gradients", "R": "recomputed forward"}


def legend_kinds(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(swatch, words) of the kinds of bars of a plan's view."""
    there = _worth(plan)
    return [(name, LEGEND_WORDS[kind]) for kind, name in KEYS if kind in there]


def _worth(plan: Mapping[str, Any]) -> set[str]:
    """The kinds whose bars can be seen."""
    seen: Counter[str] = Counter()
    found = plan["bars"]
    for kind, start, end in zip(found["kind"], found["start_s"], found["end_s"], strict=True):
        seen[kind] = max(seen[kind], end - start)
    if plan["by_operator"]:  # hundreds of them, each of them short
        return set(seen)
    return {kind for kind, longest in seen.items() if kind == TRANSFER or longest > plan["span_s"] * VISIBLE}
