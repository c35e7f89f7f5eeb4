"""Jobs: the operators of a pass, some contracted, and the units of them that share a device."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.joint.lists.jobs_kernel import JobArrays
from solvers.joint.passes.model import Message, PassModel
from solvers.kernels.arrays import Floats, Ints
from solvers.problem.graph import topological_order


@dataclass(frozen=True, eq=False)
class Jobs:
    """What a list scheduler places and orders.

    members: the operators of every job, in topological order; jobs are numbered in a topological order.
    unit_of_group: the unit of every group of the model, [groups]. arrays: the same for kernels.
    """

    model: PassModel
    members: tuple[tuple[int, ...], ...]
    unit_of_group: Ints
    arrays: JobArrays

    def __len__(self) -> int:
        return len(self.members)

    def place(self, unit_place: Ints) -> Ints:
        """The device of every group, from that of every unit."""
        placed: Ints = unit_place[self.unit_of_group]
        return placed

    def sequences(self, device: Ints, start_s: Floats, turn: Ints) -> list[list[int]]:
        """The operators of every device by the start of their jobs; of equal starts the earlier turn first."""
        sequences: list[list[int]] = [[] for _ in range(self.model.devices)]
        for job in np.lexsort((turn, start_s)).tolist():
            sequences[int(device[job])] += self.members[job]
        return sequences


def held_bytes(model: PassModel) -> Floats:
    """What every group holds while schedulers plan, [groups]: parameters with gradients and optimizer states (or
    stated sizes), and the activations that it saves."""
    held = model.static_bytes.copy()
    np.add.at(held, model.group_of, model.arrays.saved_bytes)
    return held


def jobs_of(model: PassModel, unit_of_group: Ints, *, contract: bool) -> Jobs:
    """The jobs of a model whose groups are joined to units, numbered from 0.

    contract: whether operators of one unit become one job where that is safe (see `contracted`).
    """
    unit_of = unit_of_group[model.group_of]
    job_of = contracted(model, unit_of) if contract else np.arange(model.operators)
    job_of, successors = _in_order(model, job_of)
    members: list[list[int]] = [[] for _ in successors]
    for operator in model.order:
        members[job_of[operator]].append(operator)
    return Jobs(
        model,
        tuple(map(tuple, members)),
        unit_of_group,
        _arrays(model, members, successors, job_of, unit_of_group),
    )


def contracted(model: PassModel, unit_of: Ints) -> Ints:
    """The job of every operator after fusing those of one unit that are joined by a tensor.

    An edge (u, v) is contracted unless u has several successors and v several predecessors, when another path
    from u to v could close a cycle (operator fusion of Jeon et al., SoCC 2020, section 4). unit_of: [operators].
    """
    after = [set(targets) for targets in model.successors]
    before = [set(sources) for sources in model.predecessors]
    into = np.arange(model.operators)
    todo = deque((u, v) for u in model.order for v in model.successors[u] if unit_of[u] == unit_of[v])
    while todo:
        u, v = todo.popleft()
        if v not in after[u] or (len(after[u]) > 1 and len(before[v]) > 1):
            continue
        into[v] = u
        after[u].discard(v)
        before[v].discard(u)
        for source in sorted(before[v]):
            after[source].discard(v)
            if u not in after[source]:
                after[source].add(u)
                before[u].add(source)
                if unit_of[source] == unit_of[u]:
                    todo.append((source, u))
        for target in sorted(after[v]):
            before[target].discard(v)
            if target not in after[u]:
                after[u].add(target)
                before[target].add(u)
                if unit_of[target] == unit_of[u]:
                    todo.append((u, target))
        after[v], before[v] = set(), set()
    while (into[into] != into).any():
        into = into[into]
    return into


def _in_order(model: PassModel, into: Ints) -> tuple[Ints, list[list[int]]]:
    """(job of every operator, successors of every job), jobs numbered in a topological order in which those
    whose first operator comes first in the model's order are preferred."""
    first: dict[int, int] = {}
    for operator in model.order:
        first.setdefault(int(into[operator]), len(first))
    number = np.array([first[int(root)] for root in into], np.int64)
    after: list[set[int]] = [set() for _ in first]
    for operator, targets in enumerate(model.successors):
        for target in targets:
            if number[operator] != number[target]:
                after[number[operator]].add(int(number[target]))
    order = topological_order([sorted(targets) for targets in after])
    position = np.empty(len(first), np.int64)
    position[list(order)] = np.arange(len(first))
    successors = [sorted(int(position[t]) for t in after[job]) for job in order]
    return position[number], successors


def _arrays(
    model: PassModel, members: Sequence[Sequence[int]], successors: Sequence[list[int]], job_of: Ints, unit_of: Ints
) -> JobArrays:
    a = model.arrays
    units = int(unit_of.max()) + 1
    allowed = np.ones((units, model.devices), np.bool_)
    np.logical_and.at(allowed, unit_of, model.allowed)
    nbytes = np.zeros(units)
    np.add.at(nbytes, unit_of, held_bytes(model))
    before: list[list[int]] = [[] for _ in members]
    for job, targets in enumerate(successors):
        for target in targets:
            before[target].append(job)
    producers, reads, edge_s = _messages(model, job_of, len(members))
    return JobArrays(
        seconds=np.stack([model.seconds[list(job)].sum(axis=0) for job in members]),
        unit_of=np.array([unit_of[model.group_of[job[0]]] for job in members], np.int64),
        allowed=allowed,
        unit_bytes=nbytes,
        waits=np.array([len(sources) for sources in before], np.int64),
        before_start=_starts(before),
        before=_flat(before),
        after_start=_starts(successors),
        after=_flat(successors),
        after_s=np.array([edge_s.get((u, v), 0.0) for u, targets in enumerate(successors) for v in targets]),
        read_start=_starts(reads),
        read=_flat(reads),
        producer_start=_starts(producers),
        producer=_flat(producers),
        message_tensors=a.message_tensors,
        message_bytes=a.message_bytes,
        message_stated_s=a.message_stated_s,
        latency_s=a.latency_s,
        per_byte_s=a.per_byte_s,
        leave=a.leave,
        arrive=a.arrive,
        one_by_one=a.one_by_one,
        resources=a.resources,
    )


def _messages(
    model: PassModel, job_of: Ints, jobs: int
) -> tuple[list[list[int]], list[list[int]], dict[tuple[int, int], float]]:
    """(jobs that make every message, messages that every job reads, mean seconds between two jobs); messages
    that take no time or stay inside a job are left out."""
    producers: list[list[int]] = [[] for _ in model.messages]
    reads: list[list[int]] = [[] for _ in range(jobs)]
    edge_s: dict[tuple[int, int], float] = {}
    for number, message in enumerate(model.messages):
        if message.tensors == 0:
            continue
        sources, readers = _ends(message, job_of)
        producers[number] = sources
        for reader in readers:
            if sources == [reader]:
                continue
            reads[reader].append(number)
            for source in sources:
                if source != reader:
                    edge_s[source, reader] = edge_s.get((source, reader), 0.0) + float(model.mean_transfer_s[number])
    return producers, reads, edge_s


def _ends(message: Message, job_of: Ints) -> tuple[list[int], list[int]]:
    return sorted({int(job_of[o]) for o in message.producers}), sorted({int(job_of[o]) for o in message.readers})


def _starts(rows: Sequence[Sequence[int]]) -> Ints:
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    return starts


def _flat(rows: Sequence[Sequence[int]]) -> Ints:
    return np.array([x for row in rows for x in row], np.int64)
