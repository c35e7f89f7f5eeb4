"""Stages that run as one made one: a launcher counts stages, and planners may cut what always runs together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from solvers.plan.plan import Action, Plan
from solvers.problem.graph import OpGraph, Phase, topological_order


def forward_homes(graph: OpGraph, plan: Plan) -> dict[int, tuple[int, ...]]:
    """Forward operator -> the stages it is in: several if it is replicable."""
    homes: dict[int, list[int]] = {}
    for number, stage in enumerate(plan.stages):
        for operator in stage.operators:
            if graph.operators[operator].phase is Phase.FORWARD:
                homes.setdefault(operator, []).append(number)
    return {operator: tuple(stages) for operator, stages in homes.items()}


def sends(graph: OpGraph, homes: Mapping[int, Sequence[int]], *, waits: bool = False) -> dict[tuple[int, int], int]:
    """(stage, stage) -> a forward operator whose result the first gives to the second. waits: where it only waits for
    it (a tensor of 0 bytes, as in plans with a linear pipeline), too."""
    sent_by: dict[tuple[int, int], int] = {}
    for tensor in graph.tensors:
        if tensor.producer not in homes or (tensor.nbytes.at(1) <= 0 and not waits):
            continue
        made_in = homes[tensor.producer]
        for consumer in tensor.consumers:
            for reader in homes.get(consumer, ()):
                if reader not in made_in:
                    sent_by.setdefault((made_in[0], reader), tensor.producer)
    return sent_by


def merged(graph: OpGraph, plan: Plan) -> Plan:
    """The plan with neighbouring stages of one place made one, wherever the second always runs right after the first
    (and its backward right before the first's). The schedule is the same but for its names."""
    while True:
        pairs = sends(graph, forward_homes(graph, plan), waits=True)
        for first, second in pairs:
            joined = _joined(graph, plan, first, second, pairs)
            if joined is not None:
                plan = joined
                break
        else:
            return plan


def renumbered(plan: Plan, order: Sequence[int]) -> Plan:
    """The plan with its stages in another order: ``order[new]`` is the number a stage had."""
    new = {old: number for number, old in enumerate(order)}
    rows = tuple(tuple(replace(action, stage=new[action.stage]) for action in row) for row in plan.order)
    return replace(plan, stages=tuple(plan.stages[old] for old in order), order=rows, messages=())


def _joined(graph: OpGraph, plan: Plan, first: int, second: int, pairs: Mapping[tuple[int, int], int]) -> Plan | None:
    a, b = plan.stages[first], plan.stages[second]
    alike = (a.devices, a.micro_batch_size, a.recompute) == (b.devices, b.micro_batch_size, b.recompute)
    if not alike or _way_round(pairs, first, second, len(plan.stages)):
        return None
    rows = []
    for row in plan.order:
        changed = _collapsed(row, first, second)
        if changed is None:
            return None
        rows.append(changed)
    operators = {*a.operators, *b.operators}
    one = replace(
        a,
        operators=tuple(o for o in graph.topological_order if o in operators),
        in_flight=max(a.in_flight, b.in_flight),
    )
    stages = tuple(one if i == first else stage for i, stage in enumerate(plan.stages))
    left = [i for i in range(len(stages)) if i != second]
    return renumbered(replace(plan, stages=stages, order=tuple(rows)), left)


def _collapsed(row: Sequence[Action], first: int, second: int) -> tuple[Action, ...] | None:
    """A device's order with one stage for two; None unless what they do lies side by side, update aside."""
    made: list[Action] = []
    seen: set[Action] = set()
    previous: Action | None = None
    for action in row:
        if action.stage not in (first, second):
            made.append(action)
            previous = None
            continue
        one = replace(action, stage=first)
        if one in seen:
            if one != previous and one.kind != "U":
                return None
            continue
        seen.add(one)
        made.append(one)
        previous = one
    return tuple(made)


def _way_round(pairs: Mapping[tuple[int, int], int], first: int, second: int, count: int) -> bool:
    """Whether what the first stage makes reaches the second by way of others too."""
    after: list[set[int]] = [set() for _ in range(count)]
    for a, b in pairs:
        after[first if a == second else a].add(first if b == second else b)
    after[first].discard(first)
    return len(topological_order([sorted(each) for each in after])) < count
