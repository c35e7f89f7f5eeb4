"""Which operators of the plan each segment of a run computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.runner.bundles.outcome import Outcome
from explorer.runner.scripts.channels import gradients_of
from explorer.runner.scripts.segments import lay_out
from solvers.errors import InvalidPlan, PlacementError
from solvers.plan.plan import PHASES_OF, Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Objective, Problem


@dataclass(frozen=True, slots=True)
class Part:
    """Operators of the plan that were measured together.

    segments: of the run, one unless nobody knows which operators each of them had; stages: of the plan.
    operators: positions, backward and update with them, one entry for every stage that holds a copy. samples:
    a replica's share of a micro-batch; update_samples: of the mini-batch. runs: micro-batches an iteration.
    again: forward operators that run again before a backward (recomputation).
    """

    segments: tuple[int, ...]
    stages: tuple[int, ...]
    operators: tuple[int, ...]
    samples: float
    update_samples: float
    runs: int
    again: tuple[int, ...]

    def of(self, problem: Problem, kind: str) -> tuple[int, ...]:
        """The operators of an action of ``kind`` (F, B, I, W or U), what runs again left out."""
        phases = PHASES_OF[kind]
        return tuple(o for o in self.operators if problem.graph.operators[o].phase in phases)

    def samples_of(self, kind: str) -> float:
        return self.update_samples if kind == "U" else self.samples

    def predicted_s(self, problem: Problem, kind: str, device: int) -> float:
        """Seconds of one action on a device by the problem's table, what runs again included."""
        times = problem.compute.at(problem.cluster.devices[device].kind, self.samples_of(kind))
        again = self.again if kind in "BI" else ()
        return float(times[list(self.of(problem, kind))].sum() + times[list(again)].sum())


def parts_of(problem: Problem, plan: Plan, outcome: Outcome) -> tuple[Part, ...]:
    """The parts of a run, which cover all its segments.

    A segment is as a rule what its stages hold. Where stages were taken apart (a pass of single operators),
    the plan is laid out once more to see which operators went where; if that does not give the segments of
    the outcome, those that share stages are one part. Raises InvalidPlan if the outcome names stages that
    the plan does not have.
    """
    for segment, stages in enumerate(outcome.segments):
        if not stages or not all(0 <= s < len(plan.stages) for s in stages):
            raise InvalidPlan(
                f"segment {segment} of the run joins stages {list(stages)}, but the plan has {len(plan.stages)}"
                " stages; the run is of another plan"
            )
    times = Counter(stage for stages in outcome.segments for stage in stages)
    if max(times.values(), default=0) <= 1:
        groups = [((segment,), stages) for segment, stages in enumerate(outcome.segments)]
        return tuple(_part(problem, plan, segments, stages) for segments, stages in groups)
    laid = _laid_out(problem, plan, outcome)
    if laid is not None:
        return tuple(
            _part(problem, plan, (segment,), outcome.segments[segment], operators)
            for segment, operators in enumerate(laid)
        )
    return tuple(_part(problem, plan, segments, stages) for segments, stages in _sharing(outcome.segments))


def _part(
    problem: Problem,
    plan: Plan,
    segments: tuple[int, ...],
    stages: tuple[int, ...],
    operators: tuple[int, ...] | None = None,
) -> Part:
    held = tuple(o for s in stages for o in plan.stages[s].operators) if operators is None else operators
    first = plan.stages[stages[0]]
    size = problem.mini_batch if problem.objective is Objective.MAKESPAN else first.micro_batch_size
    replicas = len(first.devices)
    chosen = set(held)
    again = tuple(
        o
        for s in stages
        if plan.stages[s].recompute
        for o in plan.stages[s].operators
        if o in chosen and problem.graph.operators[o].phase is Phase.FORWARD
    )
    return Part(
        segments,
        stages,
        held,
        size / replicas,
        problem.mini_batch / replicas,
        problem.mini_batch // size,
        again if problem.has_backward() else (),
    )


def _laid_out(problem: Problem, plan: Plan, outcome: Outcome) -> list[tuple[int, ...]] | None:
    """The operators of every segment, or None where laying out the plan does not give the outcome's segments."""
    graph = problem.graph
    try:
        layout = lay_out(problem, plan, gradients_of(graph) if graph.trains else ())
    except PlacementError:
        return None
    if tuple(segment.stages for segment in layout.segments) != outcome.segments:
        return None
    mirrors: dict[int, list[int]] = {}
    for position, operator in enumerate(graph.operators):
        if operator.forward_of is not None:
            mirrors.setdefault(operator.forward_of, []).append(position)
    return [
        (*segment.operators, *(m for o in segment.operators for m in mirrors.get(o, ()))) for segment in layout.segments
    ]


def _sharing(segments: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Segments in groups that share stages, directly or by others: (segments, stages) of each."""
    groups: list[tuple[set[int], set[int]]] = []
    for segment, stages in enumerate(segments):
        touching = [group for group in groups if group[1] & set(stages)]
        merged = {segment}.union(*(group[0] for group in touching)), set(stages).union(*(g[1] for g in touching))
        groups = [group for group in groups if group not in touching] + [merged]
    return sorted((tuple(sorted(a)), tuple(sorted(b))) for a, b in groups)
