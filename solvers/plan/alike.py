"""Devices that do the same: a plan of which the devices of one group say what those of all groups do.

Where every stage has a multiple of some number of replicas, its micro-batches are cut at the borders between groups of
these, so nothing is sent from one group to another but round the rings that add up gradients. If devices and links of
the groups are alike, and no wire is used by two of them, every group does what the first does, at the same times; and
a ring goes on in the next group where it would come back to the first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.kernels.arrays import Ints
from solvers.plan.plan import Action, Plan
from solvers.problem.links import Tiers
from solvers.problem.problem import Objective, Problem, Transfers

MANY = 64
"""Devices above which one looks for groups."""


@dataclass(frozen=True, eq=False)
class Alike:
    """plan: what the devices of the first group do, whose stages have as many times as many replicas as there are
    groups. following: of every stage, the device of the second group to which the last of the first sends gradients.
    groups: [groups, devices] those in a column do the same."""

    plan: Plan
    following: Ints
    groups: Ints


def alike(problem: Problem, plan: Plan, least: int | None = None) -> Alike | None:
    """The largest number of groups of a plan on more than ``least`` devices, or `MANY`; None where there is but one."""
    if len(problem.cluster) <= (MANY if least is None else least) or not _may_be_alike(problem, plan):
        return None
    tiers = problem.cluster.links
    assert isinstance(tiers, Tiers)
    times = math.gcd(problem.mini_batch, *(n for s in plan.stages for n in (len(s.devices), s.micro_batch_size)))
    if times == 1:
        return None
    specs = [(device.kind, device.memory_bytes, device.concurrency) for device in problem.cluster.devices]
    orders = {id(actions): actions for actions in plan.order}
    number = dict(zip(orders, _numbers(list(orders.values())).tolist(), strict=True))
    ordered = np.array([number[id(actions)] for actions in plan.order], np.int64)
    does = np.stack([_numbers(specs), np.array(tiers.groups), ordered])
    for share in (n for n in range(times, 1, -1) if times % n == 0):
        groups = _groups(np.array(tiers.nodes), does, plan, share)
        if groups is not None:
            return _first(plan, groups)
    return None


def _may_be_alike(problem: Problem, plan: Plan) -> bool:
    """Whether nothing but replicas distinguishes devices: no order of messages, no pins, no half of a transfer that
    takes as long as the slowest of all replicas', unless all take as long, and micro-batches of one size, so that those
    of every stage are cut at the same samples."""
    return (
        isinstance(problem.cluster.links, Tiers)
        and problem.objective is Objective.ITERATION
        and (problem.transfers is Transfers.LINKS or problem.transfers_alike)
        and len(plan.order) == len(problem.cluster)
        and len({stage.micro_batch_size for stage in plan.stages}) == 1
        and not plan.messages
        and not problem.pins
    )


def _numbers(values: Sequence[Hashable]) -> Ints:
    """Equal numbers for equal values."""
    number: dict[Hashable, int] = {}
    return np.array([number.setdefault(value, len(number)) for value in values], np.int64)


def _groups(nodes: Ints, does: Ints, plan: Plan, times: int) -> Ints | None:
    """[times, devices] the devices of so many groups, ascending in the first, those that do the same in a column; None
    where the groups are not alike. nodes: of devices. does: [.., devices] what must be equal for those in a column."""
    places = sorted({stage.devices for stage in plan.stages})
    first = [devices[: len(devices) // times] for devices in places]
    if sorted(set(first)) != first:  # transfers that are ready at once go in the order of these
        return None
    every = np.concatenate([np.array(devices).reshape(times, -1) for devices in places], axis=1)
    _, at, column = np.unique(every[0], return_index=True, return_inverse=True)
    groups: Ints = every[:, at]
    if (every != groups[:, column]).any() or len(np.unique(groups)) < groups.size:
        return None
    if (does[:, groups] != does[:, None, groups[0]]).any():
        return None
    node_of_first = np.arange(times)[:, None] * (nodes.max() + 1) + nodes[groups[0]]
    pairs = np.unique(np.stack([node_of_first.ravel(), nodes[groups].ravel()]), axis=1)
    own = len(np.unique(pairs[0])) == len(np.unique(pairs[1])) == pairs.shape[1]
    return groups if own else None


def _first(plan: Plan, groups: Ints) -> Alike:
    each = [len(stage.devices) // len(groups) for stage in plan.stages]
    stages = (replace(stage, devices=stage.devices[:end]) for stage, end in zip(plan.stages, each, strict=True))
    order: list[tuple[Action, ...]] = [()] * len(plan.order)
    for device in groups[0].tolist():
        order[device] = plan.order[device]
    following = [stage.devices[end] for stage, end in zip(plan.stages, each, strict=True)]
    return Alike(replace(plan, stages=tuple(stages), order=tuple(order)), np.array(following, np.int64), groups)


def multiplied(plan: Plan, devices: Sequence[Sequence[int]], total: int, samples: int = 1) -> Plan:
    """A plan whose every device is the first of a group of devices that do the same; of one group: devices renumbered.

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
