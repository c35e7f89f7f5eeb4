"""Judge a plan: the only place where an objective is computed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from solvers.errors import InvalidPlan, NoLink
from solvers.evaluation.load import loads
from solvers.evaluation.simulation import Simulation, run, static_bytes_per_device
from solvers.plan.contiguity import broken_contiguity
from solvers.plan.crossings import messages_between_stages
from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule
from solvers.problem.cluster import around
from solvers.problem.gathering import owned_bytes
from solvers.problem.graph import Phase
from solvers.problem.groups import together
from solvers.problem.problem import Objective, Problem
from solvers.problem.training import ZERO_PARAMETERS

IN_PARTS = ("I", "W")
"""Actions of a backward that runs in two parts."""
MEMORY_SLACK = 1e-9
"""Relative excess over a memory cap that is rounding, not a violation."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A plan's objective, the rule it breaks ("" if none), and the largest peak of memory of its devices (bytes)."""

    objective_s: float
    violation: str = ""
    peak_bytes: float = math.inf

    @property
    def feasible(self) -> bool:
        """Whether the plan breaks no rule."""
        return not self.violation


@dataclass(frozen=True, slots=True)
class Metrics:
    """A plan under all three objectives (seconds), and what people ask beside them.

    max_load_s is per sample, makespan_s for one unsplit pass of the mini-batch, iteration_s for
    the mini-batch in micro-batches. bubble: share of device time idle in the iteration, over the
    devices used, in 0..1. cut_bytes: moved between devices per iteration. between_nodes_bytes: what the
    simulated iteration moves from host to host, the all-reduce of replicas' gradients and what they gather with it.
    load_s, busy_s (compute per iteration, waiting for gathered parameters included), peak_memory_bytes and
    static_bytes: one entry per device.
    """

    max_load_s: float
    makespan_s: float
    iteration_s: float
    throughput_per_s: float
    bubble: float
    cut_bytes: float
    between_nodes_bytes: float
    load_s: tuple[float, ...]
    busy_s: tuple[float, ...]
    peak_memory_bytes: tuple[float, ...]
    static_bytes: tuple[float, ...]

    def objective_s(self, objective: Objective) -> float:
        """Seconds of one of the objectives."""
        return {
            Objective.MAX_LOAD: self.max_load_s,
            Objective.MAKESPAN: self.makespan_s,
            Objective.ITERATION: self.iteration_s,
        }[objective]


def judge(problem: Problem, plan: Plan) -> Judged:
    """The objective of the problem, and the first rule the plan breaks.

    Rules: pins, co-location, devices that cannot run an operator, limits on replicas and subgraphs, numbers of
    micro-batches, backwards in two parts where the pipeline has whole ones, contiguity, missing links, the cap on the
    peak memory of the simulated schedule.
    """
    violation = _misplaced(problem, plan) or _too_many(problem, plan) or broken_contiguity(problem, plan)
    if violation:
        return Judged(math.inf, violation)
    if problem.objective is Objective.MAX_LOAD and problem.stated_bytes is not None:
        peak = static_bytes_per_device(problem, plan).tolist()
        objective = loads(problem, plan).max_load_s()
        if math.isinf(objective):
            return Judged(math.inf, "the plan sends tensors between devices that no link joins")
    else:
        try:
            simulation = run(problem, plan)
        except NoLink as missing:
            return Judged(math.inf, str(missing))
        peak = simulation.peak_bytes().tolist()
        if problem.objective is Objective.MAX_LOAD:
            objective = loads(problem, plan).max_load_s()
        else:
            objective = simulation.makespan_s
    return Judged(objective, over_cap(problem, peak), max(peak))


def over_cap(problem: Problem, peak_bytes: Iterable[float]) -> str:
    """The first device whose peak exceeds its memory, as a sentence; "" if all fit."""
    for device, (held, spec) in enumerate(zip(peak_bytes, problem.cluster.devices, strict=True)):
        if held > spec.memory_bytes * (1 + MEMORY_SLACK):
            return (
                f"device {device} ({spec.name}) needs {bytes_words(held)} at its peak, more than its memory of"
                f" {bytes_words(spec.memory_bytes)}"
            )
    return ""


def bytes_words(amount: float) -> str:
    """Exact where it is short, else in MiB."""
    return f"{amount:.0f} bytes" if amount < 1e5 else f"{amount / 2**20:,.1f} MiB"


def _misplaced(problem: Problem, plan: Plan) -> str:
    kinds = [device.kind for device in problem.cluster.devices]
    never = {kind: times for kind in set(kinds) if (times := ~np.isfinite(problem.compute.at(kind, 1))).any()}
    for stage in plan.stages if never else ():
        for device in stage.devices:
            if kinds[device] not in never:
                continue
            blocked = never[kinds[device]][list(stage.operators)]
            if blocked.any():
                name = problem.graph.operators[stage.operators[int(np.argmax(blocked))]].name
                return f"operator {name!r} cannot run on device {device}"
    placement = plan.placement()
    for group in together(problem.graph):
        first = placement.get(group[0], ())
        other = next((o for o in group if (here := placement.get(o, first)) is not first and here != first), None)
        if other is not None:
            a, b = (problem.graph.operators[o].name for o in (group[0], other))
            return f"operators {a!r} and {b!r} must share a device"
    if problem.pins:
        for operator, device in problem.pins.items():
            if placement[operator] != (device,):
                name = problem.graph.operators[operator].name
                return f"operator {name!r} is pinned to device {device}, but placed on {list(placement[operator])}"
    return ""


def _too_many(problem: Problem, plan: Plan) -> str:
    sizes = sorted({stage.micro_batch_size for stage in plan.stages})
    if len(sizes) > 1 and not problem.mixed_micro_batches:
        return f"stages have micro-batches of {sizes[0]} and {sizes[-1]} samples; all must be of one size"
    for index, stage in enumerate(plan.stages):
        if stage.recompute and not problem.recompute:
            return f"stage {index} recomputes its forward, which is not allowed"
        if stage.regions and not problem.recompute_operators:
            return f"stage {index} says which operators run again, which is not the plan's to say"
        if any(not _may_run_again(problem, o) for region in stage.regions for o in region.operators):
            return f"stage {index} has operators in a region that have no forward to run again"
        if any(problem.graph.operators[o].phase is not Phase.FORWARD for o in stage.offload):
            return f"stage {index} offloads what an operator saves that is no forward"
        if stage.offload and (why := problem.no_offload(stage.devices)):
            return f"stage {index} offloads what it saves to the host, {why}"
        if not problem.can_share(stage.micro_batch_size, len(stage.devices)):
            return f"stage {index}: {len(stage.devices)} devices cannot share {stage.micro_batch_size} samples equally"
        if len(stage.devices) > problem.max_replicas:
            return f"stage {index} is on {len(stage.devices)} devices, at most {problem.max_replicas} are allowed"
    if problem.objective is not Objective.MAKESPAN:
        wrong = next((size for size in sizes if not problem.allows_size(size)), None)
        if wrong is not None:
            allowed = ", ".join(map(str, problem.stage_choices()))
            return f"micro-batches of {wrong} samples: the mini-batch may be split into {allowed} of them"
        rows = {id(row): row for row in plan.order} if problem.whole_backwards else {}
        if any(action.kind in IN_PARTS for row in rows.values() for action in row):
            return f"backwards run in two parts, which the pipeline {problem.pipeline.value} does not"
        sent = {index for index, stage in enumerate(plan.stages) if stage.offload}
        split = sorted({a.stage for row in plan.order if sent for a in row if a.kind in IN_PARTS} & sent)
        if split:
            return f"stage {split[0]} offloads what it saves to the host, and its backward runs in two parts"
    if problem.is_latency and problem.subgraphs_per_device is not None:
        for device in problem.cluster.accelerators:
            stages = sum(device in stage.devices for stage in plan.stages)
            if stages > problem.subgraphs_per_device:
                return f"device {device} runs {stages} subgraphs, at most {problem.subgraphs_per_device} are allowed"
    return ""


def _may_run_again(problem: Problem, operator: int) -> bool:
    """Replicable operators are computed again anywhere, and are in no region."""
    spec = problem.graph.operators[operator]
    return spec.phase is Phase.FORWARD and not spec.replicable


def evaluate(problem: Problem, plan: Plan) -> Metrics:
    """All metrics of a plan. Raises InvalidPlan if it cannot be simulated."""
    return _measured(problem, plan)[0]


def examine(problem: Problem, plan: Plan) -> tuple[Metrics, Schedule]:
    """All metrics of a plan, and the schedule that `simulate` gives for the objective asked for."""
    metrics, simulation = _measured(problem, plan)
    return metrics, simulation.schedule()


def _measured(problem: Problem, plan: Plan) -> tuple[Metrics, Simulation]:
    """All metrics of a plan, and its simulation for the objective asked for."""
    iteration = run(problem, plan, Objective.ITERATION)
    single = run(problem, plan, Objective.MAKESPAN)
    own = single if problem.objective is Objective.MAKESPAN else iteration
    load = loads(problem, plan)
    total = load.total_s()
    busy = tuple(iteration.busy_per_device_s().tolist())
    used = plan.devices_used()
    span = iteration.makespan_s
    bubble = 1.0 - sum(busy[d] for d in used) / (span * len(used)) if span > 0 else 0.0
    metrics = Metrics(
        max_load_s=load.max_load_s(),
        makespan_s=single.makespan_s,
        iteration_s=span,
        throughput_per_s=problem.mini_batch / span if span > 0 else math.inf,
        bubble=max(0.0, bubble),
        cut_bytes=cut_bytes(problem, plan),
        between_nodes_bytes=between_nodes_bytes(problem, iteration) + gathered_between_nodes(problem, plan),
        load_s=tuple(total.tolist()),
        busy_s=busy,
        peak_memory_bytes=tuple(own.peak_bytes().tolist()),
        static_bytes=tuple(own.static_bytes.tolist()),
    )
    return metrics, own


@dataclass(frozen=True, slots=True)
class HostTraffic:
    """What stages that offload send to their hosts in an iteration, and fetch again.

    nbytes: of all devices, one way. busiest_s: that the device whose link is busiest copies, there and back.
    exposed_s: by how much the iteration is longer than with nothing offloaded.
    """

    nbytes: float
    busiest_s: float
    exposed_s: float


def host_traffic(problem: Problem, plan: Plan) -> HostTraffic | None:
    """None where no stage offloads. Raises InvalidPlan if the plan cannot be simulated."""
    if not any(stage.offload for stage in plan.stages):
        return None
    simulation = run(problem, plan, Objective.ITERATION)
    copies, tasks = simulation.lowered.copies, simulation.lowered.tasks
    assert copies is not None  # a stage offloads
    out = copies.out[copies.out >= 0]
    each = np.bincount(tasks.device[out], 2 * tasks.seconds[out], minlength=len(problem.cluster))
    stays = replace(plan, stages=tuple(replace(stage, offload=()) for stage in plan.stages))
    without_s = run(problem, stays, Objective.ITERATION).makespan_s
    nbytes = math.fsum(tasks.nbytes[out].tolist()) * len(simulation.groups)
    return HostTraffic(nbytes, float(each.max()), max(0.0, simulation.makespan_s - without_s))


def between_nodes_bytes(problem: Problem, simulation: Simulation) -> float:
    """Bytes that the transfers of a simulation carry between devices of different hosts."""
    node = np.array([device.node for device in problem.cluster.devices])
    tasks = simulation.lowered.tasks
    away = (tasks.to_device >= 0) & (node[tasks.device] != node[tasks.to_device])
    return math.fsum(tasks.nbytes[away].tolist()) * len(simulation.groups)


def gathered_between_nodes(problem: Problem, plan: Plan) -> float:
    """Bytes of parameters that replicas of stages gather between hosts in an iteration (ZeRO-3)."""
    if problem.copies.zero < ZERO_PARAMETERS:
        return 0.0
    total, rounds = 0.0, 2 if problem.has_backward() else 1
    for stage in plan.stages:
        node = [problem.cluster.devices[d].node for d in range(len(problem.cluster))]
        away = sum(node[src] != node[dst] for src, dst in around(stage.devices))
        share = (len(stage.devices) - 1) / len(stage.devices) * sum(owned_bytes(problem, stage.operators))
        total += away * share * rounds * (problem.mini_batch / stage.micro_batch_size)
    return total


def cut_bytes(problem: Problem, plan: Plan) -> float:
    """Bytes of tensors that cross devices, once per pair of places, per mini-batch."""
    where: dict[int, list[tuple[tuple[int, ...], int]]] = {}
    for stage in plan.stages:
        for operator in stage.operators:
            where.setdefault(operator, []).append((stage.devices, stage.micro_batch_size))
    tensors = problem.graph.tensors
    total = 0.0
    for group in messages_between_stages(problem.graph, plan.stages):
        pairs = set()
        for t in group:
            copies = where.get(tensors[t].producer)
            if copies is None:
                raise InvalidPlan(f"operator {problem.graph.operators[tensors[t].producer].name!r} is not placed")
            homes = {devices for devices, _ in copies}
            for consumer in tensors[t].consumers:
                for devices, _ in where[consumer]:
                    if devices not in homes:
                        pairs.add((copies[0], devices))
        for (_, b), _ in pairs:
            total += tensors[group[0]].nbytes.at(b) * (problem.mini_batch / b)
    return total
