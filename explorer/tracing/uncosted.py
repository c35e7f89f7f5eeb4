"""What the FLOPs of a graph leave open, as notes: operators that read weights and have no formula, and how
many rows each expert is taken to get."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from explorer.tracing.captured import Captured
from explorer.tracing.flops import GROUPED, has_formula
from explorer.tracing.fold import Folded, is_view

SHOWN = 3
"""Operators that a note names."""


def notes(captured: Captured, folded: Folded) -> tuple[str, ...]:
    """Of the operators of ``folded``."""
    return (*_without_formula(captured, folded), *_loads(captured, folded))


def _without_formula(captured: Captured, folded: Folded) -> Iterator[str]:
    calls: dict[str, int] = defaultdict(int)
    weights: dict[str, int] = {}
    for members in folded.groups:
        for position in members:
            node = captured.nodes[position]
            if has_formula(node.target) or is_view(captured, node):
                continue
            read = {captured.root(name) for _, name in node.tensors} & captured.parameters.keys()
            if read:
                calls[node.target] += 1
                weights.update({name: captured.values[name].numel for name in read})
    if not calls:
        return
    most = sorted(calls, key=lambda target: (-calls[target], target))
    told = ", ".join(f"{target} x {calls[target]}" for target in most[:SHOWN]) + (", ..." if len(most) > SHOWN else "")
    total = sum(captured.values[name].numel for name in captured.parameters)
    several = sum(calls.values()) > 1
    yield (
        f"{sum(calls.values())} {'operators read' if several else 'operator reads'} {sum(weights.values()):,} of"
        f" {total:,} parameters and {'have' if several else 'has'} no formula for FLOPs ({told}): counted as one an"
        " element of what goes in and comes out, which is far too few for a product; calibrate measures them"
    )


def _loads(captured: Captured, folded: Folded) -> Iterator[str]:
    products = [captured.nodes[p] for members in folded.groups for p in members if captured.nodes[p].target in GROUPED]
    sizes = set()
    for node in products:
        rows, matrices = (captured.values[name].shape for _, name in node.tensors[:2])
        if len(rows) == 2 and len(matrices) == 3:
            sizes.add((matrices[0], math.ceil(rows[0] / matrices[0])))
    for experts, each in sorted(sizes):
        yield (
            f"mixture of experts: {experts} experts are taken to be loaded evenly, {each:,} rows an expert for"
            f" {captured.samples:,} samples; which rows go where is in the values"
        )
