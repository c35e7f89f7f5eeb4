"""The steady-state load of every device: what the max-load objective is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.crossings import messages_between_stages
from solvers.graph import Phase
from solvers.plan import Plan, Stage
from solvers.problem import Problem, Transfers

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Loads:
    """Seconds per sample and device, each of shape [devices]."""

    compute_s: Floats
    sent_s: Floats
    received_s: Floats
    transfers: Transfers

    def total_s(self) -> Floats:
        """The load: how long a device is busy per sample (Tarnawski et al. 2020, section 3)."""
        if self.transfers is Transfers.LANE:
            return np.maximum(self.compute_s, self.sent_s + self.received_s)
        if self.transfers is Transfers.DUPLEX:
            return np.maximum(self.compute_s, np.maximum(self.sent_s, self.received_s))
        return self.compute_s + self.sent_s + self.received_s


def loads(problem: Problem, plan: Plan) -> Loads:
    """Compute, sending and receiving time of every device per sample.

    A tensor occupies its sender once, whatever the number of receivers, and each receiver once;
    CPUs pay nothing. Partial gradients of one tensor mirror that. Replicas share every micro-batch
    equally and add 2(r-1)/r of their gradient bytes per mini-batch. Without a link a load is inf.
    """
    devices = len(problem.cluster)
    compute, sent, received = np.zeros(devices), np.zeros(devices), np.zeros(devices)
    _compute(problem, plan, compute)
    homes = _homes(plan)
    cpu = [device.is_cpu for device in problem.cluster.devices]
    for group in messages_between_stages(problem.graph, plan.stages):
        for (src, dst), seconds in _crossings(problem, plan, homes, group).items():
            for device, total in ((src, sent), (dst, received)):
                if device >= 0 and (not cpu[device] or math.isinf(seconds)):
                    total[device] += seconds
    _synchronisation(problem, plan, sent)
    return Loads(compute, sent, received, problem.transfers)


def _compute(problem: Problem, plan: Plan, compute: Floats) -> None:
    operators = problem.graph.operators
    for stage in plan.stages:
        update = [o for o in stage.operators if operators[o].phase is Phase.UPDATE]
        other = [o for o in stage.operators if operators[o].phase is not Phase.UPDATE]
        replicas = len(stage.devices)
        for device in stage.devices:
            kind = problem.cluster.devices[device].kind
            each = problem.compute.at(kind, stage.micro_batch_size / replicas)
            once = problem.compute.at(kind, problem.mini_batch / replicas)
            compute[device] += each[other].sum() / stage.micro_batch_size + once[update].sum() / problem.mini_batch


def _homes(plan: Plan) -> dict[int, list[Stage]]:
    homes: dict[int, list[Stage]] = {}
    for stage in plan.stages:
        for operator in stage.operators:
            homes.setdefault(operator, []).append(stage)
    return homes


def _crossings(
    problem: Problem, plan: Plan, homes: Mapping[int, list[Stage]], group: tuple[int, ...]
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
                seconds = max(problem.tensor_s(group[0], b / len(place), src, dst) for dst in reader if dst != src)
                cost[src, -1] = max(cost.get((src, -1), 0.0), seconds / b)
            for dst in reader:
                seconds = max(problem.tensor_s(group[0], b / len(reader), src, dst) for src in place if dst != src)
                cost[-1, dst] = max(cost.get((-1, dst), 0.0), seconds / b)
    return cost


def _synchronisation(problem: Problem, plan: Plan, sent: Floats) -> None:
    if not problem.training:
        return
    operators = problem.graph.operators
    for stage in plan.stages:
        replicas = len(stage.devices)
        gradient = sum(operators[o].param_bytes for o in stage.operators if operators[o].phase is Phase.FORWARD)
        if replicas == 1 or gradient == 0:
            continue
        for q, src in enumerate(stage.devices):
            link = problem.cluster.link(src, stage.devices[(q + 1) % replicas])
            seconds = math.inf
            if link is not None:
                moved = 2 * (replicas - 1) / replicas * gradient
                seconds = 2 * (replicas - 1) * link.latency_s + moved / link.bandwidth_bytes_per_s
            sent[src] += seconds / problem.mini_batch
