"""The order in which links serve the messages of a pass: from times of any origin to what a plan states."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from solvers.evaluation.columns import pairs_of, wire_name
from solvers.joint.passes.model import PassModel
from solvers.joint.passes.plans import KIND_OF
from solvers.kernels.arrays import Ints
from solvers.plan.plan import ACTION_KINDS, Action, Message, Plan
from solvers.problem.problem import Transfers

Sent = tuple[int, int, int]
"""A message of the model, and the devices from and to which it moves."""


def crossing(model: PassModel, place: Sequence[int] | Ints) -> list[Sent]:
    """All that crosses links; nothing where transfers do not occupy links. place: the device of every group."""
    if model.problem.transfers is not Transfers.LINKS:
        return []
    device = np.asarray(place)[model.group_of].tolist()
    found = []
    for number, message in enumerate(model.messages):
        if message.tensors:
            there = {device[r] for r in message.readers}
            for src in sorted({device[p] for p in message.producers}):
                found += [(number, src, dst) for dst in sorted(there - {src})]
    return found


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
    walked = _walk(after, keys)
    return [moves[node - count] for node in walked if node >= count] if len(walked) == len(keys) else []


def _walk(after: Sequence[Sequence[int]], keys: Sequence[tuple[float, float, int]]) -> list[int]:
    """The topological order in which of all that could be next the one with the least key is; short of those on a
    cycle, and behind one."""
    waits = [0] * len(keys)
    for targets in after:
        for target in targets:
            waits[target] += 1
    ready = [(*keys[node], node) for node, waiting in enumerate(waits) if not waiting]
    heapq.heapify(ready)
    walked = []
    while ready:
        node = heapq.heappop(ready)[-1]
        walked.append(node)
        for target in after[node]:
            waits[target] -= 1
            if not waits[target]:
                heapq.heappush(ready, (*keys[target], target))
    return walked


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
