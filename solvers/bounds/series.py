"""Heads and tails that know that operators between two others either share a device, and run one after the other, or
wait for a transfer.

An operator's *gate* is the nearest one that every way to it leads through (its dominator). If all that is between the
two is on their device, it takes the sum of its operators. If not, some tensor between them goes from one device to
another, and the way through that tensor takes its transfer too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from solvers.bounds.paths import with_whole_backwards
from solvers.bounds.sent import sent_s
from solvers.kernels.arrays import Floats
from solvers.plan.successors import with_mirrors
from solvers.problem.graph import OpGraph, Phase, per_graph
from solvers.problem.groups import group_of
from solvers.problem.problem import Problem

MOST_BETWEEN = 64
"""Operators between an operator and its gate; where there are more, only the longest path counts."""
NOWHERE = -1


class Gates(NamedTuple):
    """One way along a graph, forwards or backwards in time."""

    order: Sequence[int]
    """operators, each after those that it waits for"""
    after: Sequence[Sequence[int]]
    """of each operator, those that wait for it"""
    nearest: Sequence[Sequence[int]]
    """of each operator, those that it waits for and that none of the others of these waits for; without copies and
    updates, which may be on other devices than one, or are never waited for"""
    between: Sequence[tuple[int, ...]]
    """of each operator, its gate, what is between the two in an order in which it can run, and itself; nothing where it
    waits for one operator alone, or too much is between"""


class Hops(NamedTuple):
    """How long operators wait for those on other devices."""

    group: Sequence[int]
    """of each operator; those of one share a device"""
    seconds: Mapping[tuple[int, int], float]
    """of an operator and one that waits for it, the longest transfer between the two; not listed: 0"""

    def between(self, u: int, v: int) -> float:
        """The two on different devices; inf where they share one."""
        return float("inf") if self.group[u] == self.group[v] else self.seconds.get((u, v), 0.0)

    def turned(self) -> Hops:
        return Hops(self.group, {(v, u): seconds for (u, v), seconds in self.seconds.items()})


def series_heads_and_tails_s(problem: Problem, seconds: Floats, count: int) -> tuple[Floats, Floats]:
    """Seconds before and after every operator at least, itself excluded, [operators] each, in plans without replicas.

    seconds: of one micro-batch of each operator, [operators]
    count: micro-batches, as many of every operator
    """
    along = _gates_whole if problem.whole_backwards else _gates
    forwards, backwards = along(problem.graph)
    hops = _hops(problem, count)
    return _heads_s(forwards, seconds, hops), _heads_s(backwards, seconds, hops.turned())


def _heads_s(gates: Gates, seconds: Floats, hops: Hops) -> Floats:
    took, head = seconds.tolist(), [0.0] * len(seconds)
    for operator in gates.order:
        if gates.between[operator]:
            gate = gates.between[operator][0]
            since_s = _between_s(gates.nearest, took, hops, gates.between[operator])
            head[operator] = max(head[operator], head[gate] + took[gate] + since_s)
        end = head[operator] + took[operator]
        for target in gates.after[operator]:
            head[target] = max(head[target], end)
    return np.array(head)


def _between_s(nearest: Sequence[Sequence[int]], took: Sequence[float], hops: Hops, between: Sequence[int]) -> float:
    """From the end of the first of these operators to the start of the last at least: the sum of all that is between
    them if all are on one device, else the shortest of the ways through one tensor that is sent."""
    gate, *inside, end = between
    until = {gate: 0.0}  # from the end of the gate to the end of each, along the longest path
    for operator in inside:
        until[operator] = max(until[u] for u in nearest[operator]) + took[operator]
    rest, sent_s = dict.fromkeys(until, 0.0), float("inf")  # rest: from the end of each to the start of the last
    for operator in (end, *reversed(inside)):
        after_s = rest[operator] + took[operator] if operator != end else 0.0
        for u in nearest[operator]:
            rest[u] = max(rest[u], after_s)
            sent_s = min(sent_s, until[u] + hops.between(u, operator) + after_s)
    return min(sum(took[operator] for operator in inside), sent_s)


def _hops(problem: Problem, count: int) -> Hops:
    graph = problem.graph
    one_s, _ = sent_s(problem, (count,))
    of_parameters: dict[int, list[int]] = defaultdict(list)
    for operator, spec in enumerate(graph.operators):
        if spec.phase is Phase.BACKWARD_WEIGHT and spec.forward_of is not None:
            of_parameters[spec.forward_of].append(operator)
    seconds: dict[tuple[int, int], float] = {}
    for tensor, sent in zip(graph.tensors, one_s.tolist(), strict=True):
        producers = [tensor.producer]
        spec = graph.operators[tensor.producer]
        if spec.phase is Phase.BACKWARD_INPUT and spec.forward_of is not None:
            producers += of_parameters[spec.forward_of]  # which come before who reads it where backwards are whole
        for u in producers:
            for v in tensor.consumers:
                seconds[u, v] = max(seconds.get((u, v), 0.0), sent)
    return Hops(group_of(graph).tolist(), seconds)


@per_graph
def _gates(graph: OpGraph) -> tuple[Gates, Gates]:
    return _both_ways(graph, *with_mirrors(graph))


@per_graph
def _gates_whole(graph: OpGraph) -> tuple[Gates, Gates]:
    return _both_ways(graph, *with_whole_backwards(graph))


def _both_ways(graph: OpGraph, after: Sequence[Sequence[int]], order: Sequence[int]) -> tuple[Gates, Gates]:
    before: list[list[int]] = [[] for _ in after]
    for operator, targets in enumerate(after):
        for target in targets:
            before[target].append(operator)
    counted = [not spec.replicable and spec.phase is not Phase.UPDATE for spec in graph.operators]
    turned = order[::-1]
    return _gates_of(order, before, after, counted), _gates_of(turned, after, before, counted)


def _gates_of(
    order: Sequence[int], before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], counted: Sequence[bool]
) -> Gates:
    rank = {operator: place for place, operator in enumerate(order)}
    nearest: list[list[int]] = [[] for _ in order]
    reached = [0] * len(order)  # as bits by rank: the operator, and all counted ones that it waits for
    gate, depth = [NOWHERE] * len(order), [0] * len(order)
    between: list[tuple[int, ...]] = [()] * len(order)
    for operator in order:
        if not counted[operator]:
            continue
        for other in sorted({u for u in before[operator] if counted[u]}, key=rank.__getitem__, reverse=True):
            if not reached[operator] >> rank[other] & 1:
                nearest[operator].append(other)
                reached[operator] |= reached[other]
        reached[operator] |= 1 << rank[operator]
        if nearest[operator]:
            gate[operator] = _common(nearest[operator], gate, depth)
            depth[operator] = depth[gate[operator]] + 1 if gate[operator] != NOWHERE else 0
        if len(nearest[operator]) > 1 and gate[operator] != NOWHERE:
            between[operator] = _between(nearest, gate[operator], operator, rank)
    return Gates(order, after, nearest, between)


def _common(operators: Sequence[int], gate: Sequence[int], depth: Sequence[int]) -> int:
    """The nearest operator that every way to any of these leads through, or one of these that does; NOWHERE if none."""
    one = operators[0]
    for other in operators[1:]:
        while one != other:
            if one == NOWHERE or other == NOWHERE:
                return NOWHERE
            if depth[one] < depth[other]:
                one, other = other, one
            one = gate[one]
    return one


def _between(nearest: Sequence[Sequence[int]], gate: int, operator: int, rank: Mapping[int, int]) -> tuple[int, ...]:
    inside, ahead = {gate, operator}, [operator]
    while ahead:
        for other in nearest[ahead.pop()]:
            if other not in inside:
                inside.add(other)
                ahead.append(other)
        if len(inside) > MOST_BETWEEN + 2:
            return ()
    return tuple(sorted(inside, key=rank.__getitem__))
