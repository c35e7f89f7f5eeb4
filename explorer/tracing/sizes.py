"""What each operator of a folded graph computes, moves and keeps, at the batch it was captured at."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

from explorer.tracing.captured import ITEM_BYTES, Captured, Exchange, Node
from explorer.tracing.flops import BAGS, flops
from explorer.tracing.fold import Folded, is_view
from solvers.problem.collectives import COLLECTIVE
from solvers.problem.graph import Amount

LOOKUPS = BAGS | {"aten.embedding", "aten.index_select", "aten.gather", "aten.index"}
"""Operators that read, of their first argument, only some rows and not the whole table."""

RECEIVED = ("key", "value")
"""Arguments of attention that come round a ring."""

POSITION_BYTES = ITEM_BYTES["int64"]
"""A sparse gradient holds the position of each row."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """flops; bytes read of activations and of parameters; bytes written; bytes saved for the backward
    and bytes of outputs that are not; bytes of the activations it reads that carry a gradient; bytes of
    the gradient of a table that holds only the rows looked up and their positions, 0 if it is dense; what members of a
    tensor-parallel group exchange, and what they do along the outer axis of one that divides a model twice."""

    flops: float
    read_bytes: float
    param_read_bytes: float
    written_bytes: float
    saved_bytes: float
    workspace_bytes: float
    gradient_bytes: float
    sparse_gradient_bytes: float
    exchange: Exchange
    outer: Exchange


def measure(captured: Captured, folded: Folded) -> list[Sizes]:
    """The sizes of every operator, in the order of ``folded.groups``."""
    saved = [0.0] * len(captured.nodes)
    made_inside = [0.0] * len(captured.nodes)
    saved_values = set()
    for entry in captured.saved:
        saved[entry.node] += entry.nbytes
        if entry.value is None:
            made_inside[entry.node] += entry.nbytes
        else:
            saved_values.add(entry.value)
    return [_sizes(captured, group, saved, made_inside, saved_values) for group in folded.groups]


def _sizes(
    captured: Captured, group: tuple[int, ...], saved: list[float], made_inside: list[float], saved_values: set[str]
) -> Sizes:
    values = captured.values
    operations = 0.0
    written = 0.0
    temporary = 0.0
    sparse = 0.0
    inputs: dict[str, float] = {}
    weights: dict[str, float] = {}
    carrying: dict[str, float] = {}
    own = {output for position in group for output in captured.nodes[position].outputs}
    for position in group:
        node = captured.nodes[position]
        written += made_inside[position]
        if is_view(captured, node):
            continue
        if node.target.startswith(COLLECTIVE):  # its time is that of the exchange
            temporary += sum(values[output].nbytes for output in node.outputs if output not in saved_values)
            continue
        operations += node.rounds * flops(
            node, values, frozenset(name for _, name in node.tensors if captured.root(name) in captured.parameters)
        )
        written += node.rounds * sum(values[output].nbytes for output in node.outputs)
        if node.rounds > 1:  # what has arrived for the next round
            temporary += sum(values[name].nbytes for argument, name in node.tensors if argument in RECEIVED)
        looked_up = rows_bytes(captured, node) if node.target in LOOKUPS else 0.0
        if node.constants.get("sparse") and looked_up:
            sparse += looked_up + POSITION_BYTES * values[node.tensors[1][1]].numel
        for argument, (_, name) in enumerate(node.tensors):
            part = captured.portion(name)
            root = captured.root(name)
            # A view that repeats (expand) reads no more than there is.
            size = float(min(values[name].nbytes, values[part].nbytes))
            if node.target in LOOKUPS and argument == 0:
                size = looked_up
            if root in captured.parameters:
                weights[root] = max(weights.get(root, 0.0), size)
            else:
                inputs[part] = size * node.rounds
                if values[name].requires_grad and root not in own:
                    carrying[part] = size
        for output in node.outputs:
            if values[output].base is None and output not in saved_values:
                temporary += values[output].nbytes
    return Sizes(
        flops=operations,
        read_bytes=sum(inputs.values()),
        param_read_bytes=sum(weights.values()),
        written_bytes=written,
        saved_bytes=sum(saved[position] for position in group),
        workspace_bytes=temporary,
        gradient_bytes=sum(carrying.values()),
        sparse_gradient_bytes=sparse,
        exchange=_total([captured.nodes[position].exchange for position in group]),
        outer=_total([captured.nodes[position].outer for position in group]),
    )


def _total(exchanges: list[Exchange]) -> Exchange:
    return Exchange(*(sum(each) for each in zip(*map(astuple, exchanges), strict=True)))


def rows_bytes(captured: Captured, node: Node) -> float:
    """Bytes of the rows that one of `LOOKUPS` reads: one for every index of a bag, else those it returns."""
    values = captured.values
    if node.target in BAGS:
        table, indices = (values[name] for _, name in node.tensors[:2])
        return float(indices.numel * math.prod(table.shape[1:]) * ITEM_BYTES.get(table.dtype, 4))
    return float(sum(values[output].nbytes for output in node.outputs))


@dataclass(frozen=True, slots=True)
class Line:
    """Two batches, through which every quantity is taken as a straight line in the samples."""

    samples: int
    more_samples: int

    def amount(self, value: float, at_more: float) -> Amount:
        """Exact at both batches for what is linear. What grows faster than the samples is taken as
        proportional at the first batch; what shrinks, as fixed."""
        per_sample = (at_more - value) / (self.more_samples - self.samples)
        fixed = value - per_sample * self.samples
        if per_sample <= 0:
            return Amount(fixed=float(value))
        if fixed <= 1e-9 * value:
            return Amount(per_sample=value / self.samples)
        return Amount(fixed, per_sample)
