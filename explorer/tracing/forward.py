"""The forward operators and tensors of a captured graph, before the backward is mirrored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from explorer.tracing.captured import Captured, Value
from explorer.tracing.fold import Folded, is_work
from explorer.tracing.parameters import parameters
from explorer.tracing.sizes import Line, Sizes
from solvers.problem.graph import Amount, Operator


@dataclass(frozen=True, slots=True)
class Edge:
    """A forward tensor: the part of an output that ``consumers`` read; those in ``with_gradient`` send
    a gradient back (their outputs depend on it and on a loss). value: its name in the capture. saver: the operator
    among whose saved bytes it is, -1 if none."""

    producer: int
    consumers: tuple[int, ...]
    with_gradient: frozenset[int]
    nbytes: Amount
    shape: tuple[int, ...]
    dtype: str
    value: str
    saver: int


@dataclass(frozen=True, slots=True)
class Forward:
    """operators (with their sizes at both batches), edges, trainable weights by operator, notes, and the
    operators that gradients pass through on the way from an output of the model."""

    operators: tuple[Operator, ...]
    sizes: tuple[tuple[Sizes, Sizes], ...]
    edges: tuple[Edge, ...]
    weights: tuple[Mapping[int, float], ...]
    notes: tuple[str, ...]
    differentiated: frozenset[int]
    line: Line


def forward(small: Captured, large: Captured, folded: Folded, sizes: Sequence[tuple[Sizes, Sizes]]) -> Forward:
    """``small`` and ``large`` are one model at two batches, with equal nodes."""
    line = Line(small.samples, large.samples)
    held = parameters(small, folded)
    reads = _reads(small, folded)
    sources = _sources(small, folded, reads)
    names = _names(small, folded)
    operators = []
    for group, leader in enumerate(folded.leaders):
        node = small.nodes[leader]
        at, more = sizes[group]

        def amount(what: str, at: Sizes = at, more: Sizes = more) -> Amount:
            return line.amount(getattr(at, what), getattr(more, what))

        moved = amount("read_bytes") + amount("written_bytes") + amount("param_read_bytes")
        operators.append(
            Operator(
                name=names[group],
                op_type=node.target,
                module_path=node.module_path,
                flops=amount("flops"),
                moved_bytes=moved,
                param_bytes=held.owned[group],
                frozen_bytes=held.frozen[group],
                factorable_bytes=held.factorable[group],
                buffer_bytes=held.buffers[group],
                saved_bytes=amount("saved_bytes"),
                workspace_bytes=amount("workspace_bytes"),
                colocation=held.colocation.get(group),
                replicable=group in sources,
                checkpoint=node.region,
                causal=any(bool(small.nodes[member].constants.get("is_causal")) for member in folded.groups[group]),
                exchanged_bytes=line.amount(at.exchange.forward_bytes, more.exchange.forward_bytes),
                exchange_steps=at.exchange.forward_steps,
                outer_bytes=line.amount(at.outer.forward_bytes, more.outer.forward_bytes),
                outer_steps=at.outer.forward_steps,
                placement=next(
                    (small.nodes[m].placement for m in reversed(folded.groups[group]) if small.nodes[m].placement), ""
                ),
                members=node.members,
            )
        )
    reached = _on_a_gradient_path(small, folded, reads)
    edges = _edges(small, large, folded, reads, reached, line)
    return Forward(tuple(operators), tuple(sizes), edges, held.weights, held.notes, frozenset(reached), line)


def _names(captured: Captured, folded: Folded) -> list[str]:
    """ "blocks.3.attn.qkv/linear"; later ones of the same name get "#2", "#3", ..."""
    seen: Counter[str] = Counter()
    names = []
    for leader in folded.leaders:
        node = captured.nodes[leader]
        short = node.target.rpartition(".")[2]
        name = f"{node.module_path}/{short}" if node.module_path else short
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return names


def _reads(captured: Captured, folded: Folded) -> list[dict[str, bool]]:
    """Per operator: the values from outside it that it reads -> whether a gradient flows back."""
    reads: list[dict[str, bool]] = []
    for group, members in enumerate(folded.groups):
        names: dict[str, bool] = {}
        for position in members:
            node = captured.nodes[position]
            differentiable = any(captured.values[output].requires_grad for output in node.outputs)
            for _, name in node.tensors:
                root = captured.root(name)
                if folded.producer.get(root) == group:
                    continue
                names[name] = names.get(name, False) or (differentiable and captured.values[name].requires_grad)
        reads.append(names)
    return reads


def _on_a_gradient_path(captured: Captured, folded: Folded, reads: list[dict[str, bool]]) -> set[int]:
    """Operators from which an output of the model that requires a gradient can be reached."""
    backward: nx.DiGraph[int] = nx.DiGraph()
    backward.add_nodes_from(range(len(reads)))
    for group, names in enumerate(reads):
        for name, carries in names.items():
            producer = folded.producer.get(captured.root(name))
            if carries and producer is not None:
                backward.add_edge(group, producer)
    reached: set[int] = set()
    for output in captured.outputs:
        producer = folded.producer.get(captured.root(output))
        if producer is not None and captured.values[output].requires_grad and producer not in reached:
            reached |= {producer} | nx.descendants(backward, producer)
    return reached


def _edges(
    small: Captured, large: Captured, folded: Folded, reads: list[dict[str, bool]], reached: set[int], line: Line
) -> tuple[Edge, ...]:
    """One per part of an output that is read; and one without consumers for the whole of an output of
    which only slices are read, so that its shape is known."""
    consumers: dict[str, dict[int, bool]] = {root: {} for root in folded.producer}
    for group, names in enumerate(reads):
        for name, carries in names.items():
            if small.root(name) in folded.producer:
                readers = consumers.setdefault(small.portion(name), {})
                readers[group] = readers.get(group, False) or (carries and group in reached)
    edges = []
    saved = _Savers(small, folded)
    for part, readers in consumers.items():
        value: Value = small.values[part]
        edges.append(
            Edge(
                producer=folded.producer[small.root(part)],
                consumers=tuple(sorted(readers)),
                with_gradient=frozenset(group for group, carries in readers.items() if carries),
                nbytes=line.amount(value.nbytes, large.values[part].nbytes),
                shape=value.shape,
                dtype=value.dtype,
                value=part,
                saver=saved.of(part),
            )
        )
    return tuple(sorted(edges, key=lambda edge: edge.producer))


class _Savers:
    """Who saves the storages of a capture first."""

    def __init__(self, captured: Captured, folded: Folded) -> None:
        group_of = {position: group for group, members in enumerate(folded.groups) for position in members}
        self.captured = captured
        self.group: dict[str, int] = {}
        self.left: dict[str, int] = {}
        for entry in captured.saved:
            if entry.value is not None and entry.nbytes and entry.node in group_of:
                self.group[entry.value], self.left[entry.value] = group_of[entry.node], entry.nbytes

    def of(self, value: str) -> int:
        """The operator among whose saved bytes a value is, -1 if none. Of values that overlap in a storage the first
        has one."""
        root, nbytes = self.captured.root(value), self.captured.values[value].nbytes
        if nbytes > self.left.get(root, -1):
            return -1
        self.left[root] -= nbytes
        return self.group[root]


def _sources(captured: Captured, folded: Folded, reads: list[dict[str, bool]]) -> set[int]:
    """Operators that can be computed anywhere: they depend on no input and no parameter, are no
    products and not random (positions, causal masks, zero states)."""
    sources: set[int] = set()
    for group, members in enumerate(folded.groups):
        roots = {captured.root(name) for name in reads[group]}
        computed = {folded.producer[root] for root in roots if root in folded.producer}
        if (
            roots.isdisjoint(captured.parameters)
            and roots.isdisjoint(captured.inputs)
            and computed <= sources
            and not any(is_work(captured.nodes[position]) for position in members)
        ):
            sources.add(group)
    return sources
