"""Groups of devices of which a schedule says that all do the same: whether they do, from plan and links."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from solvers.plan.plan import Action, Plan
from solvers.plan.schedule import Schedule
from solvers.problem.problem import Objective, Problem, Transfers
from solvers.verify.travel.transfers import Moves


class Group(NamedTuple):
    """What one of several groups does.

    problem, plan: its share of the samples, on its devices. every: devices of each group, those that do the same at one
    place. rings: of every stage the devices of all groups, round which replicas tell each other of parameters.
    """

    problem: Problem
    plan: Plan
    every: tuple[tuple[int, ...], ...]
    rings: tuple[tuple[int, ...], ...]


def first_group(problem: Problem, plan: Plan, schedule: Schedule) -> tuple[Group | None, list[str]]:
    """The first of the groups that a schedule names, or None and why the others do not do what it does.

    A stage's replicas must be those of the first group, then of the second and so on, and all stages cut the mini-batch
    into micro-batches of one size: then each group has the same samples of it at every stage, and sends nothing to
    another but gradients.
    """
    rings = tuple(stage.devices for stage in plan.stages)
    if not schedule.alike:
        whole = tuple(range(len(problem.cluster)))
        return Group(problem, plan, (whole,), rings), []
    every: tuple[tuple[int, ...], ...] = tuple(zip(*schedule.alike, strict=False))
    findings: list[str] = []
    times, sizes = len(every), {stage.micro_batch_size for stage in plan.stages}
    hangs = plan.messages or not (problem.transfers is Transfers.LINKS or problem.transfers_alike)
    if hangs or problem.objective is not Objective.ITERATION or len(sizes) > 1:
        findings.append(
            "the schedule says that devices do the same, where more than links and samples distinguishes them"
        )
    if {len(same) for same in schedule.alike} != {times} or min(sizes) % times or times < 2:
        return None, [f"{times} groups cannot share micro-batches of {min(sizes)} samples"]
    if sorted(device for group in every for device in group) != list(plan.devices_used()):
        findings.append("the groups that are said to do the same are not made of all devices that are used, each once")
    if len(schedule.memory) != len(problem.cluster):
        findings.append(f"the schedule states the memory of {len(schedule.memory)} devices")
    if findings:
        return None, findings
    place = {device: at for at, device in enumerate(every[0])}
    stages = []
    for number, stage in enumerate(plan.stages):
        each = len(stage.devices) // times
        first = [place.get(device, 0) for device in stage.devices[:each]]
        if tuple(group[at] for group in every for at in first) != stage.devices:
            findings.append(f"stage {number} is not on the same devices of {times} groups")
            continue
        size = stage.micro_batch_size // times
        stages.append(replace(stage, devices=stage.devices[:each], micro_batch_size=size))
    findings += [
        f"device {device} is said to do what device {every[0][at]} does, and {what}"
        for group in every[1:]
        for at, device in enumerate(group)
        if (what := _unlike(problem, plan, schedule, every[0][at], device))
    ]
    order: list[tuple[Action, ...]] = [()] * len(plan.order)
    for device in every[0]:
        order[device] = plan.order[device]
    if findings:
        return None, findings
    share = replace(problem, mini_batch=problem.mini_batch // times)
    return Group(share, replace(plan, stages=tuple(stages), order=tuple(order)), every, rings), []


def _unlike(problem: Problem, plan: Plan, schedule: Schedule, first: int, other: int) -> str:
    """What distinguishes two devices; "" if nothing does."""
    a, b = problem.cluster.devices[first], problem.cluster.devices[other]
    if (a.kind, a.memory_bytes, a.concurrency) != (b.kind, b.memory_bytes, b.concurrency):
        return f"is another: {b.kind} with {b.memory_bytes} bytes"
    if plan.order[first] is not plan.order[other] and plan.order[first] != plan.order[other]:
        return "has other actions in its order"
    first_memory, other_memory = schedule.memory[first], schedule.memory[other]
    return "" if first_memory is other_memory or first_memory == other_memory else "has another memory curve"


def unlike_wires(group: Group, moves: Moves) -> list[str]:
    """Links of other groups that are not as those over which the first sends, or wires that two groups would share."""
    cluster, every, findings = group.problem.cluster, group.every, []
    place, following = ({device: at for at, device in enumerate(some)} for some in every[:2])
    pairs = {
        pair
        for kind in (moves.departures, moves.arrivals, moves.reduces)
        for pair in zip(kind.device.tolist(), kind.to_device.tolist(), strict=True)
        if pair[0] != pair[1]
    }
    owner: dict[str, tuple[int, str]] = {}
    for src, dst in sorted(pairs):
        start, away = place[src], dst not in place
        end, first = following[dst] if away else place[dst], cluster.link(src, dst)
        for number, devices in enumerate(every):
            a, b = devices[start], every[(number + away) % len(every)][end]
            link = cluster.link(a, b)
            if first is None or link is None:
                return [f"there is no link from device {a} to device {b}"]
            if (link.latency_s, link.bandwidth_bytes_per_s) != (first.latency_s, first.bandwidth_bytes_per_s):
                findings.append(f"the link {a} -> {b} is not as fast as {src} -> {dst}, which is said to do the same")
            wire = number, first.resource or f"{src}->{dst}"
            if owner.setdefault(link.resource or f"{a}->{b}", wire) != wire:
                findings.append(
                    f"the wire of {a} -> {b} is not used as that of {src} -> {dst}, said to do the same, is"
                )
    return findings
