"""Between a placement with orders and a plan: a stage for every forward operator with its mirrors, and the order in
which links serve messages, from times of any origin.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from solvers.evaluation.columns import pairs_of, wire_name
from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Floats, Ints
from solvers.plan.plan import ACTION_KINDS, PHASES_OF, Action, Message, Plan, Stage
from solvers.problem.graph import Phase
from solvers.problem.problem import Transfers

KIND_OF = {Phase.FORWARD: "F", Phase.BACKWARD_INPUT: "I", Phase.BACKWARD_WEIGHT: "W", Phase.UPDATE: "U"}
"""The action that runs an operator by itself."""


def plan_of(model: PassModel, place: Sequence[int] | Ints, sequences: Sequence[Sequence[int]]) -> Plan:
    """The plan in which every device runs its operators in the given sequence.

    place: the device of every group. sequences: operators per device. With several micro-batches asked for,
    the pass is repeated, micro-batch 0 last: it stands for the unsplit pass, and only then
    updates may run. Where one forward operator has several mirrors of one kind they run together, when the first
    of them is due.
    """
    problem = model.problem
    count = problem.micro_batches or 1
    size = problem.mini_batch // count
    operators = problem.graph.operators
    members: dict[int, list[int]] = {}
    for operator in model.order:
        forward = operators[operator].forward_of
        members.setdefault(operator if forward is None else forward, []).append(operator)
    number = {home: i for i, home in enumerate(members)}
    stages = tuple(Stage(tuple(m), (int(place[model.group_of[home]]),), size) for home, m in members.items())
    order = []
    for sequence in sequences:
        once: dict[tuple[int, str], None] = {}
        for operator in sequence:
            forward = operators[operator].forward_of
            home = operator if forward is None else forward
            once.setdefault((number[home], KIND_OF[operators[operator].phase]))
        repeated = [Action(stage, kind, j) for j in range(1, count) for stage, kind in once if kind != "U"]
        order.append((*repeated, *(Action(stage, kind) for stage, kind in once)))
    return Plan(stages, tuple(order))


def taken_apart(model: PassModel, plan: Plan) -> tuple[Ints, list[list[int]]] | None:
    """(device of every group, operators per device in order) of a plan; None if a stage has replicas."""
    place = np.full(len(model.groups), -1, np.int64)
    for operator, devices in plan.placement().items():
        if len(devices) != 1:
            return None
        place[model.group_of[operator]] = devices[0]
    sequences: list[list[int]] = [[] for _ in range(model.devices)]
    for device, actions in enumerate(plan.order):
        for action in actions:
            if action.micro_batch == 0:
                phases = PHASES_OF[action.kind]
                of_stage = plan.stages[action.stage].operators
                sequences[device] += [o for o in of_stage if model.problem.graph.operators[o].phase in phases]
    return place, sequences


Sent = tuple[int, int, int]
"""A message of the model, and the devices from and to which it moves."""


def crossing(model: PassModel, place: Sequence[int] | Ints) -> list[Sent]:
    """All that crosses links; nothing where transfers do not occupy links. place: the device of every group."""
    if model.problem.transfers is not Transfers.LINKS:
        return []
    device = np.asarray(place)[model.group_of].tolist()
    sent = []
    for number, message in enumerate(model.messages):
        if message.tensors:
            there = {device[r] for r in message.readers}
            for src in sorted({device[p] for p in message.producers}):
                sent += [(number, src, dst) for dst in sorted(there - {src})]
    return sent


def in_time(
    model: PassModel,
    place: Sequence[int] | Ints,
    sequences: Sequence[Sequence[int]],
    start_s: Sequence[float],
    sent_s: Mapping[Sent, float],
) -> list[Sent]:
    """All that crosses links in the order in which it starts.

    place: the device of every group. sequences: operators per device. start_s: of every operator; sent_s: of
    transfers, of which others start when the last of their makers ends. Times need be right up to rounding only: the
    order is that of one walk over operators and transfers in which each comes after what it needs, and
    operators in their sequences, so that a plan with both cannot deadlock. Nothing if the sequences do.
    """
    moves = crossing(model, place)
    if not moves:
        return []
    count, messages = model.operators, model.messages
    device = np.asarray(place)[model.group_of].tolist()
    depth = np.empty(count, np.int64)
    depth[list(model.order)] = np.arange(count)
    ends = [
        float(start) + s for start, s in zip(start_s, model.seconds[np.arange(count), device].tolist(), strict=True)
    ]
    keys = [(float(start_s[i]), ends[i], 2 * int(depth[i])) for i in range(count)]
    after: list[list[int]] = [list(targets) for targets in model.successors]
    for sequence in sequences:
        if sequence and model.arrays.wiring.one_by_one[device[sequence[0]]]:
            for earlier, later in pairwise(sequence):
                after[earlier].append(later)
    for node, (number, src, dst) in enumerate(moves, start=count):
        makers = [p for p in messages[number].producers if device[p] == src]
        start = sent_s.get((number, src, dst), max(ends[p] for p in makers))
        rank = 2 * max(int(depth[p]) for p in makers) + 1
        keys.append((start, start + float(model.transfer_s(number)[src, dst]), rank))
        for p in makers:
            after[p].append(node)
        after.append([r for r in messages[number].readers if device[r] == dst])
    walked = in_turn(after, keys)
    return [moves[node - count] for node in walked if node >= count] if len(walked) == len(keys) else []


def in_turn(
    after: Sequence[Sequence[int]], priority: Sequence[float] | Sequence[tuple[float, ...]] | Floats
) -> list[int]:
    """The topological order in which of all that could be next the one with the lowest priority is, a number or a tuple
    of some for each node; short of those on a cycle, and behind one. after: the nodes that wait for each."""
    waits = [0] * len(after)
    for targets in after:
        for target in targets:
            waits[target] += 1
    ready = [(priority[node], node) for node, waiting in enumerate(waits) if not waiting]
    heapq.heapify(ready)
    order = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for target in after[node]:
            waits[target] -= 1
            if not waits[target]:
                heapq.heappush(ready, (priority[target], target))
    return order


def stating(model: PassModel, plan: Plan, served: Sequence[Sent]) -> Plan:
    """A plan of `plan_of` that states the order in which each link serves what crosses it.

    The names are those of `evaluation.message_order`: of one name those of the lower message of the model come
    first, as bundles are numbered by the first tensor that travels in them.
    """
    operators = model.problem.graph.operators
    place = {operator: (s, i) for s, stage in enumerate(plan.stages) for i, operator in enumerate(stage.operators)}
    cluster = model.problem.cluster
    wires, devices = pairs_of(cluster, len(cluster)).wire, len(cluster)

    def unit(operator: int) -> tuple[int, int, int]:
        stage, rank = place[operator]
        return stage, ACTION_KINDS.index(KIND_OF[operators[operator].phase]), rank

    links: dict[int, list[tuple[Message, int]]] = {}
    names: dict[int, str] = {}
    sent_as: dict[tuple[int, Message], list[int]] = {}
    for number, src, dst in served:
        units = [unit(p) for p in model.messages[number].producers]
        stage, kind, _ = max(maker for maker in units if plan.stages[maker[0]].devices == (src,))
        name, wire = Message(Action(stage, ACTION_KINDS[kind]), dst), int(wires[src, dst])
        names.setdefault(wire, wire_name(cluster, src * devices + dst))
        links.setdefault(wire, []).append((name, number))
        sent_as.setdefault((wire, name), []).append(number)
    rank_of = {key: {n: i for i, n in enumerate(sorted(numbers))} for key, numbers in sent_as.items()}
    rows = {
        wire: tuple(replace(name, number=rank_of[wire, name][number]) for name, number in row)
        for wire, row in links.items()
    }
    return replace(plan, messages=tuple((names[wire], row) for wire, row in sorted(rows.items())))
