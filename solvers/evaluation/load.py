"""The steady-state load of every device: what the max-load objective is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from solvers.errors import InvalidPlan
from solvers.kernels.arrays import Floats
from solvers.plan.alike import alike
from solvers.plan.crossings import messages_between_stages
from solvers.plan.plan import Plan, Stage
from solvers.plan.regions import with_regions
from solvers.problem.cluster import Ring, around
from solvers.problem.graph import BACKWARD_PHASES, Phase
from solvers.problem.problem import Pipeline, Problem, Transfers

FORWARD, BACKWARD = 0, 1
"""Rows of figures per pass; updates belong to the backward pass."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Seconds per sample, pass and device, each of shape [2, devices] (forward, backward).

    A tensor belongs to the pass of its producer.
    """

    compute_s: Floats
    sent_s: Floats
    received_s: Floats
    transfers: Transfers
    pipeline: Pipeline

    def total_s(self) -> Floats:
        """How long every device is busy per sample, [devices] (Tarnawski et al. 2020, section 3)."""
        if self.pipeline is Pipeline.GPIPE:
            return np.asarray(self.per_pass_s().sum(axis=0))
        return self._together(self.compute_s.sum(axis=0), self.sent_s.sum(axis=0), self.received_s.sum(axis=0))

    def per_pass_s(self) -> Floats:
        """How long every device is busy per sample in each pass, [2, devices]."""
        return self._together(self.compute_s, self.sent_s, self.received_s)

    def max_load_s(self) -> float:
        """The objective. With all forward passes before all backward ones (GPipe) the slowest device
        of each pass sets its pace, so the two add up; otherwise forward and backward of different
        micro-batches share a device (appendix on training)."""
        if self.pipeline is Pipeline.GPIPE:
            return float(self.per_pass_s().max(axis=1).sum())
        return float(self.total_s().max())

    def _together(self, compute: Floats, sent: Floats, received: Floats) -> Floats:
        if self.transfers is Transfers.LANE:
            return np.maximum(compute, sent + received)
        if self.transfers is Transfers.DUPLEX:
            return np.maximum(compute, np.maximum(sent, received))
        return compute + sent + received


def loads(problem: Problem, plan: Plan) -> Loads:
    """Compute, sending and receiving time of every device per sample and pass.

    A tensor occupies its sender once, whatever the number of receivers, and each receiver once;
    CPUs pay nothing. Partial gradients of one tensor mirror that. Replicas divide every micro-batch
    equally and add 2(r-1)/r of their gradient bytes per mini-batch. Without a link a load is inf. Raises InvalidPlan if
    an operator is in no stage.
    """
    problem = with_regions(problem, plan)
    devices, same = len(problem.cluster), alike(problem, plan)
    compute, sent, received = np.zeros((2, devices)), np.zeros((2, devices)), np.zeros((2, devices))
    near = plan if same is None else _of_two_groups(plan, len(same.groups))
    shares = {some.devices: len(stage.devices) for some, stage in zip(near.stages, plan.stages, strict=True)}
    _compute(problem, near, shares, compute)
    homes = _homes(near)
    if len(homes) < len(problem.graph):
        missing = min(set(range(len(problem.graph))).difference(homes))
        raise InvalidPlan(f"operator {problem.graph.operators[missing].name!r} is in no stage")
    cpu = [device.is_cpu for device in problem.cluster.devices]
    graph = problem.graph
    for group in messages_between_stages(graph, near.stages):
        row = FORWARD if graph.operators[graph.tensors[group[0]].producer].phase is Phase.FORWARD else BACKWARD
        for (src, dst), seconds in _crossings(problem, shares, homes, group).items():
            for device, total in ((src, sent[row]), (dst, received[row])):
                if device >= 0 and (not cpu[device] or math.isinf(seconds)):
                    total[device] += seconds
    _synchronisation(problem, near, shares, sent[BACKWARD])
    if same is not None:
        for each in (compute, sent, received):
            each[:, same.groups] = each[:, same.groups[:1]]
    return Loads(compute, sent, received, problem.transfers, problem.pipeline)


def _of_two_groups(plan: Plan, times: int) -> Plan:
    """The stages of a plan on the first two of so many groups that do the same: a device sends, within its group or to
    another, what those of the first send in it or to the second."""
    stages = (replace(stage, devices=stage.devices[: 2 * len(stage.devices) // times]) for stage in plan.stages)
    return replace(plan, stages=tuple(stages))


def _compute(problem: Problem, plan: Plan, shares: Mapping[tuple[int, ...], int], compute: Floats) -> None:
    """shares: of the devices of each stage, among how many they and others share its micro-batches."""
    operators = problem.graph.operators
    for stage in plan.stages:
        forward = [o for o in stage.operators if operators[o].phase is Phase.FORWARD]
        backward = [o for o in stage.operators if operators[o].phase in BACKWARD_PHASES]
        update = [o for o in stage.operators if operators[o].phase is Phase.UPDATE]
        replicas = shares[stage.devices]
        for device in stage.devices:
            kind = problem.cluster.devices[device].kind
            each = problem.compute.at(kind, stage.micro_batch_size / replicas)
            once = problem.compute.at(kind, problem.mini_batch / replicas)
            compute[FORWARD, device] += each[forward].sum() / stage.micro_batch_size
            compute[BACKWARD, device] += each[backward].sum() / stage.micro_batch_size
            if stage.recompute:
                compute[BACKWARD, device] += each[forward].sum() / stage.micro_batch_size
            compute[BACKWARD, device] += once[update].sum() / problem.mini_batch


def _homes(plan: Plan) -> dict[int, list[Stage]]:
    homes: dict[int, list[Stage]] = {}
    for stage in plan.stages:
        for operator in stage.operators:
            homes.setdefault(operator, []).append(stage)
    return homes


def _crossings(
    problem: Problem, shares: Mapping[tuple[int, ...], int], homes: Mapping[int, list[Stage]], group: tuple[int, ...]
) -> dict[tuple[int, int], float]:
    """Seconds per sample one message costs: (src, -1) for sending, (-1, dst) for receiving."""
    tensors = problem.graph.tensors
    first = tensors[group[0]]
    readers = {stage.devices for consumer in first.consumers for stage in homes[consumer]}
    makers: dict[tuple[int, ...], Stage] = {}
    satisfied: set[tuple[int, ...]] | None = None
    for t in group:
        stages = homes[tensors[t].producer]
        makers.setdefault(stages[0].devices, stages[0])
        local = {stage.devices for stage in stages}
        satisfied = local if satisfied is None else satisfied & local
    lacking = readers - (satisfied or set())
    if not lacking or (len(makers) == 1 and lacking <= set(makers)):
        return {}
    cost: dict[tuple[int, int], float] = {}
    for place, stage in makers.items():
        b = stage.micro_batch_size
        for reader in lacking - {place}:
            for src in place:
                others = [problem.tensor_s(group[0], b / shares[place], src, dst) for dst in reader if dst != src]
                seconds = max(others, default=0.0)
                cost[src, -1] = max(cost.get((src, -1), 0.0), seconds / b)
            for dst in reader:
                others = [problem.tensor_s(group[0], b / shares[reader], src, dst) for src in place if dst != src]
                seconds = max(others, default=0.0)  # of a reader that is the only maker: nothing reaches it
                cost[-1, dst] = max(cost.get((-1, dst), 0.0), seconds / b)
    return cost


def _synchronisation(problem: Problem, plan: Plan, shares: Mapping[tuple[int, ...], int], sent: Floats) -> None:
    if not problem.training:
        return
    operators = problem.graph.operators
    for stage in plan.stages:
        replicas = shares[stage.devices]
        owners = [operators[o] for o in stage.operators if operators[o].phase is Phase.FORWARD]
        trained, frozen = math.fsum(o.trained_bytes for o in owners), math.fsum(o.frozen_bytes for o in owners)
        gradient = problem.copies.reduced(trained, frozen, problem.mini_batch / stage.micro_batch_size)
        if replicas == 1 or gradient == 0:
            continue
        for src, dst in around(stage.devices):
            link = problem.cluster.link(src, dst)
            seconds = math.inf if link is None else Ring(replicas).link_s(link, gradient)
            sent[src] += seconds / problem.mini_batch
