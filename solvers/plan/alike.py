"""Replicas that do the same: a plan of which one group of devices tells what all of them do.

Where every stage has a multiple of some number of replicas, its micro-batches are cut at the borders between groups of
these, so nothing is sent from one group to another but round the rings that add up gradients. If devices and links of
the groups are alike, and no wire is used by two of them, every group does what the first does, at the same times; and
a ring goes on in the next group where it would come back to the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from solvers.plan.plan import Action, Plan
from solvers.problem.cluster import Cluster
from solvers.problem.links import Tiers
from solvers.problem.problem import Objective, Problem, Transfers

MANY = 64
"""Devices above which one looks for groups."""


@dataclass(frozen=True, eq=False)
class Alike:
    """plan: of the first group, for ``problem``, which has its share of the samples. times: how many groups there are.
    following: of every stage, the device after the last of the first group round its ring. devices: of every device of
    the first group those that do the same in all groups, itself first."""

    problem: Problem
    plan: Plan
    times: int
    following: tuple[int, ...]
    devices: dict[int, tuple[int, ...]]


def alike(problem: Problem, plan: Plan, least: int = MANY) -> Alike | None:
    """The largest number of groups of a plan on more than ``least`` devices; None where there is but one."""
    if len(problem.cluster) <= least or not _may_be_alike(problem, plan):
        return None
    tiers = problem.cluster.links
    assert isinstance(tiers, Tiers)
    times = math.gcd(problem.mini_batch, *(n for s in plan.stages for n in (len(s.devices), s.micro_batch_size)))
    for groups in (n for n in range(times, 1, -1) if times % n == 0):
        devices = _groups(problem.cluster, tiers, plan, groups)
        if devices is not None:
            return _first(problem, plan, groups, devices)
    return None


def _may_be_alike(problem: Problem, plan: Plan) -> bool:
    """Whether nothing but replicas tells devices apart: no order of messages, no pins, no half of a transfer that
    takes as long as the slowest of all replicas', nothing that hangs on how many replicas there are but rings, and
    micro-batches of one size, so that those of every stage are cut at the same samples."""
    return (
        isinstance(problem.cluster.links, Tiers)
        and problem.objective is Objective.ITERATION
        and problem.transfers is Transfers.LINKS
        and problem.zero == 0
        and len({stage.micro_batch_size for stage in plan.stages}) == 1
        and not plan.messages
        and not problem.pins
    )


def _groups(cluster: Cluster, tiers: Tiers, plan: Plan, times: int) -> dict[int, tuple[int, ...]] | None:
    """The devices that do the same, by those of the first of so many groups; None where groups are not alike."""
    found: dict[int, tuple[int, ...]] = {}
    whole = sorted({stage.devices for stage in plan.stages})
    first = [devices[: len(devices) // times] for devices in whole]
    if sorted(set(first)) != first:  # transfers that are ready at once go in the order of these
        return None
    for stage in plan.stages:
        each = len(stage.devices) // times
        for at, device in enumerate(stage.devices[:each]):
            same = stage.devices[at::each]
            if found.setdefault(device, same) != same:
                return None
    used = [device for same in found.values() for device in same]
    if len(set(used)) < len(used):
        return None
    node_of: list[dict[int, int]] = [{} for _ in range(times)]
    for device, same in found.items():
        if any(plan.order[other] != plan.order[device] for other in same):
            return None
        if len({(_without_name(cluster, other), tiers.groups[other]) for other in same}) > 1:
            return None
        for group, other in enumerate(same):
            node = tiers.nodes[other]
            if node_of[group].setdefault(tiers.nodes[device], node) != node:
                return None
    nodes = [node for some in node_of for node in some.values()]
    return found if len(set(nodes)) == len(nodes) else None


def _without_name(cluster: Cluster, device: int) -> tuple[object, ...]:
    of = cluster.devices[device]
    return of.kind, of.memory_bytes, of.concurrency


def _first(problem: Problem, plan: Plan, times: int, devices: dict[int, tuple[int, ...]]) -> Alike:
    stages = tuple(
        replace(
            stage,
            devices=stage.devices[: len(stage.devices) // times],
            micro_batch_size=stage.micro_batch_size // times,
        )
        for stage in plan.stages
    )
    order: list[tuple[Action, ...]] = [()] * len(plan.order)
    for device in devices:
        order[device] = plan.order[device]
    share = replace(problem, mini_batch=problem.mini_batch // times)
    first = replace(plan, stages=stages, order=tuple(order))
    return Alike(share, first, times, _following(plan, times), devices)


def _following(plan: Plan, times: int) -> tuple[int, ...]:
    return tuple(stage.devices[len(stage.devices) // times] for stage in plan.stages)


def multiplied(plan: Plan, devices: Sequence[Sequence[int]], total: int, samples: int) -> Plan:
    """A plan whose every device is the first of a group of devices that do the same.

    devices: [groups] those that stand for devices 0, 1, ... of the plan. total: devices of the cluster. samples: how
    many times as large the micro-batches are.
    """
    order: list[tuple[Action, ...]] = [()] * total
    for group in devices:
        for device, actions in enumerate(plan.order):
            order[group[device]] = actions
    stages = tuple(
        replace(
            stage,
            devices=tuple(group[device] for group in devices for device in stage.devices),
            micro_batch_size=stage.micro_batch_size * samples,
        )
        for stage in plan.stages
    )
    return replace(plan, stages=stages, order=tuple(order), messages=())
