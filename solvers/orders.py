"""In-flight numbers and per-device orders of a pipeline of stages."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.contiguity import forward_edges
from solvers.errors import InvalidPlan
from solvers.graph import OpGraph, Phase, find_cycle, per_graph, topological_order
from solvers.plan import Action, Stage
from solvers.problem import Pipeline, Problem
from solvers.units import PHASES_OF

Ints = NDArray[np.int64]

KINDS = "FBU"
"""The actions an order is made of."""


def stage_successors(problem: Problem, sets: Sequence[Sequence[int]]) -> list[set[int]]:
    """The DAG of stages: which stages read forward tensors of which."""
    stage_of = {o: i for i, members in enumerate(sets) for o in members}
    after: list[set[int]] = [set() for _ in sets]
    for u, v in forward_edges(problem.graph):
        if stage_of[u] != stage_of[v]:
            after[stage_of[u]].add(stage_of[v])
    return after


Waits = dict[tuple[str, str], list[set[int]]]
"""(kind of the producer, kind of the reader) -> for each stage those whose tensors it reads."""


def stage_waits(graph: OpGraph, sets: Sequence[Sequence[int]]) -> Waits:
    """What the actions of every stage wait for in other stages.

    Raises InvalidPlan if stages wait for each other in one phase: then no order can run them.
    """
    stage_of = np.empty(len(graph), np.int64)
    for number, members in enumerate(sets):
        stage_of[list(members)] = number
    producer, reader, pair = _reads(graph)
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
def _reads(graph: OpGraph) -> tuple[Ints, Ints, Ints]:
    """Producer and reader of every tensor, reader by reader, and the pair of their kinds as a number."""
    kind = [next(i for i, k in enumerate(KINDS) if o.phase in PHASES_OF[k]) for o in graph.operators]
    reads = [(t.producer, r, len(KINDS) * kind[t.producer] + kind[r]) for t in graph.tensors for r in t.consumers]
    producer, reader, pair = np.array(reads, np.int64).reshape(-1, 3).T
    return producer, reader, pair


def in_flight(problem: Problem, after: Sequence[set[int]], micro_batches: int) -> list[int]:
    """Micro-batches each stage keeps: 1F1B, the stages on the longest path from it to a sink
    (GraphPipe, ASPLOS 2025, section 5); GPipe, all; without a backward, 1."""
    if not problem.has_backward():
        return [1] * len(after)
    if problem.pipeline is Pipeline.GPIPE:
        return [micro_batches] * len(after)
    depth = [1] * len(after)
    for stage in reversed(topological_order([sorted(targets) for targets in after])):
        depth[stage] = 1 + max((depth[target] for target in after[stage]), default=0)
    return [min(d, micro_batches) for d in depth]


def pipeline_order(
    problem: Problem, stages: Sequence[Stage], waits: Waits, micro_batches: int
) -> tuple[tuple[Action, ...], ...]:
    """Per device, F and B of every micro-batch and U at the end.

    A device with one stage follows the textbook pattern: as many forwards as are in flight, then
    one backward, one forward, until the forwards end, then the remaining backwards. A device with
    several stages takes, whenever it is free, the ready action the pipeline prefers, in an event
    simulation without transfers; this never deadlocks.
    """
    kinds = [_kinds(problem, stage) for stage in stages]
    per_device = [sum(d in stage.devices for stage in stages) for d in range(len(problem.cluster))]
    orders: list[list[Action]]
    if max(per_device) <= 1:
        orders = [[] for _ in per_device]
        for index, stage in enumerate(stages):
            pattern = _pattern(index, kinds[index], stage.in_flight, micro_batches)
            for device in stage.devices:
                orders[device] = list(pattern)
    else:
        orders = _greedy(problem, stages, waits, kinds, micro_batches)
    readers: list[list[int]] = [[] for _ in stages]
    for index, sources in enumerate(waits["U", "U"]):
        for source in sources:
            readers[source].append(index)
    for index in topological_order(readers):
        if "U" in kinds[index]:
            for device in stages[index].devices:
                orders[device].append(Action(index, "U"))
    return tuple(map(tuple, orders))


def _kinds(problem: Problem, stage: Stage) -> str:
    phases = {problem.graph.operators[o].phase for o in stage.operators}
    return "".join(kind for kind in KINDS if phases & set(PHASES_OF[kind]))


def _pattern(stage: int, kinds: str, in_flight: int, micro_batches: int) -> list[Action]:
    forwards = [Action(stage, "F", j) for j in range(micro_batches)] if "F" in kinds else []
    backwards = [Action(stage, "B", j) for j in range(micro_batches)] if "B" in kinds else []
    if not forwards or not backwards:
        return forwards + backwards
    order = forwards[:in_flight]
    for j, backward in enumerate(backwards):
        order.append(backward)
        order += forwards[in_flight + j : in_flight + j + 1]
    return order


def _greedy(
    problem: Problem, stages: Sequence[Stage], waits: Waits, kinds: Sequence[str], micro_batches: int
) -> list[list[Action]]:
    seconds = [_durations(problem, stage) for stage in stages]
    readers: dict[tuple[int, str], list[tuple[int, str]]] = {}
    following = {(index, kind): 0 for index in range(len(stages)) for kind in "FB" if kind in kinds[index]}
    reads: dict[tuple[int, str], list[tuple[int, str]]] = {action: [] for action in following}
    for (source_kind, kind), sources_of in waits.items():
        for index, sources in enumerate(sources_of):
            for source in sources:
                readers.setdefault((source, source_kind), []).append((index, kind))
                if (index, kind) in reads and source_kind in "FB":
                    reads[index, kind].append((source, source_kind))
    for index, kind in following:
        if kind == "B" and (index, "F") in following:
            reads[index, kind].append((index, "F"))
    ended_s: dict[tuple[int, str], list[float]] = {action: [] for action in following}
    free_s = [0.0] * len(problem.cluster)
    orders: list[list[Action]] = [[] for _ in free_s]
    backward_first = problem.pipeline is not Pipeline.GPIPE

    def ready_s(index: int, kind: str) -> float | None:
        """When the next micro-batch of an action has its inputs; None if that is not known yet."""
        j = following[index, kind]
        if kind == "F" and (index, "B") in following and j - following[index, "B"] >= stages[index].in_flight:
            return None
        ready = 0.0
        for source in reads[index, kind]:
            ends = ended_s[source]
            if len(ends) <= j:
                return None
            ready = max(ready, ends[j])
        return ready

    # The ready actions, by when they could start. Devices only get busier, so an entry is at most too
    # early: the first one whose time still holds is the next to run.
    heap: list[tuple[float, bool, int, int, str, float]] = []
    waiting = set(following)

    def push(index: int, kind: str, ready: float) -> None:
        start = max(ready, *(free_s[d] for d in stages[index].devices))
        tie = -index if kind == "F" else index
        heapq.heappush(heap, (start, (kind == "B") != backward_first, following[index, kind], tie, kind, ready))

    def look_at(index: int, kind: str) -> None:
        if (index, kind) not in waiting or following[index, kind] == micro_batches:
            return
        ready = ready_s(index, kind)
        if ready is not None:
            waiting.discard((index, kind))
            push(index, kind, ready)

    for index, kind in following:
        look_at(index, kind)
    left = micro_batches * len(following)
    while left:
        start, _, j, tie, kind, ready = heapq.heappop(heap)
        index = -tie if kind == "F" else tie
        if any(free_s[d] > start for d in stages[index].devices):
            push(index, kind, ready)
            continue
        action, end = Action(index, kind, j), start + seconds[index][kind]
        ended_s[index, kind].append(end)
        for device in stages[index].devices:
            free_s[device] = end
            orders[device].append(action)
        following[index, kind] += 1
        waiting.add((index, kind))
        left -= 1
        for reader in ((index, "F"), (index, "B"), *readers.get((index, kind), ())):
            look_at(*reader)
    return orders


def _durations(problem: Problem, stage: Stage) -> dict[str, float]:
    device = problem.cluster.devices[stage.devices[0]]
    times = problem.compute.at(device.kind, stage.micro_batch_size / len(stage.devices))
    operators = problem.graph.operators
    backward = [o for o in stage.operators if operators[o].phase in PHASES_OF["B"]]
    forward = [o for o in stage.operators if operators[o].phase is Phase.FORWARD]
    return {"F": float(times[forward].sum()), "B": float(times[backward].sum())}
