"""Memory counted over time from a simulated schedule: never from a formula."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.plan.plan import Plan
from solvers.plan.schedule import MemoryCurve
from solvers.problem.graph import Phase
from solvers.problem.problem import Optimizer, Precision, Problem
from tests.oracle import regions
from tests.oracle.lowering import TaskGraph
from tests.oracle.parted import held_between_parts
from tests.oracle.units import Unit

Holds = list[tuple[float, float, float]]
"""(from when, until when in s, bytes)."""


def static_bytes_per_device(problem: Problem, plan: Plan) -> NDArray[np.float64]:
    """Parameters, gradients and optimizer states (or the stated sizes) per device, shape [devices]."""
    held = np.zeros(len(problem.cluster))
    for stage in plan.stages:
        static = _static(problem, len(stage.devices))
        amount = sum(static[o] for o in stage.operators)
        if problem.zero == 3 and problem.training and problem.stated_bytes is None:
            whole = max((problem.graph.operators[o].param_bytes for o in stage.operators), default=0.0)
            amount += whole * (len(stage.devices) - 1) / len(stage.devices)
        for device in stage.devices:
            held[device] += amount
    return held


def _static(problem: Problem, replicas: int) -> Sequence[float]:
    """What each operator holds all the time: gradients and Adam's moments only of what is trained."""
    if problem.stated_bytes is not None:
        return problem.stated_bytes
    held = []
    for o in problem.graph.operators:
        entry = {"weight": o.param_bytes - o.frozen_bytes}
        if problem.training and problem.optimizer is not Optimizer.NONE:
            entry["gradient"] = entry["weight"]
            if problem.optimizer in (Optimizer.ADAM, Optimizer.ADAMW):
                entry["first moment"] = entry["second moment"] = entry["weight"]
            if problem.optimizer is Optimizer.MOMENTUM:
                entry["velocity"] = entry["weight"]
            if problem.optimizer is Optimizer.ADAFACTOR:
                entry["rows and columns"] = entry["weight"] - o.factorable_bytes
            if problem.precision is not Precision.PURE:
                entry["master"] = entry["weight"]
                wide = set(entry) - {"weight", "gradient"}
                if problem.precision is Precision.MIXED_FP32_GRADIENTS:
                    wide.add("gradient")
                entry = {what: nbytes * (2 if what in wide else 1) for what, nbytes in entry.items()}
        entry["frozen"] = o.frozen_bytes
        if problem.training:
            shared: set[str] = set()
            if problem.zero > 0:
                shared |= set(entry) - {"weight", "frozen", "gradient"}
            if problem.zero > 1:
                shared |= {"gradient"}
            if problem.zero > 2:
                shared |= {"weight", "frozen"}
            entry = {what: nbytes / replicas if what in shared else nbytes for what, nbytes in entry.items()}
        held.append(o.buffer_bytes + o.gradient_sum_bytes + sum(entry.values()))
    return held


def memory_curves(
    problem: Problem, plan: Plan, lowered: TaskGraph, start_s: Sequence[float], end_s: Sequence[float]
) -> tuple[MemoryCurve, ...]:
    """Bytes held on every device over the schedule.

    Saved activations are held from the start of a forward (a stage that recomputes: of its backward, and
    what it reads of its own device's stages from its forward) until the end of the last backward of
    the same micro-batch; a received tensor from the start of its transfer until its reader (in
    training, the reader's backward) is done; a sent tensor from the end of its producer until its
    last transfer ends; workspace while its task runs. Where operators run one by one, what one leaves for
    another on its device is held until the last of these ended. Sizes a workload states are held throughout.
    """
    held = static_bytes_per_device(problem, plan)
    holds: list[Holds] = [[] for _ in held]
    if problem.stated_bytes is None:
        released = _release_times(problem, lowered, end_s)
        _activations(problem, plan, lowered, start_s, end_s, released, holds)
        _buffers(lowered, start_s, end_s, released, holds)
        _between_operators(problem, lowered, end_s, holds)
    return tuple(_curve(float(static), each) for static, each in zip(held, holds, strict=True))


def _release_times(problem: Problem, lowered: TaskGraph, end_s: Sequence[float]) -> list[float]:
    """When what a task keeps may be dropped: the end of its micro-batch's last backward."""
    operators = problem.graph.operators
    last: dict[tuple[int, int, int, int], float] = {}

    def key(unit: Unit, micro_batch: int, device: int) -> tuple[int, int, int, int]:
        operator = unit.operator
        if operator >= 0:
            forward = operators[operator].forward_of
            operator = operator if forward is None else forward
        return (unit.stage, operator, micro_batch, device)

    for index, task in enumerate(lowered.tasks):
        if task.unit >= 0 and lowered.units[task.unit].kind in "BIW":
            place = key(lowered.units[task.unit], task.micro_batch, task.device)
            last[place] = max(last.get(place, 0.0), end_s[index])
    released = []
    for index, task in enumerate(lowered.tasks):
        if task.unit < 0:
            released.append(end_s[index])
        else:
            place = key(lowered.units[task.unit], task.micro_batch, task.device)
            released.append(max(last.get(place, 0.0), end_s[index]))
    return released


def _activations(
    problem: Problem,
    plan: Plan,
    lowered: TaskGraph,
    start_s: Sequence[float],
    end_s: Sequence[float],
    released: Sequence[float],
    holds: list[Holds],
) -> None:
    has_backward = problem.has_backward()
    saved: dict[int, float] = {}
    working: dict[int, float] = {}
    rerun_inputs: dict[int, float] = {}
    again_s = {
        (lowered.units[task.unit].stage, task.micro_batch, task.device): start_s[index]
        for index, task in enumerate(lowered.tasks)
        if task.unit >= 0 and lowered.units[task.unit].again
    }
    parted = held_between_parts(problem, plan, lowered.units)
    ended = {
        (lowered.units[task.unit].stage, lowered.units[task.unit].kind, task.micro_batch, task.device): end_s[index]
        for index, task in enumerate(lowered.tasks)
        if task.unit >= 0
    }
    for index, task in enumerate(lowered.tasks):
        if task.unit < 0:
            continue
        unit = lowered.units[task.unit]
        if task.unit not in saved:
            samples = unit.micro_batch_size / len(unit.devices)
            saved[task.unit] = (
                saved_bytes(problem, unit.operators, samples) if has_backward and unit.kind == "F" else 0.0
            )
            if unit.kind == "F":
                saved[task.unit] -= parted.get((unit.stage, "F"), 0.0)
            working[task.unit] = workspace_bytes(problem, unit.operators, samples)
            if unit.kind == "F":
                rerun_inputs[task.unit] = _read_here(problem, plan, unit, samples)
        if saved[task.unit]:
            sent = 0.0
            since = again_s.get((unit.stage, task.micro_batch, task.device), start_s[index])
            if index in lowered.hosted:
                out, back = lowered.hosted[index]
                sent = lowered.tasks[out].nbytes
                holds[task.device].append((since, end_s[out], sent))
                holds[task.device].append((start_s[back], released[index], sent))
            holds[task.device].append((since, released[index], saved[task.unit] - sent))
        if parted.get((unit.stage, unit.kind)):
            until = ended[unit.stage, "I" if unit.kind == "F" else "W", task.micro_batch, task.device]
            holds[task.device].append((start_s[index], until, parted[unit.stage, unit.kind]))
        if rerun_inputs.get(task.unit):
            holds[task.device].append((start_s[index], released[index], rerun_inputs[task.unit]))
        if working[task.unit]:
            holds[task.device].append((start_s[index], end_s[index], working[task.unit]))


def _read_here(problem: Problem, plan: Plan, unit: Unit, samples: float) -> float:
    """Bytes of forward tensors that a unit reads of other stages on its own devices; where the stage as a whole does
    not run again, those that its parts of regions need and nobody keeps."""
    graph, own = problem.graph, set(plan.stages[unit.stage].operators)
    here = {o for stage in plan.stages if stage.devices == unit.devices for o in stage.operators}
    read = {t for o in unit.operators for t in graph.inputs[o] if graph.tensors[t].producer in here - own}
    if not plan.stages[unit.stage].recompute:
        read = set(regions.kept_of_cut(problem, unit.operators, own, here))
    return sum(graph.tensors[t].nbytes.at(samples) for t in read)


def saved_bytes(problem: Problem, operators: Iterable[int], samples: float) -> float:
    """Activations that ``operators`` keep for their backward, in bytes."""
    return sum(regions.saved(problem, o, samples) for o in operators)


def workspace_bytes(problem: Problem, operators: Sequence[int], samples: float) -> float:
    """Largest temporary memory while ``operators`` run one after the other, in bytes.

    In training the live activations are among the saved ones; in inference the tensors that later
    operators of the set still read are counted.
    """
    graph = problem.graph
    if problem.has_backward():
        return max((regions.workspace(problem, o, samples) for o in operators), default=0.0)
    inside = set(operators)
    readers = {
        t: sum(consumer in inside for consumer in graph.tensors[t].consumers)
        for o in operators
        for t in graph.outputs[o]
    }
    live = peak = 0.0
    for operator in operators:
        for t in graph.outputs[operator]:
            live += graph.tensors[t].nbytes.at(samples)
        own = graph.operators[operator]
        peak = max(peak, live, live + own.workspace_bytes.at(samples) - _output_bytes(problem, operator, samples))
        for t in graph.inputs[operator]:
            if t in readers:
                readers[t] -= 1
                if readers[t] == 0:
                    live -= graph.tensors[t].nbytes.at(samples)
        for t in graph.outputs[operator]:
            if readers[t] == 0:
                live -= graph.tensors[t].nbytes.at(samples)
    return peak


def _output_bytes(problem: Problem, operator: int, samples: float) -> float:
    return sum(problem.graph.tensors[t].nbytes.at(samples) for t in problem.graph.outputs[operator])


def _buffers(
    lowered: TaskGraph,
    start_s: Sequence[float],
    end_s: Sequence[float],
    released: Sequence[float],
    holds: list[Holds],
) -> None:
    sending: dict[tuple[tuple[int, ...], int], tuple[float, float]] = {}
    for index, task in enumerate(lowered.tasks):
        if task.unit >= 0 or not task.holds_from:
            continue
        if task.arrives:
            until = max(_reader_done(lowered, released, end_s, t) for t in task.feeds)
            holds[task.to_device].append((start_s[index], until, task.nbytes))
        key = (task.holds_from, task.bundle)
        _, until = sending.get(key, (0.0, 0.0))
        sending[key] = (task.held_bytes, max(until, end_s[index]))
    for (sources, _), (nbytes, until) in sending.items():
        ready = min(end_s[s] for s in sources)
        holds[lowered.tasks[sources[0]].device].append((ready, until, nbytes))


def _between_operators(problem: Problem, lowered: TaskGraph, end_s: Sequence[float], holds: list[Holds]) -> None:
    """Tensors that single operators hand to one another on one device, from the producer's end (until then
    they are among its workspace) until their last reader there ended.

    In training the forward's tensors are not counted again, most being saved for the backward, nor are the
    gradients of parameters, which have a place of their own among the static bytes.
    """
    graph, training = problem.graph, problem.has_backward()
    task_of = {(task.operator, task.device): i for i, task in enumerate(lowered.tasks) if task.operator >= 0}
    for (operator, device), index in task_of.items():
        if training and graph.operators[operator].phase is Phase.FORWARD:
            continue
        unit = lowered.units[lowered.tasks[index].unit]
        samples = unit.micro_batch_size / len(unit.devices)
        summed: set[int | None] = set()
        for t in graph.outputs[operator]:
            group = graph.tensors[t].sum_group
            if group is not None and group in summed:
                continue  # added to another of the same sum as it was made
            summed.add(group)
            readers = graph.tensors[t].consumers
            ends = [
                end_s[task_of[reader, device]]
                for reader in readers
                if (reader, device) in task_of and graph.operators[reader].phase is not Phase.UPDATE
            ]
            nbytes = graph.tensors[t].nbytes.at(samples)
            if ends and nbytes:
                holds[device].append((end_s[index], max(ends), nbytes))


def _reader_done(lowered: TaskGraph, released: Sequence[float], end_s: Sequence[float], task: int) -> float:
    """A forward reader keeps what it received until its backward; any other reader until its end."""
    unit = lowered.tasks[task].unit
    if unit >= 0 and lowered.units[unit].kind == "F":
        return released[task]
    return end_s[task]


def _curve(static: float, holds: Holds) -> MemoryCurve:
    """Sum what is held; what is freed at an instant is freed before anything new is held.

    What is held for no time at all (by operators that take none) is a peak between the two.
    """
    taken: dict[float, float] = defaultdict(float)
    freed: dict[float, float] = defaultdict(float)
    spike: dict[float, float] = defaultdict(float)
    for start, until, nbytes in holds:
        if until > start:
            taken[start] += nbytes
            freed[until] += nbytes
        else:
            spike[start] = max(spike[start], nbytes)
    times, curve = [], []
    level = static
    for time in sorted({0.0, *taken, *freed, *spike}):
        least = level - freed.get(time, 0.0)
        level = least + taken.get(time, 0.0)
        if least + spike.get(time, 0.0) > level:
            times.append(time)
            curve.append(least + spike[time])
        times.append(time)
        curve.append(level)
    return MemoryCurve(tuple(times), tuple(curve), static)
