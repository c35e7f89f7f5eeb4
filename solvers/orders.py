"""In-flight numbers and per-device orders of a pipeline of stages."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.contiguity import forward_edges
from solvers.graph import Phase, topological_order
from solvers.plan import Action, Stage
from solvers.problem import Pipeline, Problem
from solvers.segments import home_operators
from solvers.units import PHASES_OF


def stage_successors(problem: Problem, sets: Sequence[Sequence[int]]) -> list[set[int]]:
    """The DAG of stages: which stages read forward tensors of which."""
    home = home_operators(problem.graph)
    stage_of: dict[int, int] = {o: i for i, members in enumerate(sets) for o in members}
    after: list[set[int]] = [set() for _ in sets]
    for u, v in forward_edges(problem.graph):
        a, b = stage_of[home[u]], stage_of[home[v]]
        if a != b:
            after[a].add(b)
    return after


def in_flight(problem: Problem, after: Sequence[set[int]], micro_batches: int) -> list[int]:
    """Micro-batches each stage keeps: 1F1B, the stages on the longest path from it to a sink
    (GraphPipe, ASPLOS 2025, section 5); GPipe, all; without a backward, 1."""
    if not problem.has_backward():
        return [1] * len(after)
    if problem.pipeline is Pipeline.GPIPE:
        return [micro_batches] * len(after)
    depth = [1] * len(after)
    for stage in reversed(topological_order([sorted(targets) for targets in after])):
        depth[stage] = 1 + max((depth[target] for target in after[stage]), default=0)
    return [min(d, micro_batches) for d in depth]


def pipeline_order(
    problem: Problem, stages: Sequence[Stage], after: Sequence[set[int]], micro_batches: int
) -> tuple[tuple[Action, ...], ...]:
    """Per device, F and B of every micro-batch and U at the end.

    A device with one stage follows the textbook pattern: as many forwards as are in flight, then
    one backward, one forward, until the forwards end, then the remaining backwards. A device with
    several stages takes, whenever it is free, the ready action the pipeline prefers, in an event
    simulation without transfers; this never deadlocks.
    """
    kinds = [_kinds(problem, stage) for stage in stages]
    per_device = [sum(d in stage.devices for stage in stages) for d in range(len(problem.cluster))]
    orders: list[list[Action]]
    if max(per_device) <= 1:
        orders = [[] for _ in per_device]
        for index, stage in enumerate(stages):
            pattern = _pattern(index, kinds[index], stage.in_flight, micro_batches)
            for device in stage.devices:
                orders[device] = list(pattern)
    else:
        orders = _greedy(problem, stages, after, kinds, micro_batches)
    for index, stage in enumerate(stages):
        if "U" in kinds[index]:
            for device in stage.devices:
                orders[device].append(Action(index, "U"))
    return tuple(map(tuple, orders))


def _kinds(problem: Problem, stage: Stage) -> str:
    phases = {problem.graph.operators[o].phase for o in stage.operators}
    return "".join(kind for kind in "FBU" if phases & set(PHASES_OF[kind]))


def _pattern(stage: int, kinds: str, in_flight: int, micro_batches: int) -> list[Action]:
    forwards = [Action(stage, "F", j) for j in range(micro_batches)] if "F" in kinds else []
    backwards = [Action(stage, "B", j) for j in range(micro_batches)] if "B" in kinds else []
    if not forwards or not backwards:
        return forwards + backwards
    order = forwards[:in_flight]
    for j, backward in enumerate(backwards):
        order.append(backward)
        order += forwards[in_flight + j : in_flight + j + 1]
    return order


def _greedy(
    problem: Problem, stages: Sequence[Stage], after: Sequence[set[int]], kinds: Sequence[str], micro_batches: int
) -> list[list[Action]]:
    seconds = [_durations(problem, stage) for stage in stages]
    before: list[set[int]] = [set() for _ in stages]
    for a, targets in enumerate(after):
        for b in targets:
            before[b].add(a)
    ended: dict[Action, float] = {}
    next_forward, next_backward = [0] * len(stages), [0] * len(stages)
    free_s = [0.0] * len(problem.cluster)
    orders: list[list[Action]] = [[] for _ in free_s]

    def ready_s(action: Action) -> float | None:
        stage, j = action.stage, action.micro_batch
        if action.kind == "F":
            waits = [Action(s, "F", j) for s in before[stage] if "F" in kinds[s]]
            held = next_forward[stage] - next_backward[stage]
            if "B" in kinds[stage] and held >= stages[stage].in_flight:
                return None
        else:
            waits = [Action(s, "B", j) for s in after[stage] if "B" in kinds[s]]
            if "F" in kinds[stage]:
                waits.append(Action(stage, "F", j))
        if any(wait not in ended for wait in waits):
            return None
        return max((ended[wait] for wait in waits), default=0.0)

    left = sum(micro_batches for k in kinds for kind in "FB" if kind in k)
    backward_first = problem.pipeline is not Pipeline.GPIPE
    while left:
        best: tuple[tuple[float, bool, int, int], Action, float] | None = None
        for index, stage in enumerate(stages):
            for kind, following in (("F", next_forward), ("B", next_backward)):
                j = following[index]
                if kind not in kinds[index] or j == micro_batches:
                    continue
                action = Action(index, kind, j)
                ready = ready_s(action)
                if ready is None:
                    continue
                start = max(ready, *(free_s[d] for d in stage.devices))
                preference = (start, (kind == "B") != backward_first, j, -index if kind == "F" else index)
                if best is None or preference < best[0]:
                    best = (preference, action, start)
        if best is None:
            raise AssertionError("a pipeline with room for one micro-batch per stage always has a ready action")
        _, action, start = best
        stage = stages[action.stage]
        end = start + seconds[action.stage][action.kind]
        ended[action] = end
        for device in stage.devices:
            free_s[device] = end
            orders[device].append(action)
        if action.kind == "F":
            next_forward[action.stage] += 1
        else:
            next_backward[action.stage] += 1
        left -= 1
    return orders


def _durations(problem: Problem, stage: Stage) -> dict[str, float]:
    device = problem.cluster.devices[stage.devices[0]]
    times = problem.compute.at(device.kind, stage.micro_batch_size / len(stage.devices))
    operators = problem.graph.operators
    backward = [o for o in stage.operators if operators[o].phase in PHASES_OF["B"]]
    forward = [o for o in stage.operators if operators[o].phase is Phase.FORWARD]
    return {"F": float(times[forward].sum()), "B": float(times[backward].sum())}
