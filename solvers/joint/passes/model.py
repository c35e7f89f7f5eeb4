"""One unsplit pass of operators as plain arrays: what every planner of placement and order reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvers.coarsening.traffic import Rows
from solvers.evaluation.columns import pairs_of
from solvers.evaluation.unit_bytes import saved_bytes, workspace_bytes
from solvers.joint.passes.arrays_kernel import Held, PassArrays, Wiring
from solvers.kernels.arrays import Floats, Ints, inverse
from solvers.problem.graph import Phase, topological_order
from solvers.problem.groups import group_of
from solvers.problem.problem import Problem, Transfers


@dataclass(frozen=True, slots=True)
class Message:
    """What travels as one: a tensor, several with the same ends, or partial gradients to be added.

    Each device that holds some of ``producers`` sends it, once they are all done, once to each other
    device with some of ``readers``. nbytes, tensors (how many that take a latency each) and stated_s (the
    seconds a workload states for it, 0 without): of one such transfer. Free if it has none of the three.
    """

    producers: tuple[int, ...]
    readers: tuple[int, ...]
    nbytes: float
    tensors: int
    stated_s: float


@dataclass(frozen=True, eq=False)
class PassModel:
    """An unsplit pass of ``problem`` by operators; see the fields of `PassArrays` for the rest.

    seconds: [operators, devices], inf where an operator cannot run. groups: operators that share a device,
    each in topological order; groups are ordered by their first operator in that order. group_of: [operators].
    allowed: [groups, devices], by times and pins. static_bytes: [groups], held throughout. order: a topological
    order of operators, mirrors after their forward operator. successors, predecessors: of every operator,
    mirrors included, ascending.
    """

    problem: Problem
    seconds: Floats
    groups: tuple[tuple[int, ...], ...]
    group_of: Ints
    allowed: NDArray[np.bool_]
    static_bytes: Floats
    messages: tuple[Message, ...]
    order: tuple[int, ...]
    successors: tuple[tuple[int, ...], ...]
    predecessors: tuple[tuple[int, ...], ...]
    arrays: PassArrays

    @property
    def operators(self) -> int:
        return len(self.seconds)

    @property
    def devices(self) -> int:
        return int(self.seconds.shape[1])

    @property
    def memory_bytes(self) -> Floats:
        """What every device can hold, [devices]."""
        return self.arrays.held.memory_bytes

    @cached_property
    def held_bytes(self) -> Floats:
        """What every group holds while a planner plans, [groups]: parameters with gradients and optimizer states (or
        stated sizes), and the activations that it saves."""
        saved = np.bincount(self.group_of, self.arrays.held.saved_bytes, len(self.groups))
        return np.asarray(self.static_bytes + saved)

    def transfer_s(self, message: int) -> Floats:
        """Seconds of one transfer of a message, [devices, devices]; 0 on one device, inf without a link."""
        sent, w = self.messages[message], self.arrays.wiring
        seconds: Floats = np.zeros_like(w.latency_s)
        if sent.tensors:
            seconds = sent.tensors * w.latency_s + sent.nbytes * w.per_byte_s + sent.stated_s
            np.fill_diagonal(seconds, 0.0)
        return seconds

    def allowed_to(self, unit_of: Ints) -> NDArray[np.bool_]:
        """Where units of groups may be, [units, devices]. unit_of: [groups], numbers from 0."""
        allowed = np.ones((int(unit_of.max(initial=-1)) + 1, self.devices), bool)
        np.logical_and.at(allowed, unit_of, self.allowed)
        return allowed

    def gathered(self, unit_of: Ints, place: Ints) -> Ints:
        """The device of every unit of groups on which most of its work is, of those that it may run on, [units].

        unit_of: [groups]. place: the device of every group.
        """
        allowed = self.allowed_to(unit_of)
        work = np.bincount(self.group_of, self.mean_s, len(self.groups))
        votes = np.zeros(allowed.shape)
        np.add.at(votes, (unit_of, place), work + 1e-12 * (work.sum() or 1.0))
        votes[~allowed] = -1.0
        best: Ints = votes.argmax(axis=1).astype(np.int64)
        return best

    @cached_property
    def mean_s(self) -> Floats:
        """Seconds of every operator, averaged over the devices that can run it, [operators]."""
        finite = np.isfinite(self.seconds)
        total: Floats = np.where(finite, self.seconds, 0.0).sum(axis=1)
        mean: Floats = total / np.maximum(1, finite.sum(axis=1))
        return mean

    @cached_property
    def mean_transfer_s(self) -> Floats:
        """Seconds of one transfer of every message, averaged over the pairs of devices with a link, [messages]."""
        w = self.arrays.wiring
        if self.problem.transfer_s is not None:
            return np.array([m.stated_s for m in self.messages])
        linked = np.isfinite(w.per_byte_s) & ~np.eye(self.devices, dtype=bool)
        if not linked.any():
            return np.zeros(len(self.messages))
        latency, per_byte = float(w.latency_s[linked].mean()), float(w.per_byte_s[linked].mean())
        return np.array([m.tensors * latency + m.nbytes * per_byte if m.tensors else 0.0 for m in self.messages])


def pass_model(problem: Problem) -> PassModel:
    """The arrays of one unsplit pass of ``mini_batch`` samples (MAKESPAN, Execution.OPERATOR), a device an
    operator."""
    samples = float(problem.mini_batch)
    devices = problem.cluster.devices
    by_kind = {kind: problem.compute.at(kind, samples) for kind in sorted({d.kind for d in devices})}
    seconds = np.stack([by_kind[device.kind] for device in devices], axis=1)
    successors = _successors(problem)
    order = topological_order(successors)
    groups, number = _groups(problem, order)
    allowed = np.stack([np.isfinite(seconds[list(group)]).all(axis=0) for group in groups])
    for operator, device in problem.pins.items():
        elsewhere = np.arange(len(devices)) != device
        allowed[number[operator], elsewhere] = False
    static = problem.static_bytes()
    messages = _messages(problem, samples)
    return PassModel(
        problem,
        seconds,
        groups,
        number,
        allowed,
        np.array([static[list(group)].sum() for group in groups]),
        messages,
        order,
        tuple(tuple(targets) for targets in successors),
        tuple(map(tuple, inverse(successors, len(successors)))),
        _arrays(problem, seconds, messages, number),
    )


def _successors(problem: Problem) -> list[list[int]]:
    after = [set(targets) for targets in problem.graph.successors]
    for position, operator in enumerate(problem.graph.operators):
        if operator.forward_of is not None:
            after[operator.forward_of].add(position)
    return [sorted(targets) for targets in after]


def _groups(problem: Problem, order: Sequence[int]) -> tuple[tuple[tuple[int, ...], ...], Ints]:
    number = group_of(problem.graph).tolist()
    collected: dict[int, list[int]] = {}
    for operator in order:
        collected.setdefault(number[operator], []).append(operator)
    rank = {old: new for new, old in enumerate(collected)}
    return tuple(map(tuple, collected.values())), np.array([rank[old] for old in number], np.int64)


def _messages(problem: Problem, samples: float) -> tuple[Message, ...]:
    tensors = problem.graph.tensors
    merged: dict[tuple[tuple[int, ...], tuple[int, ...]], Message] = {}
    for group in problem.graph.messages:
        first = tensors[group[0]]
        ends = tuple(sorted(tensors[t].producer for t in group)), tuple(sorted(first.consumers))
        before = merged.get(ends, Message(tuple(sorted(set(ends[0]))), ends[1], 0.0, 0, 0.0))
        nbytes = first.nbytes.at(samples)
        stated = 0.0 if problem.transfer_s is None else problem.transfer_s[group[0]] * samples
        counts = problem.transfer_s is not None or bool(first.nbytes.fixed or first.nbytes.per_sample)
        merged[ends] = Message(
            before.producers, before.readers, before.nbytes + nbytes, before.tensors + counts, before.stated_s + stated
        )
    return tuple(merged.values())


def _arrays(problem: Problem, seconds: Floats, messages: Sequence[Message], group_of: Ints) -> PassArrays:
    operators = problem.graph.operators
    waits = np.zeros(len(operators), np.int64)
    for message in messages:
        waits[list(message.readers)] += len(message.producers)
    homes = [() if o.forward_of is None else (o.forward_of,) for o in operators]
    waits += list(map(len, homes))
    ends = [message.producers for message in messages], homes
    made_of, mirrors_of = (Rows.of(inverse(each, len(operators))) for each in ends)
    producers, readers = Rows.of([m.producers for m in messages]), Rows.of([m.readers for m in messages])
    return PassArrays(
        seconds=seconds,
        group_of=group_of,
        waits=waits,
        made_start=made_of.start,
        made=made_of.items,
        mirror_start=mirrors_of.start,
        mirror=mirrors_of.items,
        producer_start=producers.start,
        producer=producers.items,
        reader_start=readers.start,
        reader=readers.items,
        wiring=_wiring(problem, messages),
        held=_held(problem, messages),
    )


def _wiring(problem: Problem, messages: Sequence[Message]) -> Wiring:
    cluster = problem.cluster
    count = len(cluster)
    latency, per_byte = np.zeros((count, count)), np.zeros((count, count))
    if problem.transfer_s is None:
        pairs = pairs_of(cluster, count)
        latency = pairs.latency_s.copy()
        with np.errstate(divide="ignore"):
            per_byte = 1.0 / pairs.bandwidth
        np.fill_diagonal(latency, 0.0)
        np.fill_diagonal(per_byte, 0.0)
    leave, arrive, resources = _resources(problem)
    return Wiring(
        message_bytes=np.array([m.nbytes for m in messages], np.float64),
        message_tensors=np.array([m.tensors for m in messages], np.float64),
        message_stated_s=np.array([m.stated_s for m in messages], np.float64),
        latency_s=latency,
        per_byte_s=per_byte,
        leave=leave,
        arrive=arrive,
        one_by_one=np.array([device.concurrency is not None for device in cluster.devices]),
        resources=np.int64(resources),
    )


def _held(problem: Problem, messages: Sequence[Message]) -> Held:
    """What is held, by the rules of `solvers.evaluation`; where sizes are stated nothing but these."""
    operators, samples = problem.graph.operators, float(problem.mini_batch)
    counted, training = problem.stated_bytes is None, problem.has_backward()
    saves = [counted and training and o.phase is Phase.FORWARD for o in operators]
    return Held(
        memory_bytes=np.array([device.memory_bytes for device in problem.cluster.devices]),
        static_bytes=problem.static_bytes(),
        saved_bytes=np.array([saved_bytes(problem, (o,), samples) if s else 0.0 for o, s in enumerate(saves)]),
        working_bytes=np.array(
            [workspace_bytes(problem, (o,), samples) if counted else 0.0 for o in range(len(operators))]
        ),
        tensor_bytes=np.array([m.nbytes if counted and not saves[m.producers[0]] else 0.0 for m in messages]),
        home=np.array([i if o.forward_of is None else o.forward_of for i, o in enumerate(operators)], np.int64),
        phase=np.array([_PHASES.index(o.phase) for o in operators], np.int64),
        counts_buffers=np.bool_(counted),
    )


_PHASES = (Phase.FORWARD, Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT, Phase.UPDATE)


def _resources(problem: Problem) -> tuple[Ints, Ints, int]:
    """(leave, arrive, how many resources) as in `PassArrays`: devices first, then links or lanes."""
    devices = problem.cluster.devices
    count = len(devices)
    leave = np.full(count, -1, np.int64)
    arrive = np.full((count, count), -1, np.int64)
    if problem.transfers is Transfers.LINKS:
        wire = pairs_of(problem.cluster, count).wire
        return leave, count + wire, count + int(wire.max()) + 1
    first_out = {Transfers.BLOCKING: 0, Transfers.LANE: count, Transfers.DUPLEX: count}[problem.transfers]
    first_in = {Transfers.BLOCKING: 0, Transfers.LANE: count, Transfers.DUPLEX: 2 * count}[problem.transfers]
    for d, device in enumerate(devices):
        if not device.is_cpu:  # CPUs pay nothing
            leave[d] = first_out + d
            arrive[:, d] = first_in + d
    return leave, arrive, 3 * count
