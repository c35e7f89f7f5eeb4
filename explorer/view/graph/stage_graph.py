"""The DAG of a plan's stages as plain data: who feeds whom, with how many bytes, and how deep it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from explorer.view.plan_types import Stage
from explorer.words.actions import BACKWARD, TRANSFER, action_parts
from solvers.plan.crossings import messages_between_stages
from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule
from solvers.problem.graph import Phase, find_cycle, topological_order
from solvers.problem.problem import Problem

GLUE = 0.02
"""A stage that shares its device and takes less than this share of the mean stage's time is auxiliary (a
concatenation, a loss): it delays no other stage, and adds nothing to the depth."""


Edge = tuple[int, int, float, bool]
"""(source, target, bytes, between nodes), see `stage_edges`."""


def stage_facts(plan: Plan, schedule: Schedule, edges: Sequence[Edge]) -> list[Stage]:
    """Per stage: devices, operators (their number), micro_batch_size, in_flight, recompute, forward_s and
    backward_s (compute of one micro-batch on one replica), busy_s (compute of an iteration on one
    replica), share (of all devices' compute), ``glue`` (whether it is auxiliary) and depth."""
    times = _times(plan, schedule)
    busy = [forward + backward + update for forward, backward, update, _ in times]
    total = sum(b * len(s.devices) for b, s in zip(busy, plan.stages, strict=True))
    glue = _glue(plan, busy)
    depths = stage_depths(len(plan.stages), [(source, target) for source, target, _, _ in edges], glue)
    return [
        {
            "devices": list(stage.devices),
            "operators": len(stage.operators),
            "micro_batch_size": stage.micro_batch_size,
            "in_flight": stage.in_flight,
            "recompute": stage.recompute or bool(stage.regions),
            "again": len(stage.again),
            "forward_s": forward / (count or 1),
            "backward_s": backward / (count or 1),
            "busy_s": busy[i],
            "share": busy[i] * len(stage.devices) / total if total else 0.0,
            "glue": glue[i],
            "depth": depths[i],
        }
        for i, (stage, (forward, backward, _, count)) in enumerate(zip(plan.stages, times, strict=True))
    ]


def stage_edges(problem: Problem, plan: Plan) -> list[Edge]:
    """Every pair of stages of which the target reads forward tensors of the source. Bytes are of one
    micro-batch of the source; it is between nodes if some device of the one is in another node than some
    device of the other. Gradients flow back along the same edges."""
    operators, tensors = problem.graph.operators, problem.graph.tensors
    stages_of: dict[int, list[int]] = defaultdict(list)
    for i, stage in enumerate(plan.stages):
        for operator in stage.operators:
            stages_of[operator].append(i)
    sent: dict[tuple[int, int], float] = defaultdict(float)
    for group in messages_between_stages(problem.graph, plan.stages):
        first = tensors[group[0]]
        readers = {s for c in first.consumers if operators[c].phase is Phase.FORWARD for s in stages_of[c]}
        makers = {s for t in group if operators[tensors[t].producer].phase is Phase.FORWARD
                  for s in stages_of[tensors[t].producer][:1]}  # fmt: skip
        here = set(stages_of[first.producer])
        for source in makers:
            for target in readers - here - {source}:
                sent[source, target] += first.nbytes.at(plan.stages[source].micro_batch_size)
    nodes = [{problem.cluster.devices[d].node for d in stage.devices} for stage in plan.stages]
    return [(a, b, nbytes, len(nodes[a] | nodes[b]) > 1) for (a, b), nbytes in sorted(sent.items())]


def stage_depths(count: int, edges: Sequence[tuple[int, int]], glue: Sequence[bool] = ()) -> list[int]:
    """Stages on the longest path from each to a sink, itself included; auxiliary stages do not count. Of stages
    that feed each other (as sets of operators without contiguity may), each has depth 1."""
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        after[source].append(target)
    own = [0 if i < len(glue) and glue[i] else 1 for i in range(count)]
    if find_cycle(after):
        return own
    depth = [0] * count
    for stage in reversed(topological_order(after)):
        depth[stage] = own[stage] + max((depth[target] for target in after[stage]), default=0)
    return depth


def again_s(plan: Plan, schedule: Schedule) -> dict[int, float]:
    """Stage -> seconds that every backward begins with, where the forward runs again."""
    if not any(stage.recompute for stage in plan.stages):
        return {}
    times = _times(plan, schedule)
    return {i: times[i][0] / (times[i][3] or 1) for i, stage in enumerate(plan.stages) if stage.recompute}


def _times(plan: Plan, schedule: Schedule) -> list[tuple[float, float, float, int]]:
    """Per stage, on its first device: seconds of forward, of backward, of update; micro-batches."""
    sums = [[0.0, 0.0, 0.0] for _ in plan.stages]
    seen: list[set[int]] = [set() for _ in plan.stages]
    first = [stage.devices[0] for stage in plan.stages]
    for span in schedule.spans:
        stage, kind, micro_batch = action_parts(span)
        if kind == TRANSFER or not 0 <= stage < len(first) or span.device != first[stage]:
            continue
        sums[stage][0 if kind == "F" else 1 if kind in BACKWARD else 2] += span.end_s - span.start_s
        if micro_batch >= 0:
            seen[stage].add(micro_batch)
    return [(f, b, u, len(which)) for (f, b, u), which in zip(sums, seen, strict=True)]


def _glue(plan: Plan, busy_s: Sequence[float]) -> list[bool]:
    on: dict[int, int] = defaultdict(int)
    for stage in plan.stages:
        for device in stage.devices:
            on[device] += 1
    mean = sum(busy_s) / max(1, len(busy_s))
    return [
        all(on[d] > 1 for d in stage.devices) and busy < GLUE * mean
        for stage, busy in zip(plan.stages, busy_s, strict=True)
    ]
