"""What stages wait for, and the per-device orders of a pipeline of stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from solvers.errors import InvalidPlan
from solvers.kernels.arrays import Ints
from solvers.plan.contiguity import forward_edges
from solvers.plan.plan import PHASES_OF, Action, Stage
from solvers.problem.graph import OpGraph, find_cycle, labels_after, per_graph, topological_order
from solvers.problem.problem import Problem
from solvers.schedules.ordering.eager_order import Waits, eager_order
from solvers.schedules.ordering.patterns import alternate

KINDS = "FBU"
"""The actions an order is made of."""


def stage_successors(problem: Problem, sets: Sequence[Sequence[int]]) -> list[set[int]]:
    """The DAG of stages: which stages read forward tensors of which."""
    return quotient(forward_edges(problem.graph), sets)


def quotient(edges: Iterable[tuple[int, int]], sets: Sequence[Sequence[int]]) -> list[set[int]]:
    """The sets that edges of each lead to."""
    stage_of = {o: i for i, members in enumerate(sets) for o in members}
    return labels_after(edges, stage_of, len(sets))


def stage_waits(graph: OpGraph, sets: Sequence[Sequence[int]]) -> Waits:
    """What the actions of every stage wait for in other stages.

    Raises InvalidPlan if stages wait for each other in one phase: then no order can run them.
    """
    stage_of = np.empty(len(graph), np.int64)
    for number, members in enumerate(sets):
        stage_of[list(members)] = number
    producer, reader, pair = reads_by_kind(graph)
    source, target = stage_of[producer], stage_of[reader]
    crosses = source != target
    waits: Waits = {(a, b): [set() for _ in sets] for a in KINDS for b in KINDS}
    for a, b, kinds in set(
        zip(source[crosses].tolist(), target[crosses].tolist(), pair[crosses].tolist(), strict=True)
    ):
        waits[KINDS[kinds // len(KINDS)], KINDS[kinds % len(KINDS)]][b].add(a)
    for kind, phase in zip(KINDS, ("forward", "backward", "update"), strict=True):
        cycle = find_cycle([sorted(sources) for sources in waits[kind, kind]])
        if cycle:
            names = " and ".join(repr(graph.operators[sets[stage][0]].name) for stage in cycle[:2])
            raise InvalidPlan(
                f"the stages of {names} wait for each other's {phase} tensors; put their operators on one device"
            )
    return waits


@per_graph
def reads_by_kind(graph: OpGraph) -> tuple[Ints, Ints, Ints]:
    """Producer and reader of every tensor, reader by reader, and the pair of their kinds as a number."""
    kind = [next(i for i, k in enumerate(KINDS) if o.phase in PHASES_OF[k]) for o in graph.operators]
    reads = [(t.producer, r, len(KINDS) * kind[t.producer] + kind[r]) for t in graph.tensors for r in t.consumers]
    producer, reader, pair = np.array(reads, np.int64).reshape(-1, 3).T
    return producer, reader, pair


def pipeline_order(
    problem: Problem, stages: Sequence[Stage], waits: Waits, blocks: Sequence[int] | None = None
) -> tuple[tuple[Action, ...], ...]:
    """Per device, F and B of every micro-batch and U at the end.

    A device with one stage follows the textbook pattern, see `alternate`; blocks: the k of kFkB of each
    stage (1 where not given). If a device has several stages all take, whenever they are free, the
    ready action the pipeline prefers, in an event simulation without transfers; this never deadlocks.
    """
    kinds = [kinds_of(problem, stage) for stage in stages]
    per_device = [sum(d in stage.devices for stage in stages) for d in range(len(problem.cluster))]
    orders: list[list[Action]]
    if max(per_device) <= 1:
        orders = [[] for _ in per_device]
        for index, stage in enumerate(stages):
            count = problem.mini_batch // stage.micro_batch_size
            pattern = alternate(index, kinds[index], count, stage.in_flight, 1 if blocks is None else blocks[index])
            for device in stage.devices:
                orders[device] = list(pattern)
    else:
        orders = eager_order(problem, stages, waits, kinds)
    append_updates(problem, stages, waits, orders)
    return tuple(map(tuple, orders))


def append_updates(problem: Problem, stages: Sequence[Stage], waits: Waits, orders: Sequence[list[Action]]) -> None:
    """Put U of every stage that has one at the end of its devices' orders."""
    readers: list[list[int]] = [[] for _ in stages]
    for index, sources in enumerate(waits["U", "U"]):
        for source in sources:
            readers[source].append(index)
    for index in topological_order(readers):
        if "U" in kinds_of(problem, stages[index]):
            for device in stages[index].devices:
                orders[device].append(Action(index, "U"))


def kinds_of(problem: Problem, stage: Stage) -> str:
    """Which of F, B and U a stage has, in this order."""
    phases = {problem.graph.operators[o].phase for o in stage.operators}
    return "".join(kind for kind in KINDS if phases & set(PHASES_OF[kind]))
