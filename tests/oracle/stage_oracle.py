"""Every pipeline of stages of a tiny graph, and small random problems to ask about."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import MEMORY_SLACK, judge
from solvers.evaluation.simulation import simulate
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.cluster import uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor, topological_order
from solvers.problem.problem import ComputeTable, Objective, Pipeline, Problem
from solvers.schedules.realise import realise
from tests.instances import GPU, devices


def random_pipeline_problem(
    seed: int, *, largest: int = 7, gpus: tuple[int, ...] = (2, 3, 4), memory: bool = True, replicas: bool = True
) -> Problem:
    """A training problem on a random DAG (not series-parallel in general) with mirrored gradients: every
    operator with parameters, saved activations and times that fall short of proportional in small batches."""
    rng = random.Random(seed)
    count = rng.randint(3, largest)
    density = rng.choice((0.2, 0.35, 0.5))
    edges = [(u, v) for u in range(count) for v in range(u + 1, count) if rng.random() < density]
    forward = [
        Operator(f"o{i}", param_bytes=rng.uniform(0.0, 4.0), saved_bytes=Amount(0.0, rng.uniform(0.5, 3.0)))
        for i in range(count)
    ]
    backward = [Operator(f"{o.name}'", phase=Phase.BACKWARD_INPUT, forward_of=i) for i, o in enumerate(forward)]
    size = [rng.uniform(0.0, 2.0) for _ in range(count)]
    tensors = []
    for u in range(count):
        readers = tuple(v for a, v in edges if a == u)
        if readers:
            tensors.append(Tensor(u, readers, Amount(0.0, size[u])))
        group = u if len(readers) > 1 else None
        tensors += [Tensor(count + v, (count + u,), Amount(0.0, size[u]), sum_group=group) for v in readers]
    tensors += [Tensor(i, (count + i,)) for i in range(count)]
    work = np.array([rng.choice((0.02, 1.0, 1.0, 1.0)) * rng.uniform(0.5, 2.0) for _ in range(count)])
    start_s = rng.choice((0.0, 0.3, 1.0)) * work.mean()
    points = (1, 2, 4, 8, 16)
    once = np.stack([work * b + np.minimum(start_s, work) for b in points], axis=1)
    table = ComputeTable(points, {GPU: np.concatenate([once, rng.choice((1.0, 2.0)) * once])})
    graph = OpGraph(tuple(forward + backward), tuple(tensors))
    total = float(work.sum()) * 16
    accelerators = rng.choice(gpus)
    static = 4.0 * sum(o.param_bytes for o in forward)
    saved = 16 * sum(o.saved_bytes.per_sample for o in forward)
    cap = rng.choice((math.inf, 0.9, 0.5)) * (static + saved) if memory else math.inf
    traffic = 2 * 16 * sum(size)
    cluster = uniform_cluster(devices(accelerators, cap), rng.choice((0.3, 1.0, 5.0)) * traffic / total, 0.0)
    return Problem(
        graph,
        cluster,
        table,
        objective=Objective.ITERATION,
        pipeline=Pipeline.ONE_F_ONE_B,
        mini_batch=16,
        micro_batches=None,
        max_replicas=accelerators if replicas else 1,
    )


def expanded(condensed: Condensed, draft: Draft) -> Draft:
    """A draft over super-operators as one over operators."""
    size = draft.stages[0].micro_batch_size
    members = condensed.at(size, merge_trivial=False).shape.members
    return Draft(
        tuple(replace(s, operators=tuple(o for node in s.operators for o in members[node])) for s in draft.stages)
    )


@dataclass(frozen=True, slots=True)
class Simulated:
    """What `solvers.pipelines.descent.descend` needs of an estimate, from the simulation of the plan itself."""

    seconds: float
    over: float
    busy_s: tuple[float, ...]
    peak_bytes: tuple[float, ...]


class SlowEstimate:
    """Estimates of drafts over super-operators by realising and simulating them."""

    def __init__(self, condensed: Condensed) -> None:
        self.condensed, self.calls = condensed, 0

    def __call__(self, draft: Draft) -> Simulated:
        self.calls += 1
        problem, stages = self.condensed.problem, len(draft.stages)
        try:
            plan = realise(problem, expanded(self.condensed, draft))
            schedule = simulate(problem, plan)
        except InvalidPlan:
            return Simulated(math.inf, 0.0, (0.0,) * stages, (0.0,) * stages)
        peak, busy = schedule.peak_bytes(), schedule.busy_per_device_s()
        caps = [device.memory_bytes * (1 + MEMORY_SLACK) for device in problem.cluster.devices]
        seconds = judge(problem, plan).objective_s
        return Simulated(
            seconds,
            sum(max(0.0, held - cap) for held, cap in zip(peak, caps, strict=True)),
            tuple(max(busy[d] for d in stage.devices) for stage in plan.stages),
            tuple(max(peak[d] for d in stage.devices) for stage in plan.stages),
        )


def every_draft(condensed: Condensed, most_slack: int = 2) -> Iterator[Draft]:
    """All acyclic partitions of the super-operators into stages with devices of their own, all replica
    counts, all numbers of micro-batches, and 0 to ``most_slack`` further ones in flight in all stages.

    Stages that wait for each other in the forward pass are left out.
    """
    problem = condensed.problem
    accelerators = len(problem.cluster.accelerators)
    counts = problem.micro_batch_choices()
    shape = condensed.at(problem.mini_batch // counts[0], merge_trivial=False).shape
    partitions = [p for p in _partitions(len(shape), accelerators) if _acyclic(p, shape.edges)]
    for count, sets in itertools.product(counts, partitions):
        size = problem.mini_batch // count
        allowed = [r for r in range(1, problem.max_replicas + 1) if problem.can_share(size, r)]
        for replicas in itertools.product(allowed, repeat=len(sets)):
            if sum(replicas) <= accelerators:
                for slack in range(most_slack + 1):
                    yield Draft(tuple(DraftStage(s, size, r, slack=slack) for s, r in zip(sets, replicas, strict=True)))


def best_by_force(problem: Problem, most_slack: int = 2) -> float:
    """Least seconds of all plans of `every_draft` that fit, judged exactly; inf if none fits. Drafts that a
    bound on their time rules out are not simulated; the bound asks for mirrored gradients."""
    condensed = Condensed(problem, ordered=True)
    bounds = _Bounds(condensed)
    ranked = sorted(((bounds.of(draft), i, draft) for i, draft in enumerate(every_draft(condensed, most_slack))))
    best = math.inf
    seen: set[tuple[object, ...]] = set()
    for bound, _, draft in ranked:
        if bound >= best:
            break
        plan = realise(problem, expanded(condensed, draft))
        if (key := (plan.stages, plan.order)) in seen:  # slack beyond all micro-batches changes nothing
            continue
        seen.add(key)
        judged = judge(problem, plan)
        if judged.feasible:
            best = min(best, judged.objective_s)
    return best


class _Bounds:
    """Least seconds of drafts: of some stage the way to it, all its micro-batches, and the way back; or a stage
    that adds up gradients after them."""

    def __init__(self, condensed: Condensed) -> None:
        self.condensed, self.problem = condensed, condensed.problem
        self.edges = condensed.at(self.problem.mini_batch, merge_trivial=False).shape.edges
        self._cache: dict[tuple[object, ...], float] = {}
        links = self.problem.cluster.links
        self.bandwidth = max((link.bandwidth_bytes_per_s for link in links), default=math.inf)

    def of(self, draft: Draft) -> float:
        key = tuple((s.operators, s.micro_batch_size, s.replicas) for s in draft.stages)
        if key not in self._cache:
            self._cache[key] = self._seconds(draft.stages)
        return self._cache[key]

    def _seconds(self, stages: Sequence[DraftStage]) -> float:
        problem = self.problem
        stage_of = {o: i for i, stage in enumerate(stages) for o in stage.operators}
        before: list[set[int]] = [set() for _ in stages]
        for u, v in self.edges:
            if stage_of[u] != stage_of[v]:
                before[stage_of[v]].add(stage_of[u])
        after = [sorted(j for j, sources in enumerate(before) if i in sources) for i in range(len(stages))]
        there, back = [0.0] * len(stages), [0.0] * len(stages)
        forward, backward, least = [], [], 0.0
        for stage in stages:
            costs = self.condensed.at(stage.micro_batch_size, merge_trivial=False, replicas=stage.replicas)
            one, two = costs.acc_pass_s[:, list(stage.operators)].sum(axis=1) * stage.micro_batch_size
            forward.append(float(one))
            backward.append(float(two))
        for index in topological_order(after):
            stage, sources = stages[index], before[index]
            there[index] = max((there[s] + forward[s] for s in sources), default=0.0)
            back[index] = max((back[s] + backward[s] for s in sources), default=0.0)
            count = problem.mini_batch / stage.micro_batch_size
            costs = self.condensed.at(stage.micro_batch_size, merge_trivial=False, replicas=stage.replicas)
            gradients = float(costs.param_bytes[list(stage.operators)].sum())
            ring = 2 * (stage.replicas - 1) / stage.replicas * gradients / self.bandwidth
            busy = there[index] + count * (forward[index] + backward[index])
            least = max(least, busy + max(back[index], ring))
        return least


def _partitions(count: int, most: int) -> Iterator[list[tuple[int, ...]]]:
    """Partitions of 0..count-1 into at most ``most`` sets."""
    sets: list[list[int]] = []

    def place(item: int) -> Iterator[list[tuple[int, ...]]]:
        if item == count:
            yield [tuple(members) for members in sets]
            return
        for members in sets:
            members.append(item)
            yield from place(item + 1)
            members.pop()
        if len(sets) < most:
            sets.append([item])
            yield from place(item + 1)
            sets.pop()

    return place(0)


def _acyclic(sets: Sequence[Sequence[int]], edges: Sequence[tuple[int, int]]) -> bool:
    stage_of = {o: i for i, members in enumerate(sets) for o in members}
    after: list[set[int]] = [set() for _ in sets]
    for u, v in edges:
        if stage_of[u] != stage_of[v]:
            after[stage_of[u]].add(stage_of[v])
    return len(topological_order([sorted(row) for row in after])) == len(sets)


def one_stage(condensed: Condensed, size: int) -> Draft:
    """Everything on one device, in micro-batches of ``size`` samples."""
    return Draft((DraftStage(tuple(range(len(condensed.at(size, merge_trivial=False).shape))), size),))


def equal_chain(condensed: Condensed, size: int) -> Draft:
    """As many runs of super-operators, in their order, as there are devices, about as long each."""
    count = len(condensed.at(size, merge_trivial=False).shape)
    parts = np.array_split(np.arange(count), min(count, len(condensed.problem.cluster.accelerators)))
    return Draft(tuple(DraftStage(tuple(part.tolist()), size) for part in parts))
