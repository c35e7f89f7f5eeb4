"""What to look at before a plan is launched: whether it can run, and what will disappoint. No torch here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from explorer.runner.scripts.channels import routes
from explorer.runner.scripts.executable import not_run, processes
from explorer.runner.scripts.lowering import make_script
from explorer.runner.scripts.replay import replay
from explorer.runner.scripts.script import MESSAGES, Do, Script
from solvers.errors import PlacementError
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule
from solvers.problem.graph import Phase, find_cycle
from solvers.problem.problem import Execution, Objective, Problem
from solvers.problem.regions import regions_of

STEP_S = 100e-6
"""About what a step costs beside its operators, where no calibration says it."""
TOLERATED = 0.05
"""The share of the predicted time that these costs may take without a warning."""
NAMED = 3
"""How many culprits a message names."""


class Level(StrEnum):
    """ERROR: the plan cannot be launched. WARNING: it can, but see."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found, in one line: what, where, what to do."""

    level: Level
    message: str


def check(
    problem: Problem,
    plan: Plan,
    ranks_available: int | None = None,
    memory: Sequence[float] | None = None,
    optimizer: str | None = None,
) -> list[Finding]:
    """Everything there is to say against launching a plan, errors first; empty if nothing.

    ranks_available: how many processes the target can start, None if that is not known. memory: bytes that each
    of them may hold, by rank; the devices' own in the problem count too. optimizer: in place of the plan's.
    """
    findings = [
        *map(_error, not_run(problem, plan, optimizer)),
        *_offloaded(problem, plan),
        *_coverage(problem, plan),
        *_replicas(problem, plan),
    ]
    if not findings:
        findings += [*_together(problem, plan), *_ranks(problem, plan, ranks_available)]
        try:
            findings += _acyclic(problem, plan) or _lowered(problem, plan, memory)
        except PlacementError as error:
            findings.append(_error(str(error).splitlines()[0]))
    findings += [*_idle(problem, plan), *_recomputed_apart(plan)]
    return sorted(findings, key=lambda finding: finding.level)


def _error(message: str) -> Finding:
    return Finding(Level.ERROR, message)


def _warning(message: str) -> Finding:
    return Finding(Level.WARNING, message)


def _names(problem: Problem, operators: Sequence[int]) -> str:
    shown = ", ".join(repr(problem.graph.operators[o].name) for o in operators[:NAMED])
    return shown + (f" and {len(operators) - NAMED} more" if len(operators) > NAMED else "")


def _coverage(problem: Problem, plan: Plan) -> Iterator[Finding]:
    """Every operator, and so every parameter, is on a device, once."""
    operators, devices = problem.graph.operators, len(problem.cluster)
    for index, stage in enumerate(plan.stages):
        if any(not 0 <= device < devices for device in stage.devices):
            yield _error(f"stage {index} is on {list(stage.devices)}, but there are {devices} devices: plan again")
        if any(not 0 <= o < len(operators) for o in stage.operators):
            yield _error(f"stage {index} holds operators that the graph does not have: the plan is of another model")
            return
    if len(plan.order) != devices:
        yield _error(f"the order is of {len(plan.order)} devices, the cluster has {devices}: plan again")
    times = Counter(o for stage in plan.stages for o in stage.operators)
    wrong = {o for o, operator in enumerate(operators) if not times[o] or (times[o] > 1 and not operator.replicable)}
    shown = [o for o in sorted(wrong) if operators[o].forward_of not in wrong]  # a mirror goes where its forward goes
    for owning, what in ((True, "parameters of "), (False, "")):
        of_kind = [o for o in shown if (operators[o].param_bytes > 0) is owning]
        left, twice = [o for o in of_kind if not times[o]], [o for o in of_kind if times[o]]
        if left:
            yield _error(f"{what}{_names(problem, left)}: on no device; every operator must be in a stage: plan again")
        if twice:
            yield _error(f"{what}{_names(problem, twice)}: in several stages; only replicable ones may be: plan again")


def _replicas(problem: Problem, plan: Plan) -> Iterator[Finding]:
    """Samples cannot be split."""
    for index, stage in enumerate(plan.stages):
        size = problem.mini_batch if problem.objective is Objective.MAKESPAN else stage.micro_batch_size
        if size % len(stage.devices):
            yield _error(
                f"stage {index}: {len(stage.devices)} replicas cannot share micro-batches of {size} samples equally;"
                " take another number of micro-batches or a larger mini-batch"
            )
        elif problem.mini_batch % size:
            yield _error(
                f"stage {index}: micro-batches of {size} samples do not divide the mini-batch of"
                f" {problem.mini_batch}; plan again"
            )


def _together(problem: Problem, plan: Plan) -> Iterator[Finding]:
    """Tied parameters, and whatever else must share a device."""
    where = plan.placement()
    groups: dict[str, list[int]] = defaultdict(list)
    for o, operator in enumerate(problem.graph.operators):
        if operator.colocation is not None and not operator.replicable:
            groups[operator.colocation].append(o)
    for group, members in groups.items():
        places = {where[o] for o in members}
        if len(places) > 1:
            yield _error(
                f"{_names(problem, members)} must share a device ({group}), but are on"
                f" {', '.join(str(list(place)) for place in sorted(places))}: put them on one"
            )


def _acyclic(problem: Problem, plan: Plan) -> list[Finding]:
    """Stages that run as a whole must not wait for each other; single operators have only their order."""
    if problem.objective is Objective.MAKESPAN and problem.execution is Execution.OPERATOR:
        return []
    calls = problem.objective is Objective.MAKESPAN
    unordered = [calls and problem.cluster.devices[stage.devices[0]].is_cpu for stage in plan.stages]
    forward = {o for o, operator in enumerate(problem.graph.operators) if operator.phase is Phase.FORWARD}
    units = [[o for o in stage.operators if o in forward] for stage in plan.stages]
    after: list[set[int]] = [set() for _ in plan.stages]
    for route in routes(problem.graph, units, [stage.devices for stage in plan.stages]):
        if not unordered[route.source] and not unordered[route.reader]:
            after[route.source].add(route.reader)
    cycle = find_cycle([sorted(targets) for targets in after])
    if not cycle:
        return []
    shown = " -> ".join(map(str, cycle))
    return [_error(f"stages {shown} wait for each other: cut one of them where its operators wait for another stage")]


def _ranks(problem: Problem, plan: Plan, available: int | None) -> Iterator[Finding]:
    needed = processes(problem, plan)
    if available is not None and needed > available:
        yield _error(f"the plan needs {needed} ranks, the target has {available}: plan for fewer devices")


def _idle(problem: Problem, plan: Plan) -> Iterator[Finding]:
    idle = sorted(set(range(len(problem.cluster))) - set(plan.devices_used()))
    if idle:
        shown = ", ".join(f"{device} ({problem.cluster.devices[device].name})" for device in idle)
        yield _warning(f"no stage is on device {shown}: no rank is started for it; plan for fewer devices to save it")


def _offloaded(problem: Problem, plan: Plan) -> Iterator[Finding]:
    """What regions keep is not saved in a way that a run could send."""
    again = {} if problem.plain is None else regions_of(problem.plain.graph).of
    stages = [str(index) for index, stage in enumerate(plan.stages) if not again.keys().isdisjoint(stage.offload)]
    if stages:
        yield _error(
            f"stage {', '.join(stages[:NAMED])} sends to the host what its layers keep that run again, which runs"
            " cannot do; plan with --recompute none"
        )


def _recomputed_apart(plan: Plan) -> Iterator[Finding]:
    """A stage that recomputes does its whole backward at once."""
    split = {action.stage for actions in plan.order for action in actions if action.kind == "W"}
    for index, stage in enumerate(plan.stages):
        if stage.recompute and index in split:
            yield _warning(
                f"stage {index} recomputes its forward, so its gradients of parameters do not wait, as planned, but are"
                " made with those of its inputs: expect another time than predicted"
            )


def _lowered(problem: Problem, plan: Plan, memory: Sequence[float] | None) -> list[Finding]:
    """What the simulation says. Raises PlacementError if there is no order that cannot deadlock."""
    script = make_script(problem, plan)
    replay(script)
    schedule = simulate(problem, plan, fold=False)
    return [*_memory(problem, script, schedule, memory), *_tiny(problem, script, schedule)]


def _memory(problem: Problem, script: Script, schedule: Schedule, memory: Sequence[float] | None) -> Iterator[Finding]:
    peaks = schedule.peak_bytes()
    for rank, device in enumerate(script.devices):
        caps = [problem.cluster.devices[device].memory_bytes]
        if memory is not None and rank < len(memory):
            caps.append(memory[rank])
        if peaks[device] > min(caps):
            yield _error(
                f"rank {rank} (device {device}) is predicted to hold {peaks[device]:,.0f} bytes, more than the"
                f" {min(caps):,.0f} it has: take more micro-batches, recomputation or more devices"
            )


def _tiny(problem: Problem, script: Script, schedule: Schedule) -> Iterator[Finding]:
    counts = [sum(step.do not in MESSAGES for step in steps) for steps in script.steps]
    extra = [sum(_beside_s(problem, step.do) for step in steps) for steps in script.steps]
    rank = max(range(len(extra)), key=extra.__getitem__)
    if extra[rank] > TOLERATED * schedule.makespan_s:
        known = "as calibrated" if problem.engine is not None else "about"
        yield _warning(
            f"rank {rank} does {counts[rank]} steps, each of which costs {known}"
            f" {extra[rank] / counts[rank] * 1e6:.0f} microseconds beside its operators: {extra[rank] * 1e3:.3g} ms"
            f" more than the predicted {schedule.makespan_s * 1e3:.3g} ms; take larger stages or micro-batches"
        )


def _beside_s(problem: Problem, do: Do) -> float:
    """Seconds of a step beside its operators: as fitted where the plan's costs were calibrated; messages are listed
    apart there, and here not at all."""
    if do in MESSAGES:
        return 0.0
    return STEP_S if problem.engine is None else problem.engine.step_s(do.value)
