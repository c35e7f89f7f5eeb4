"""Which calls are one operator: views join what they look into, in-place calls join what they change.

A cut between a tensor and its view, or just before an in-place call, cannot be run; so such calls
are never apart. Checks and bookkeeping disappear. The auxiliary calls of one module (positions, masks, tables of
angles: calls without work that depend on no input and no parameter) are one operator.
"""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx

from explorer.tracing.captured import Captured, Node
from explorer.tracing.flops import PRODUCTS

NO_OPERATOR = -1
"""The group of a call that nothing needs to run apart: a view of an input or parameter, a check."""

CHECKS = ("aten._assert", "aten.sym_", "aten._functional_assert", "aten._check")
"""Prefixes of calls that check and compute nothing."""

RANDOM = ("rand", "dropout", "bernoulli", "normal", "multinomial", "uniform", "exponential")
"""Parts of the names of calls that give another result each time, so must not be copied."""


@dataclass(frozen=True, slots=True)
class Folded:
    """groups: the calls (node positions, ascending) of each operator. leaders: the call that names each: the first,
    of auxiliary calls the last.

    producer: a value that owns its storage -> the operator that computes it; absent for what comes
    from outside (parameters, buffers, inputs).
    """

    groups: tuple[tuple[int, ...], ...]
    leaders: tuple[int, ...]
    producer: dict[str, int]


def fold(captured: Captured) -> Folded:
    """The operators of a captured graph; the graph between them is acyclic."""
    outside = {*captured.parameters, *captured.buffers, *captured.inputs}
    producer: dict[str, int] = {}  # root value -> the leading node of its operator
    leader: list[int] = []
    joined = False
    for position, node in enumerate(captured.nodes):
        lead = position
        if is_bookkeeping(captured, node):
            lead = NO_OPERATOR
        elif is_view(captured, node):
            # All views of one call look into one storage (getitem of a split, a reshape, ...).
            lead = producer.get(captured.root(node.outputs[0]), NO_OPERATOR)
        else:
            for changed in node.mutates:
                root = captured.root(changed)
                joined = True
                if root in producer:
                    lead = producer[root]
                else:  # an input or buffer that is written: from here on it is this operator's
                    outside.discard(root)
                    producer[root] = position
        leader.append(lead)
        for output in node.outputs:
            root = captured.root(output)
            if root not in outside:
                producer.setdefault(root, lead)
    if joined:
        leader = _without_cycles(captured, leader, producer)
    auxiliary = _auxiliary(captured, leader, producer)
    leader = [auxiliary.get(lead, (lead, lead))[0] for lead in leader]
    names = dict(auxiliary.values())
    leaders = sorted({lead for lead in leader if lead != NO_OPERATOR})
    index = {lead: group for group, lead in enumerate(leaders)}
    members: list[list[int]] = [[] for _ in leaders]
    for position, lead in enumerate(leader):
        if lead != NO_OPERATOR:
            members[index[lead]].append(position)
    computed = {
        root: index[leader[lead]]
        for root, lead in producer.items()
        if lead != NO_OPERATOR and leader[lead] != NO_OPERATOR
    }
    return Folded(tuple(map(tuple, members)), tuple(names.get(lead, lead) for lead in leaders), computed)


def _auxiliary(captured: Captured, leader: list[int], producer: dict[str, int]) -> dict[int, tuple[int, int]]:
    """Lead of an auxiliary operator -> (lead of the one it is part of, the call that names that). Auxiliary operators
    read only auxiliary ones, so that joining some of them stays acyclic if joining their modules does. What nobody
    reads is no operator."""
    members: dict[int, list[int]] = {}
    for position, lead in enumerate(leader):
        if lead != NO_OPERATOR:
            members.setdefault(lead, []).append(position)
    given = captured.parameters.keys() | set(captured.inputs)
    graph: nx.DiGraph[int] = nx.DiGraph()
    outputs = {leader[producer[root]] for root in map(captured.root, captured.outputs) if root in producer}
    readers: dict[int, set[int]] = {lead: set() for lead in members}
    for lead in sorted(members):
        nodes = [captured.nodes[position] for position in members[lead]]
        roots = {captured.root(name) for node in nodes for _, name in node.tensors}
        before = {leader[producer[root]] for root in roots if producer.get(root, NO_OPERATOR) != NO_OPERATOR} - {lead}
        for other in before - {NO_OPERATOR}:
            readers[other].add(lead)
        if roots.isdisjoint(given) and before <= graph.nodes and not any(map(is_work, nodes)):
            graph.add_node(lead)
            graph.add_edges_from((other, lead) for other in before)
    folded: dict[int, tuple[int, int]] = {}
    for part in nx.weakly_connected_components(graph):
        inside = graph.subgraph(part)
        modules = {lead: captured.nodes[lead].module_path for lead in part}
        together = nx.quotient_graph(inside, lambda a, b, of=modules: of[a] == of[b])
        blocks = list(together) if nx.is_directed_acyclic_graph(together) else [frozenset(part)]
        for block in blocks:
            needed = [lead for lead in block if lead in outputs or readers[lead] - block]
            folded.update(dict.fromkeys(block, (min(block), max(needed)) if needed else (NO_OPERATOR, NO_OPERATOR)))
    return folded


def is_work(node: Node) -> bool:
    """A product, a call that gives another result each time, one that changes what it reads, or one in which the
    members of a group exchange something: what must not be copied."""
    exchanges = node.exchange.forward_steps + node.outer.forward_steps > 0
    return exchanges or bool(node.mutates) or node.target in PRODUCTS or any(word in node.target for word in RANDOM)


def is_view(captured: Captured, node: Node) -> bool:
    """Nothing is computed: every output looks into a storage that was there before."""
    return bool(node.outputs) and not node.mutates and all(captured.values[o].base is not None for o in node.outputs)


def is_bookkeeping(captured: Captured, node: Node) -> bool:
    """A check, a call without tensors to give, or a counter such as a batch norm's number of batches."""
    if not node.outputs or node.target.startswith(CHECKS):
        return True
    read = {captured.root(name) for _, name in node.tensors}
    return bool(node.mutates) and read <= set(captured.buffers) and captured.values[node.outputs[0]].shape == ()


def _without_cycles(captured: Captured, leader: list[int], producer: dict[str, int]) -> list[int]:
    """Joins operators that an in-place call tied into a cycle (it changes a tensor that something it
    reads was computed from)."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for position, node in enumerate(captured.nodes):
        own = leader[position]
        if own == NO_OPERATOR:
            continue
        graph.add_node(own)
        for _, name in node.tensors:
            source = producer.get(captured.root(name), NO_OPERATOR)
            if source not in (NO_OPERATOR, own):
                graph.add_edge(source, own)
    first = {member: min(part) for part in nx.strongly_connected_components(graph) for member in part}
    return [first.get(lead, lead) for lead in leader]
