"""A question in which operators that must share a device with much earlier ones are part of those.

A parameter that is read at both ends of a model (tied embeddings) puts both ends on one device, and no chain or DAG of
stages on devices of their own can do that without all that lies between. Folded, the late end's work is that of the
early one, and what lies between can be cut as if nothing came after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.problem.graph import Operator, OpGraph, Phase, Tensor, per_graph
from solvers.problem.groups import together
from solvers.problem.problem import ComputeTable, Contiguity, Problem

if TYPE_CHECKING:
    from solvers.plan.segments import Place

MOST_FOLDED = 0.5
"""Share of all FLOPs that may be folded: with more, one device would have most of the work anyway."""
TAIL = 0.1
"""Share of all FLOPs up to which what follows a late end (a loss) goes with it."""


@dataclass(frozen=True)
class Folded:
    """question: the folded one. remaining: its operators, as positions in the graph that was folded. host: of every
    other operator there the position of the one that it is part of."""

    question: Problem
    remaining: tuple[int, ...]
    host: Mapping[int, int]

    def unfolded(self, placement: Mapping[int, Place]) -> list[Place]:
        """The places of all operators, of those in the folded question."""
        places = {old: placement[new] for new, old in enumerate(self.remaining)}
        return [places[self.host.get(i, i)] for i in range(len(self.remaining) + len(self.host))]


@per_graph
def late_ends(graph: OpGraph) -> dict[int, int]:
    """Forward operators that others must go through before, which are to share their device: late -> early position.

    Between the two is something of another group: a path leaves the group and comes back."""
    operators = graph.operators
    rank = {i: place for place, i in enumerate(graph.topological_order)}
    early_of: dict[int, int] = {}
    for group in together(graph):
        forwards = {i for i in group if operators[i].phase is Phase.FORWARD}
        if len(forwards) < 2:
            continue
        outside = [j for i in forwards for j in _after(graph, i) if j not in forwards]
        late = forwards & _reached(graph, outside)
        first = min(forwards - late, key=rank.__getitem__, default=None)
        if first is not None:
            early_of |= dict.fromkeys(sorted(late), first)
    return early_of


def enclosed_share(graph: OpGraph) -> float:
    """The share of all forward FLOPs that lies between early and late ends that must share a device: where sets may
    not be left and entered again, it goes with them."""
    late = late_ends(graph)
    if not late:
        return 0.0
    after = _reached(graph, [j for i in set(late.values()) for j in _after(graph, i)])
    before = _reached(graph, [j for i in late for j in _before(graph, i)], backwards=True)
    between = (after & before) - late.keys()
    total = sum(_flops(o) for o in graph.operators if o.phase is Phase.FORWARD)
    return sum(_flops(graph.operators[i]) for i in between) / total if total else 0.0


@per_graph
def part_of(graph: OpGraph) -> dict[int, int]:
    """The forward operators that are folded, each with the early one that it becomes a part of: late ends and, if it is
    light, what follows them. There are none where most of the work would be folded."""
    operators = graph.operators
    late = dict(late_ends(graph))
    if not late:
        return {}
    total = sum(_flops(o) for o in operators if o.phase is Phase.FORWARD)
    tail = _reached(graph, [j for i in late for j in _after(graph, i)]) - late.keys()
    if sum(_flops(operators[i]) for i in tail) <= TAIL * total:
        rank = {i: place for place, i in enumerate(graph.topological_order)}
        last = max(late, key=rank.__getitem__)
        hosts = set(late.values())
        late |= {i: late[last] for i in sorted(tail - hosts) if not operators[i].param_bytes}
    return {} if sum(_flops(operators[i]) for i in late) > MOST_FOLDED * total else late


def folded(problem: Problem) -> Folded | None:
    """The folded question, in which a device runs one stage; None if nothing is folded (see `part_of`)."""
    graph = problem.graph
    operators = graph.operators
    late = part_of(graph)
    if not late:
        return None
    host = dict(late)
    mirrors: dict[tuple[int, Phase], int] = {}
    for i, operator in enumerate(operators):
        if operator.forward_of is not None:
            mirrors.setdefault((operator.forward_of, operator.phase), i)
    for i, operator in enumerate(operators):
        if operator.forward_of in late:
            early = late[operator.forward_of]
            ways = (operator.phase, Phase.BACKWARD_WEIGHT, Phase.BACKWARD_INPUT)
            host[i] = next((mirrors[early, phase] for phase in ways if (early, phase) in mirrors), early)
    remaining = tuple(i for i in range(len(graph)) if i not in host)
    return Folded(_question(problem, remaining, host), remaining, host)


def _question(problem: Problem, remaining: tuple[int, ...], host: Mapping[int, int]) -> Problem:
    graph = problem.graph
    new = {old: position for position, old in enumerate(remaining)}
    tensors = [
        (t, cut)
        for t, tensor in enumerate(graph.tensors)
        if tensor.producer in new and (cut := _cut(graph, tensor, new, host)).consumers
    ]

    def summed(values: Floats) -> Floats:
        into = np.array([new[host.get(i, i)] for i in range(len(graph))])
        sums = np.zeros((len(remaining), *values.shape[1:]))
        np.add.at(sums, into, values)
        return sums

    stated, each_s = problem.stated_bytes, problem.transfer_s
    return replace(
        problem,
        recompute_operators=False,
        graph=OpGraph(
            _operators(graph, remaining, new, host), tuple(cut for _, cut in tensors), graph.samples, graph.name
        ),
        plain=None,
        compute=ComputeTable(
            problem.compute.samples, {kind: summed(table) for kind, table in problem.compute.seconds.items()}
        ),
        stated_bytes=None if stated is None else tuple(summed(np.array(stated)).tolist()),
        transfer_s=None if each_s is None else tuple(each_s[t] for t, _ in tensors),
        pins={new[host.get(i, i)]: device for i, device in problem.pins.items()},
        contiguity=Contiguity.ACYCLIC,
    )


def _cut(graph: OpGraph, tensor: Tensor, new: Mapping[int, int], host: Mapping[int, int]) -> Tensor:
    """A tensor for those that are left to read it; past a reader that is folded it goes on to what follows that in the
    same pass, so that an order stays one."""
    consumers: dict[int, None] = {}
    forward = graph.operators[tensor.producer].phase is Phase.FORWARD
    ahead = list(reversed(tensor.consumers))
    seen = set(ahead)
    while ahead:
        reader = ahead.pop()
        if reader not in host:
            consumers[new[reader]] = None
            continue
        for following in graph.successors[reader]:
            if following not in seen and forward == (graph.operators[following].phase is Phase.FORWARD):
                seen.add(following)
                ahead.append(following)
    consumers.pop(new[tensor.producer], None)
    return replace(tensor, producer=new[tensor.producer], consumers=tuple(consumers), saver=-1)


def _operators(
    graph: OpGraph, remaining: tuple[int, ...], new: Mapping[int, int], host: Mapping[int, int]
) -> tuple[Operator, ...]:
    made = {
        i: replace(o, forward_of=None if o.forward_of is None else new[o.forward_of])
        for i, o in ((i, graph.operators[i]) for i in remaining)
    }
    for i, early in host.items():
        of, into = graph.operators[i], made[early]
        made[early] = replace(
            into,
            flops=into.flops + of.flops,
            moved_bytes=into.moved_bytes + of.moved_bytes,
            param_bytes=into.param_bytes + of.param_bytes,
            frozen_bytes=into.frozen_bytes + of.frozen_bytes,
            factorable_bytes=into.factorable_bytes + of.factorable_bytes,
            buffer_bytes=into.buffer_bytes + of.buffer_bytes,
            gradient_sum_bytes=into.gradient_sum_bytes + of.gradient_sum_bytes,
            saved_bytes=into.saved_bytes + of.saved_bytes,
            workspace_bytes=into.workspace_bytes + of.workspace_bytes,
        )
    return tuple(made[i] for i in remaining)


def _after(graph: OpGraph, i: int) -> list[int]:
    return [j for j in graph.successors[i] if graph.operators[j].phase is Phase.FORWARD]


def _before(graph: OpGraph, i: int) -> list[int]:
    return [j for j in graph.predecessors[i] if graph.operators[j].phase is Phase.FORWARD]


def _reached(graph: OpGraph, starts: Collection[int], backwards: bool = False) -> set[int]:
    """The forward operators on paths from ``starts``, these included."""
    reached, ahead = set(starts), list(starts)
    while ahead:
        for j in (_before if backwards else _after)(graph, ahead.pop()):
            if j not in reached:
                reached.add(j)
                ahead.append(j)
    return reached


def _flops(operator: Operator) -> float:
    return operator.flops.at(1)
