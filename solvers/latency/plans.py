"""From an assignment of operators to pieces of accelerators and to CPUs to a plan for one pass."""

from __future__ import annotations

import numpy as np

from solvers.errors import InvalidPlan
from solvers.kernels.arrays import Ints
from solvers.latency.latency_kernel import Scratch, cut_into_pieces, latency, scratch_for
from solvers.latency.model import LatencyModel
from solvers.plan.plan import Action, Plan, Stage
from solvers.plan.segments import stages_of_placement
from solvers.problem.graph import edges_of, labels_after, topological_order


def pieces_of(model: LatencyModel, place: Ints, pieces: int) -> Ints | None:
    """The calls of a placement (see `solvers.latency.latency_kernel.cut_into_pieces`), or None if it needs more
    pieces."""
    call = np.empty(len(place), np.int64)
    work = scratch_for(len(place), model.accelerators, pieces)
    return call if cut_into_pieces(model.calls, place, pieces, call, work) else None


def latency_s(model: LatencyModel, call: Ints, pieces: int) -> float:
    """Seconds of one pass; inf if the calls wait for each other."""
    return float(latency(model.calls, call, pieces, scratch_for(len(call), model.accelerators, pieces)))


def plan_of_calls(model: LatencyModel, call: Ints, pieces: int, turns: Ints | None = None) -> Plan:
    """The plan whose stages on accelerators are exactly the calls, in the order the evaluation takes them.

    call: [operators] accelerator * pieces + piece, or -1 on a CPU. turns: [calls] take them in this
    order instead, topological for tensors too. Operators on CPUs form as few
    stages as an acyclic contraction allows. Raises InvalidPlan if calls wait for each other.
    """
    problem = model.problem
    work = scratch_for(len(call), model.accelerators, pieces)
    if np.isinf(latency(model.calls, call, pieces, work)):
        raise InvalidPlan("the calls of the accelerators wait for each other; cut them into more pieces")
    if turns is not None:
        work.position[: len(turns)] = turns
    devices = len(problem.cluster)
    rounds = _rounds(model, call, pieces, work)
    pseudo = [
        (problem.cluster.accelerators[c // pieces] + devices * (c % pieces),)
        if c >= 0
        else (int(model.cpu_of[v]) + devices * rounds[v],)
        for v, c in enumerate(call.tolist())
    ]
    sets = stages_of_placement(problem.graph, pseudo)
    size = problem.mini_batch // problem.micro_batch_choices()[0]
    stages = tuple(Stage(operators, (place[0] % devices,), size) for operators, place in sets)
    first = [int(call[operators[0]]) for operators, _ in sets]
    ranks = [int(work.position[c]) if c >= 0 else -1 for c in first]
    order: list[list[Action]] = [[] for _ in range(devices)]
    sequence = _sequence(model, stages, ranks)
    for micro_batch in range(problem.mini_batch // size):
        for stage in sequence:
            order[stages[stage].devices[0]].append(Action(stage, "F", micro_batch))
    return Plan(stages, tuple(map(tuple, order)))


def _rounds(model: LatencyModel, call: Ints, pieces: int, work: Scratch) -> list[int]:
    """For every operator how many calls come before it at most, where CPUs and calls take turns.

    Operators on one CPU with the same number become one stage. The number does not fall along tensors
    and along the order of an accelerator's calls, and grows where a tensor reaches a CPU from another
    device; so neither the stages nor the order on the devices close a cycle.
    """
    graph = model.problem.graph
    entity = [c if c >= 0 else -1 - v for v, c in enumerate(call.tolist())]
    numbers: dict[int, int] = {}
    of = [numbers.setdefault(e, len(numbers)) for e in entity]
    device = {number: e // pieces if e >= 0 else -1 - int(model.cpu_of[-1 - e]) for e, number in numbers.items()}
    on_cpu = {number: e < 0 for e, number in numbers.items()}
    after = labels_after(edges_of(graph.successors), of, len(numbers))
    taken = sorted((e for e in numbers if e >= 0), key=lambda e: int(work.position[e]))
    last: dict[int, int] = {}
    for e in taken:
        if e // pieces in last:
            after[last[e // pieces]].add(numbers[e])
        last[e // pieces] = numbers[e]
    rounds = [0] * len(numbers)
    for number in topological_order(after):
        for target in after[number]:
            step = on_cpu[target] and device[number] != device[target]
            rounds[target] = max(rounds[target], rounds[number] + step)
    return [rounds[number] for number in of]


def _sequence(model: LatencyModel, stages: tuple[Stage, ...], ranks: list[int]) -> list[int]:
    """All stages in an order that respects tensors and the order in which calls are taken."""
    stage_of = {operator: number for number, stage in enumerate(stages) for operator in stage.operators}
    after = labels_after(edges_of(model.problem.graph.successors), stage_of, len(stages))
    last: dict[int, int] = {}
    for number in sorted(range(len(stages)), key=lambda stage: ranks[stage]):
        if ranks[number] >= 0:
            device = stages[number].devices[0]
            if device in last:
                after[last[device]].add(number)
            last[device] = number
    order = topological_order(after)
    if len(order) < len(stages):
        raise InvalidPlan("stages wait for each other")
    return list(order)
