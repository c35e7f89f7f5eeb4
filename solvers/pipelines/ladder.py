"""The ladder of questions below a question: each is simpler, and its plans answer the one above too.

From the top: without what distinguishes equal devices (pins, caps), on the devices of some kinds alone, without
replicas, on fewer devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from solvers.pipelines.seating import caps_differ, kinds_by_speed
from solvers.plan.alike import multiplied
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem

LEAST_DEVICES = 2
"""One device is a question of its own: every search looks at that."""
ONE_BY_ONE = 16
"""Devices up to which a ladder may go down by one device a step; from more it goes to a power of two."""
FEW_KINDS = 3
"""With more kinds of accelerators they are left out one by one, the slowest first."""


@dataclass(frozen=True, eq=False)
class Rung:
    """question: the simpler one. devices: those of the question ``of`` that it leaves, by their numbers in it."""

    of: Problem
    question: Problem
    devices: tuple[int, ...]

    @property
    def key(self) -> tuple[int, int]:
        """Its devices and replicas, which tell it from the others of a ladder on which devices are alike."""
        return len(self.question.cluster), self.question.max_replicas

    def answer(self, plan: Plan) -> Plan:
        """The plan of the simpler question, where the devices that it leaves idle are there too."""
        total = len(self.of.cluster)
        if self.devices == tuple(range(len(self.devices))):
            return replace(plan, order=(*plan.order, *((),) * (total - len(self.devices))))
        return multiplied(plan, [self.devices], total)


def levelled(problem: Problem) -> Problem | None:
    """The question without pins, with every accelerator as large as the largest of its kind: bounds on it hold for the
    question, and its plans answer that where exchanging equal devices meets pins and caps. None if it is the same."""
    cluster, devices = problem.cluster, problem.cluster.devices
    if not problem.pins and not caps_differ(cluster):
        return None
    most = {
        kind: max(devices[d].memory_bytes for d in cluster.accelerators if devices[d].kind == kind)
        for kind in {devices[d].kind for d in cluster.accelerators}
    }
    same = tuple(replace(d, memory_bytes=most.get(d.kind, d.memory_bytes)) for d in devices)
    return replace(problem, pins={}, cluster=replace(cluster, devices=same))


def on_some_kinds(problem: Problem) -> Iterator[Rung]:
    """The question on the accelerators of all kinds but one, which may lead on to fewer: without the slowest, then
    without the fastest; with all devices where something is pinned. A plan may leave devices empty."""
    kinds = kinds_by_speed(problem)
    if len(kinds) < 2:
        return
    for left_out in dict.fromkeys((kinds[-1], kinds[0]) if len(kinds) <= FEW_KINDS else (kinds[-1],)):
        left = [i for i, device in enumerate(problem.cluster.devices) if device.kind != left_out]
        if set(problem.pins.values()) <= set(left):
            yield on_devices(problem, left)


def simpler(problem: Problem, one_by_one: bool = False) -> Iterator[Rung]:
    """The same with no replicas, where some are allowed, and on fewer devices.

    one_by_one: whether to go down by one device, up to ONE_BY_ONE of them, so that a device more is never worse. Else,
    and from more, the next question is on the largest power of two that is less than all: few steps lead from many
    devices to two, and no answer is behind that for half of them. None for a part of a cluster, whose plans have
    replicas in all other parts.
    """
    if problem.repeats.times > 1:
        return
    if problem.max_replicas > 1:
        yield Rung(problem, replace(problem, max_replicas=1), tuple(range(len(problem.cluster))))
    count = len(problem.cluster.accelerators)
    fewer = count - 1 if one_by_one and count <= ONE_BY_ONE else 1 << max(count - 1, 1).bit_length() - 1
    if fewer >= LEAST_DEVICES and fewer < count and not problem.cluster.cpus:
        devices = _best(problem, fewer)
        if set(problem.pins.values()) <= set(devices):
            yield on_devices(problem, devices)


def _best(problem: Problem, count: int) -> list[int]:
    """So many accelerators, ascending: those with pinned operators, then the fastest, then those with most memory,
    then the first."""
    pinned = set(problem.pins.values())
    specs, speed = problem.cluster.devices, {kind: rank for rank, kind in enumerate(kinds_by_speed(problem))}

    def rank(device: int) -> tuple[bool, int, float, int]:
        return device not in pinned, speed[specs[device].kind], -specs[device].memory_bytes, device

    return sorted(sorted(problem.cluster.accelerators, key=rank)[:count])


def on_devices(problem: Problem, devices: Sequence[int]) -> Rung:
    """The question on some of the devices, among them all to which operators are pinned, ascending."""
    number = {device: at for at, device in enumerate(devices)}
    question = replace(
        problem,
        cluster=problem.cluster.part(devices),
        max_replicas=min(problem.max_replicas, len(devices)),
        pins={operator: number[device] for operator, device in problem.pins.items()},
    )
    return Rung(problem, question, tuple(devices))
