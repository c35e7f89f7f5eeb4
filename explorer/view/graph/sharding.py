"""What the members of a tensor-parallel group have of each operator's output, and where that changes: chips of boxes,
words on edges, facts on a box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from explorer.view.plan_types import PlanView, Sharding, Skeleton
from explorer.words import text
from solvers.problem.collectives import exchange_kind
from solvers.problem.graph import OpGraph, Phase

if TYPE_CHECKING:
    from explorer.view.graph.elements import GraphView

SHOWN = 2
"""Placements of a module's outputs that its chip names."""


def sharding_of(graph: OpGraph) -> Sharding | None:
    """None where tensors are whole."""
    if graph.tensor_parallel == 1:
        return None
    before = [""] * len(graph)
    for tensor in graph.tensors:
        made = graph.operators[tensor.producer]
        for consumer in tensor.consumers if made.phase is Phase.FORWARD else ():
            before[consumer] = before[consumer] or made.placement
    return {
        "members": list(graph.degrees),
        "placements": [operator.placement for operator in graph.operators],
        "before": before,
        "kinds": [exchange_kind(o).replace("_", "-") if o.exchanges else "" for o in graph.operators],
        "exchanged": [(o.sent_bytes.fixed, o.sent_bytes.per_sample) for o in graph.operators],
    }


def chip(view: GraphView, skeleton: Skeleton, box: str) -> str:
    """What a box's output is to the members of a group: "S(heads)", of a module that of what leaves it; "" where
    tensors are whole."""
    sharding = skeleton.get("sharding")
    if sharding is None:
        return ""
    if box.startswith("o:"):
        return sharding["placements"][int(box[2:])]
    leaving = {t for (source, _), tensors in view.edges.items() if source == box for t in tensors}
    makers = sorted({skeleton["tensors"][t][0] for t in leaving})
    words = list(dict.fromkeys(sharding["placements"][i] for i in makers if sharding["placements"][i]))
    return " ".join(words[:SHOWN]) + (" …" if len(words) > SHOWN else "")


def chips(view: GraphView, skeleton: Skeleton, plan: PlanView) -> dict[str, tuple[str, bool]]:
    """By edge what a tensor on it is to the members of a group, "S(heads)", or, where that was changed for its readers,
    "all-gather 12 MiB → R", what each member sends for a micro-batch of the forward; and whether it was. One edge out
    of a box says it, the straightest."""
    if "sharding" not in skeleton:
        return {}
    bent = view.layout.routes.keys() | view.layout.fans
    out: dict[str, int] = {}
    for number, (source, _) in enumerate(view.edges):
        if source not in out or (out[source] in bent and number not in bent):
            out[source] = number
    tensors = list(view.edges.values())
    labels: dict[str, tuple[str, bool]] = {}
    for source, number in out.items():
        placed = chip(view, skeleton, source)
        exchanged = exchange_words(sorted({skeleton["tensors"][t][0] for t in tensors[number]}), skeleton, plan)
        words = " → ".join(filter(None, (exchanged, placed)))
        if words:
            labels[f"e:{number}"] = (words, bool(exchanged))
    return labels


def exchange_words(operators: Sequence[int], skeleton: Skeleton, plan: PlanView) -> str:
    """ "all-gather 12 MiB": what each member sends for a micro-batch in these operators; "" for nothing."""
    sharding = skeleton.get("sharding")
    sent: dict[str, float] = {}
    if sharding is None:
        return ""
    for i in (i for i in operators if sharding["kinds"][i]):
        (fixed, per_sample), kind = sharding["exchanged"][i], sharding["kinds"][i]
        sent[kind] = sent.get(kind, 0.0) + fixed + per_sample * plan["samples"] / max(1, len(plan["placement"][i]))
    words = [f"{kind} {text.nbytes(nbytes)}" for kind, nbytes in sorted(sent.items()) if nbytes]
    return text.listing(words, SHOWN) if words else ""


def sharding_rows(members: Sequence[int], skeleton: Skeleton, plan: PlanView | None) -> list[tuple[str, str]]:
    """Facts on a box of these operators: what its output is, if it is one operator; and what is exchanged."""
    sharding = skeleton.get("sharding")
    if sharding is None:
        return []
    rows: list[tuple[str, str]] = []
    anchors = {skeleton["anchors"][i] for i in members}
    if len(anchors) == 1:
        own = anchors.pop()
        before, after = sharding["before"][own], sharding["placements"][own]
        change = skeleton["types"][own].startswith("collective.") and before and before != after
        rows.append((f"On each of {sharding['members'][own]}", f"{before} → {after}" if change else after))
    for name, phases in (("Exchanges", ("forward",)), ("Exchanges back", ("backward_input", "backward_weight"))):
        here = [i for i in members if skeleton["phases"][i] in phases]
        if plan is not None and (words := exchange_words(here, skeleton, plan)):
            rows.append((name, words))
    return rows
