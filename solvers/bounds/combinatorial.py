"""Combinatorial lower bounds and proofs of infeasibility, for any planner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from solvers.bounds.chain import chain_bound_s
from solvers.bounds.iteration import iteration_bound_s
from solvers.bounds.makespan.improve import improved_s
from solvers.bounds.makespan.quick import quick_bound_s
from solvers.bounds.makespan.shape import pass_shape
from solvers.bounds.paths import heads_and_tails_s
from solvers.evaluation.unit_bytes import saved_bytes
from solvers.kernels.arrays import Floats
from solvers.problem.graph import OpGraph, Phase, per_graph
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Contiguity, Execution, Objective, Pipeline, Problem

_BOUNDS_S: WeakKeyDictionary[Problem, dict[int, float]] = WeakKeyDictionary()
"""What `bound_with_s` found: most members of a search begin with it."""


def lower_bound_s(problem: Problem) -> float:
    """Seconds no plan can beat, for the problem's objective.

    The least over the numbers of micro-batches allowed of the largest of: average work per device,
    the largest indivisible group of operators, and the critical path (without transfers). Up to
    ``max_replicas`` devices may share every micro-batch of an operator equally. For an iteration also
    `solvers.bounds.iteration` and `solvers.bounds.chain`; for one pass of single operators on one device each
    `solvers.bounds.makespan.quick`, which knows of transfers.
    """
    if problem.objective is Objective.MAKESPAN and problem.execution is Execution.OPERATOR:
        shape = pass_shape(problem)
        return max(bound_with_s(problem, 1), 0.0 if shape is None else quick_bound_s(shape))
    choices = (1,) if problem.objective is Objective.MAKESPAN else problem.micro_batch_choices()
    if problem.mixed_micro_batches and problem.objective is not Objective.MAKESPAN:
        mixed = problem.stage_choices()
        return chain_bound_s(problem, mixed, iteration_bound_s(problem, mixed, _bound_s(problem, mixed)))
    bounds = [(iteration_bound_s(problem, (count,), bound_with_s(problem, count)), count) for count in choices]
    least_s = np.inf
    for bound_s, count in sorted(bounds):
        least_s = chain_bound_s(problem, (count,), bound_s, least_s)
    return least_s


def improved_bound_s(
    problem: Problem,
    upper_s: float,
    check: Callable[[], None] = lambda: None,
    budget: float = 2e8,
    on_bound: Callable[[float], None] = lambda _: None,
) -> float:
    """`lower_bound_s`, raised with more effort for one pass of single operators (`solvers.bounds.makespan.improve`).

    upper_s: the makespan of a plan, in seconds (inf: none is known, and nothing is raised). check is called
    often and may raise to stop; on_bound is called with every bound as soon as it is proved, so that a stop loses
    none. budget: what may be spent, in arcs of the graph looked at (100 million take
    about a second); the same budget gives the same bound. At most ``upper_s``.
    """
    bound = lower_bound_s(problem)
    if problem.objective is not Objective.MAKESPAN or problem.execution is not Execution.OPERATOR:
        return bound
    check()
    shape = pass_shape(problem)
    check()
    return bound if shape is None else improved_s(shape, bound, upper_s, check, budget, on_bound)


def bound_with_s(problem: Problem, micro_batches: int) -> float:
    """`lower_bound_s` for plans all of whose stages have this number of micro-batches."""
    known = _BOUNDS_S.setdefault(problem, {})
    if micro_batches not in known:
        known[micro_batches] = _bound_s(problem, (micro_batches,))
    return known[micro_batches]


def _bound_s(problem: Problem, choices: Sequence[int]) -> float:
    """`lower_bound_s` for plans in which every operator has one of these numbers of micro-batches."""
    sizes = [problem.mini_batch // count for count in choices]
    each = np.min([_fastest(problem, samples) for samples in sizes], axis=0)
    once = _fastest(problem, problem.mini_batch)
    update = np.array([o.phase is Phase.UPDATE for o in problem.graph.operators])
    in_all = np.min([_fastest(problem, size) * count for size, count in zip(sizes, choices, strict=True)], axis=0)
    number = group_of(problem.graph)
    whole = np.where(update, once, in_all)
    unlimited = any(device.concurrency is None for device in problem.cluster.devices) or (
        problem.execution is Execution.CALL and problem.objective is Objective.MAKESPAN and bool(problem.cluster.cpus)
    )
    balanced = np.min([_balanced(problem, *choice) for choice in zip(sizes, choices, strict=True)], axis=0)
    if problem.objective is Objective.MAX_LOAD:
        passes = [np.ones(len(update), bool)]
        if problem.pipeline is Pipeline.GPIPE:  # the slowest device of each pass counts
            forward = np.array([o.phase is Phase.FORWARD for o in problem.graph.operators])
            passes = [forward, ~forward]
        total = 0.0
        for inside in passes:
            largest = float(np.bincount(number, np.where(inside, whole, 0.0)).max())
            total += max(0.0 if unlimited else float(balanced[inside].sum()), largest)
        return total / problem.mini_batch
    average = 0.0 if unlimited else float(balanced.sum())
    largest = float(np.bincount(number, whole).max())
    head, tail = heads_and_tails_s(problem.graph, np.where(update, once, each))
    path = float((head + np.where(update, once, each) + tail).max())
    parallel = any(device.concurrency is None for device in problem.cluster.devices)  # CPUs of unlimited cores
    if problem.objective is Objective.MAKESPAN or parallel:
        return max(average, path)
    # All micro-batches of a group run one after the other on its device; before the first of them
    # at least one of its operators must be reached, after the last one at least one be followed up.
    counts = ~update
    first = np.full(len(groups := together(problem.graph)), np.inf)
    last = np.full(len(groups), np.inf)
    np.minimum.at(first, number[counts], head[counts])
    np.minimum.at(last, number[counts], tail[counts])
    work = np.bincount(number, np.where(update, 0.0, in_all), len(groups))
    serial = np.where(np.isfinite(first), first + work + last, 0.0)
    return max(average, largest, path, float(serial.max()))


def _fastest(problem: Problem, samples: float) -> Floats:
    kinds = {device.kind for device in problem.cluster.devices}
    shares = samples / problem.degrees()
    return np.asarray(np.min([problem.compute.at_each(kind, shares).min(axis=1) for kind in kinds], axis=0))


def _balanced(problem: Problem, samples: int, micro_batches: int) -> Floats:
    """Every operator's part of the time devices are busy if work is divided evenly, [operators].

    The least device time of each over all kinds, divided by the sum of the devices' largest speeds
    relative to that. r replicas take r times the time of one.
    """
    update = np.array([o.phase is Phase.UPDATE for o in problem.graph.operators])
    kinds = [device.kind for device in problem.cluster.devices]
    shares = problem.degrees()

    def whole_s(kind: str) -> Floats:
        once = problem.compute.at_each(kind, problem.mini_batch / shares)
        each = problem.compute.at_each(kind, samples / shares) * micro_batches
        return np.asarray((shares * np.where(update[:, None], once, each)).min(axis=1))

    whole = {kind: whole_s(kind) for kind in set(kinds)}
    base = np.min(list(whole.values()), axis=0)
    speeds = {}
    for kind, times in whole.items():
        usable = np.isfinite(times) & (base > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(usable, base / np.where(times > 0, times, 1.0), 0.0)
        speeds[kind] = float(relative.max(initial=0.0))
    speed = sum(speeds[kind] for kind in kinds)
    return np.asarray(base / speed if speed > 0 else np.zeros(len(base)))


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """The least memory per accelerator that any plan needs, and which operators force it."""

    nbytes: float
    operators: tuple[int, ...]
    because: str


def memory_need(problem: Problem) -> MemoryNeed:
    """A proved lower bound on the cap of equal accelerators, in bytes.

    The larger of: the static bytes of all operators that no CPU can take, spread evenly; and the
    largest single group, with the activations of one smallest micro-batch.
    """
    graph = problem.graph
    static = problem.static_bytes()
    most = min(problem.max_replicas, len(problem.cluster))
    shared = problem.static_bytes(most)  # with ZeRO: all replicas of an operator hold as much as one alone, or more
    samples = min(problem.mini_batch // m for m in problem.micro_batch_choices())
    if problem.objective is Objective.MAKESPAN:
        samples = problem.mini_batch
    least = samples / most  # on one of the most replicas
    groups = together(graph)
    on_cpu = [_cpu_can_run(problem, group) for group in groups]
    counted = problem.stated_bytes is None and problem.has_backward()
    # The operators of one acyclic device are one stage, which holds all its activations at once, or
    # several of a graph with one end, whose forwards all precede its backwards; otherwise only those of forwards that
    # every backward waits for are sure to be there at one time, and a single operator's.
    one_stage = problem.contiguity is Contiguity.ACYCLIC and problem.objective is not Objective.MAKESPAN
    spared = problem.recompute or problem.recompute_operators or bool(problem.host_links)
    one_stage &= not problem.by_stage and not spared
    simulated = problem.objective is not Objective.MAX_LOAD and not spared
    at_once = range(len(graph)) if one_stage else saved_at_once(graph) if simulated else frozenset()
    need, spread = [], []
    for group in groups:
        held = float(static[list(group)].sum())
        saved = [saved_bytes(problem, (o,), least) for o in group] if counted else [0.0]
        together_there = sum(nbytes for o, nbytes in zip(group, saved, strict=False) if o in at_once)
        need.append(float(shared[list(group)].sum()) + max(*saved, together_there))
        spread.append(held + (saved_bytes(problem, (o for o in group if o in at_once), samples) if counted else 0.0))
    accelerators = max(1, len(problem.cluster.accelerators))
    forced = [i for i in range(len(groups)) if not on_cpu[i]]
    if not forced:
        return MemoryNeed(0.0, (), "a CPU can hold every operator")
    average = sum(spread[i] for i in forced) / accelerators
    parameters = sum(float(static[list(groups[i])].sum()) for i in forced)
    largest = max(forced, key=lambda i: need[i])
    if need[largest] >= average:
        return MemoryNeed(need[largest], groups[largest], _on_one_device(problem, groups[largest], need[largest]))
    blame = sorted(forced, key=lambda i: -need[i])[:5]
    activations = average * accelerators - parameters
    because = f"all operators together, spread over {accelerators} devices"
    if activations > parameters:
        because += f": {_size(activations)} of {_size(activations + parameters)} are activations saved for the backward"
        because += f" of {samples} samples"
    return MemoryNeed(average, tuple(groups[i][0] for i in blame), because)


@per_graph
def saved_at_once(graph: OpGraph) -> frozenset[int]:
    """The forward operators that every backward one waits for: what they save for their own backward is there, all of
    it, when the first backward begins, wherever they are placed."""
    backward = [o.phase in (Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT) for o in graph.operators]
    first = [i for i in range(len(graph)) if backward[i] and not any(backward[j] for j in graph.predecessors[i])]
    mirrored = {o.forward_of for o in graph.operators if o.phase is not Phase.UPDATE}
    common = {i for i, o in enumerate(graph.operators) if first and o.phase is Phase.FORWARD and i in mirrored}
    for start in first:
        seen, ahead = {start}, [start]
        while ahead and common:
            for before in graph.predecessors[ahead.pop()]:
                if before not in seen:
                    seen.add(before)
                    ahead.append(before)
        common &= seen
    return frozenset(common)


def _on_one_device(problem: Problem, group: Sequence[int], nbytes: float) -> str:
    """Why a group needs as much as it does: a single operator whose parameters are most of it, and what would divide
    those, or that its operators stay together."""
    static = problem.static_bytes(min(problem.max_replicas, len(problem.cluster)))
    heaviest = max(group, key=lambda o: float(static[o]))
    operator, held = problem.graph.operators[heaviest], float(static[heaviest])
    if held <= nbytes / 2 or problem.stated_bytes is not None:
        return "these operators must share one device" if len(group) > 1 else f"{operator.name} is one operator"
    alone = operator.param_bytes + operator.buffer_bytes
    with_states = ", with gradients and optimizer states," if held > alone else ""
    fewer = ", an optimizer with fewer states" if problem.copies.states and with_states else ""
    return (
        f"the parameters of operator {operator.name}{with_states} are {_size(held)}, and an operator is not divided: a"
        f" model in which it is several (each expert or slice of its weight a module of its own){fewer} or a smaller"
        " dtype needs less"
    )


def _size(nbytes: float) -> str:
    """For sentences."""
    return f"{nbytes / 2**30:,.1f} GiB" if nbytes >= 2**30 else f"{nbytes:.0f} bytes"


def _cpu_can_run(problem: Problem, group: Sequence[int]) -> bool:
    if not problem.cluster.cpus:
        return False
    return bool(np.isfinite(problem.compute.at("cpu", 1)[list(group)]).all())


def proved_infeasible(problem: Problem) -> str | None:
    """One sentence that proves no plan exists, or None (which proves nothing)."""
    able = {device.kind: problem.compute.at(device.kind, 1) for device in problem.cluster.devices}
    for position, operator in enumerate(problem.graph.operators):
        if all(np.isinf(times[position]) for times in able.values()):
            return f"operator {operator.name!r} can run on none of the devices"
    for group in together(problem.graph):
        pinned = {problem.pins[o]: o for o in group if o in problem.pins}
        if len(pinned) > 1:
            (a, x), (b, y) = list(pinned.items())[:2]
            names = problem.graph.operators[x].name, problem.graph.operators[y].name
            return f"operators {names[0]!r} and {names[1]!r} must share a device, but are pinned to {a} and {b}"
        allowed = pinned or range(len(problem.cluster))
        if all(np.isinf(able[problem.cluster.devices[d].kind][list(group)]).any() for d in allowed):
            name = problem.graph.operators[group[0]].name
            where = f"device {next(iter(pinned))}, where it is pinned," if pinned else "any one device"
            return f"operator {name!r} and those that must share its device cannot all run on {where}"
    need = memory_need(problem)
    caps = [problem.cluster.devices[d].memory_bytes for d in problem.cluster.accelerators]
    if caps and need.nbytes > max(caps) * (1 + 1e-9):
        return f"every plan needs at least {_size(need.nbytes)} on some device ({need.because})"
    static = problem.static_bytes()
    held = sum(
        float(static[list(group)].sum()) for group in together(problem.graph) if not _cpu_can_run(problem, group)
    )
    if caps and held > sum(caps) * (1 + 1e-9):
        return f"operators that no CPU can run hold {held:.0f} bytes, and all accelerators {sum(caps):.0f}"
    return None
