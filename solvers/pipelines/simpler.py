"""Simpler questions whose plans answer this one too: fewer devices, or no replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from solvers.pipelines.seating import kinds_by_speed
from solvers.plan.plan import Action, Plan
from solvers.problem.problem import Problem

LEAST_DEVICES = 2
"""One device is a question of its own."""


@dataclass(frozen=True, eq=False)
class Simpler:
    """question: the simpler one. devices: those of the question ``of`` that it leaves, by their numbers in it."""

    of: Problem
    question: Problem
    devices: tuple[int, ...]

    def answer(self, plan: Plan) -> Plan:
        """The plan of the simpler question, where the devices that it leaves idle are there too."""
        order: list[tuple[Action, ...]] = [()] * len(self.of.cluster)
        for device, actions in zip(self.devices, plan.order, strict=True):
            order[device] = actions
        if self.devices == tuple(range(len(self.devices))):
            return replace(plan, order=tuple(order))
        stages = tuple(replace(s, devices=tuple(self.devices[d] for d in s.devices)) for s in plan.stages)
        return replace(plan, stages=stages, order=tuple(order), messages=())


def simpler(problem: Problem) -> Iterator[Simpler]:
    """The same with no replicas, where some are allowed, and on fewer devices, the largest power of two that is
    less than all: so few steps lead from many devices to two, and no answer is behind that for half of them. Those
    with pinned operators stay, then the fastest, then those with most memory, then the first."""
    if problem.max_replicas > 1:
        yield Simpler(problem, replace(problem, max_replicas=1), tuple(range(len(problem.cluster))))
    count = len(problem.cluster.accelerators)
    fewer = 1 << max(count - 1, 1).bit_length() - 1
    pinned = set(problem.pins.values())
    if LEAST_DEVICES <= fewer < count and not problem.cluster.cpus and len(pinned) <= fewer:
        specs, speed = problem.cluster.devices, {kind: rank for rank, kind in enumerate(kinds_by_speed(problem))}

        def rank(device: int) -> tuple[bool, int, float, int]:
            return device not in pinned, speed[specs[device].kind], -specs[device].memory_bytes, device

        yield on_devices(problem, sorted(sorted(problem.cluster.accelerators, key=rank)[:fewer]))


def on_devices(problem: Problem, devices: Sequence[int]) -> Simpler:
    """The question on some of the devices, among them all to which operators are pinned, ascending."""
    number = {device: at for at, device in enumerate(devices)}
    question = replace(
        problem,
        cluster=problem.cluster.part(devices),
        max_replicas=min(problem.max_replicas, len(devices)),
        pins={operator: number[device] for operator, device in problem.pins.items()},
    )
    return Simpler(problem, question, tuple(devices))
