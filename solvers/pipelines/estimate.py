"""How long a draft takes and what it holds, without lowering it to tasks: what searches ask thousands of times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.coarsen import Condensed
from solvers.drafts import Draft, DraftStage, realise
from solvers.errors import InvalidPlan, InvalidProblem
from solvers.evaluate import MEMORY_SLACK
from solvers.graph import Phase
from solvers.kernels.pipeline_bundles import bundles_of
from solvers.kernels.pipeline_orders import orders_of
from solvers.kernels.pipeline_run import Keeps, Places, Units, folds, run_orders
from solvers.kernels.pipeline_stages import (
    KINDS,
    Bools,
    F,
    Floats,
    Ints,
    in_flight,
    quotient,
    topological,
    unit_costs,
    unit_numbers,
    waits_of,
)
from solvers.mapping import map_stages
from solvers.memory import workspace_bytes
from solvers.pipelines.tables import Costs, edges_of, messages_of, node_of_operator, reads_of, wires_of
from solvers.plan import parse_action
from solvers.problem import Objective, Pipeline, Transfers
from solvers.simulate import simulate

DIRECT = (Pipeline.GPIPE, Pipeline.ONE_F_ONE_B, Pipeline.PLANNER)
"""Pipelines whose orders are told on arrays; drafts of others are lowered."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """What one iteration of a draft costs.

    seconds: inf if it cannot run (stages wait for each other, too few devices, a link or time is missing).
    peak_bytes: of the fullest device of every stage, with all the stages that share it, [stages]. busy_s:
    compute of one device of every stage, [stages]. over: bytes the fullest device needs beyond its cap.
    """

    seconds: float
    peak_bytes: Floats
    busy_s: Floats
    over: float

    @property
    def feasible(self) -> bool:
        """Whether it runs and fits. Pins and contiguity are not looked at."""
        return self.over == 0 and math.isfinite(self.seconds)


class Estimator:
    """Iteration seconds and peak bytes of drafts over the super-operators of a problem.

    They are those of `realise` and `simulate`, but for rounding. Where transfers occupy more than links, or an
    order is not told on arrays, these are called. Raises InvalidProblem (a ValueError) if accelerators differ in
    kind.
    """

    def __init__(self, condensed: Condensed) -> None:
        problem = condensed.problem
        kinds = sorted({problem.cluster.devices[d].kind for d in problem.cluster.accelerators})
        if len(kinds) != 1:
            found = ", ".join(kinds) or "none"
            raise InvalidProblem(f"accelerators must be of one kind to estimate pipelines, found {found}")
        self.problem = problem
        self._members = condensed.at(1, merge_trivial=False).shape.members
        node = node_of_operator(condensed)
        self._costs = Costs(problem, node)
        self._edges, self._reads = edges_of(problem, node), reads_of(problem, node)
        self._messages = messages_of(problem, node)
        self._wires = wires_of(problem)
        self._alike = len(self._wires.wire) == 1
        devices = [problem.cluster.devices[d] for d in problem.cluster.accelerators]
        self._caps: Floats = np.array([device.memory_bytes for device in devices])
        self._direct = (
            problem.transfers is Transfers.LINKS
            and problem.pipeline in DIRECT
            and all(device.concurrency == 1 for device in devices)
        )
        self._rank = problem.graph.topological_order
        self._costs_node = node
        tensors = problem.graph.tensors
        forward = [o.phase is Phase.FORWARD for o in problem.graph.operators]
        rows = [(i, node[t.producer], node[r]) for i, t in enumerate(tensors) for r in t.consumers if forward[r]]
        self._forward_reads: Ints = np.array(rows, np.int64).reshape(-1, 3).T.copy()
        self._bytes: Floats = np.array([(t.nbytes.fixed, t.nbytes.per_sample) for t in tensors]).reshape(-1, 2).T
        self._working: dict[tuple[tuple[int, ...], float], float] = {}

    def __len__(self) -> int:
        """How many super-operators there are."""
        return len(self._members)

    def stage_seconds(
        self, nodes: Sequence[int], size: int, replicas: int = 1, recompute: bool = False
    ) -> tuple[float, float]:
        """Forward and backward seconds of super-operators, for one micro-batch of ``size`` on ``replicas``."""
        row = self._costs.row(size, replicas)
        inside = np.isin(self._costs.node, np.asarray(nodes, np.int64))
        seconds, phase = self._costs.operators.seconds[row], self._costs.phase
        forward = float(seconds[inside & (phase == 0)].sum())
        backward = float(seconds[inside & ((phase == 1) | (phase == 2))].sum())
        return forward, backward + (forward if recompute else 0.0)

    def estimate(self, draft: Draft) -> Estimate:
        """What a draft over super-operators costs. Raises InvalidPlan unless its stages partition them."""
        stages = draft.stages
        stage_of = self._stage_of(stages)
        problem = self.problem
        used = draft.devices()
        hosts = [s if stage.host is None else stage.host for s, stage in enumerate(stages)]
        impossible = (
            used > len(self._caps)
            or any(problem.mini_batch % stage.micro_batch_size for stage in stages)
            or any(stages[host].host is not None for host in hosts)
        )
        if impossible:
            return self._none(len(stages))
        if not self._direct:
            return self._lowered(draft, hosts)
        return self._told(stages, stage_of, np.array(hosts, np.int64))

    def _stage_of(self, stages: Sequence[DraftStage]) -> Ints:
        stage_of = np.full(len(self), -1, np.int64)
        for number, stage in enumerate(stages):
            stage_of[list(stage.operators)] = number
        if stage_of.min() < 0 or sum(len(stage.operators) for stage in stages) != len(self):
            raise InvalidPlan("the stages of a draft must hold every super-operator once")
        return stage_of

    def _none(self, stages: int) -> Estimate:
        return Estimate(math.inf, np.zeros(stages), np.zeros(stages), 0.0)

    def _told(self, stages: Sequence[DraftStage], stage_of: Ints, hosts: Ints) -> Estimate:
        problem = self.problem
        count = len(stages)
        size = np.array([stage.micro_batch_size for stage in stages], np.int64)
        counts = problem.mini_batch // size
        after = quotient(stage_of, count, self._edges)
        waits = waits_of(stage_of, count, self._reads)
        if len(topological(after)) < count or any(len(topological(waits[k, k])) < count for k in range(3)):
            return self._none(count)
        replicas = np.array([stages[host].replicas for host in hosts], np.int64)
        config = np.array([self._costs.row(int(b), int(r)) for b, r in zip(size, replicas, strict=True)], np.int64)
        again = np.array([stage.recompute for stage in stages])
        unit_of = unit_numbers(count, False)
        exists, seconds, workspace, saved, static, gradient = unit_costs(
            self._costs.operators, stage_of, unit_of, config, again
        )
        places = self._places(stages, hosts, replicas)
        keeps = self._kept(stages, size, counts, after, hosts)
        block = np.array([stage.block for stage in stages], np.int64)
        group = places.group[::KINDS].copy()
        gpipe = problem.pipeline is Pipeline.GPIPE
        runs, order_start, order_unit, order_micro = orders_of(
            exists, seconds, waits, counts, size, keeps, block, group, len(places.replicas), gpipe
        )
        if not runs:
            return self._none(count)
        unit_size = np.repeat(size, KINDS)
        unit_size[KINDS - 1 :: KINDS] = problem.mini_batch
        if not problem.has_backward() and problem.stated_bytes is None:
            for s, stage in enumerate(stages):
                workspace[KINDS * s + F] = self._inference_bytes(stage, float(size[s] / replicas[s]))
        units = Units(exists, seconds, workspace, unit_size, problem.mini_batch // unit_size)
        rank = np.unique(np.array([places.group, unit_size]), axis=1, return_inverse=True)[1].reshape(-1)
        bundles = bundles_of(self._messages, stage_of, unit_of, places.group, rank)
        if self._alike and folds(bundles, units, places):
            ones = np.arange(len(places.width))
            places = places._replace(first=ones, width=np.ones_like(ones), device=ones)
        kept = self._read_here(stages, stage_of, hosts, size, replicas)
        total, peak = run_orders(
            units,
            Keeps(saved, kept, again, static, gradient),
            bundles,
            places,
            self._wires,
            order_start,
            order_unit,
            order_micro,
            problem.transfer_s is not None,
            problem.stated_bytes is None,
            problem.training,
        )
        per_stage = (seconds * units.micro_batches * exists).reshape(count, KINDS).sum(axis=1)
        fullest = np.maximum.reduceat(peak[places.device], places.first)
        return Estimate(total, fullest[group], per_stage, self._over(peak))

    def _places(self, stages: Sequence[DraftStage], hosts: Ints, replicas: Ints) -> Places:
        """The devices of every stage: those `map_stages` chooses; any, numbered in turn, where all are alike."""
        own = np.flatnonzero(hosts == np.arange(len(hosts)))
        width = replicas[own]
        if self._alike:
            device = np.arange(width.sum())
        else:
            sets = [self._operators_of(stage) for stage in stages]
            chosen = map_stages(self.problem, stages, sets)
            own = np.array(sorted(own, key=lambda s: chosen[s]), np.int64)
            width = replicas[own]
            device = np.array([d for s in own for d in chosen[s]], np.int64)
        group_of = np.empty(len(hosts), np.int64)
        group_of[own] = np.arange(len(own))
        return Places(np.repeat(group_of[hosts], KINDS), width, np.cumsum(width) - width, width, device)

    def _operators_of(self, stage: DraftStage) -> tuple[int, ...]:
        return tuple(o for node in stage.operators for o in self._members[node])

    def _kept(self, stages: Sequence[DraftStage], size: Ints, counts: Ints, after: Bools, hosts: Ints) -> Ints:
        """Micro-batches every stage keeps in flight, as `realise` tells."""
        if not self.problem.has_backward():
            return np.ones_like(counts)
        if self.problem.pipeline is Pipeline.GPIPE:
            return counts
        block = np.array([stage.block for stage in stages], np.int64)
        slack = np.array([stage.slack for stage in stages], np.int64)
        return in_flight(after, size, block, slack, self.problem.mini_batch, hosts != np.arange(len(hosts)))

    def _inference_bytes(self, stage: DraftStage, samples: float) -> float:
        """Workspace of a stage where nothing is saved: what later operators still read counts."""
        operators = tuple(o for o in self._rank if self._costs_node[o] in set(stage.operators))
        key = (operators, samples)
        if key not in self._working:
            self._working[key] = workspace_bytes(self.problem, operators, samples)
        return self._working[key]

    def _read_here(
        self, stages: Sequence[DraftStage], stage_of: Ints, hosts: Ints, size: Ints, replicas: Ints
    ) -> Floats:
        """Bytes that stages that recompute read of stages on the same devices: they keep these too."""
        kept = np.zeros(len(stages))
        again = np.array([stage.recompute for stage in stages])
        if not again.any() or len(set(hosts.tolist())) == len(hosts):
            return kept
        tensor, maker, reader = self._forward_reads
        mine, theirs = stage_of[maker], stage_of[reader]
        kept_here = again[theirs] & (mine != theirs) & (hosts[mine] == hosts[theirs])
        pairs = np.unique(np.array([tensor[kept_here], theirs[kept_here]]), axis=1)
        np.add.at(kept, pairs[1], self._bytes[0][pairs[0]] + self._bytes[1][pairs[0]] * (size / replicas)[pairs[1]])
        return kept

    def _lowered(self, draft: Draft, hosts: Sequence[int]) -> Estimate:
        """By `realise` and `simulate`."""
        count = len(draft.stages)
        whole = Draft(tuple(replace(stage, operators=self._operators_of(stage)) for stage in draft.stages))
        try:
            plan = realise(self.problem, whole)
            schedule = simulate(self.problem, plan, Objective.ITERATION)
        except (InvalidPlan, IndexError):
            return self._none(count)
        peaks, busy = schedule.peak_bytes(), np.zeros(count)
        for span in schedule.spans:
            stage = -1 if span.is_transfer else parse_action(span.action).stage
            if stage >= 0 and span.device == plan.stages[stage].devices[0]:
                busy[stage] += span.end_s - span.start_s
        fullest = np.array([max(peaks[d] for d in stage.devices) for stage in plan.stages])
        return Estimate(schedule.makespan_s, fullest, busy, self._over(np.array(peaks[: len(self._caps)])))

    def _over(self, peak: Floats) -> float:
        caps = self._caps[: len(peak)]
        excess = peak - caps
        return float(np.max(excess, initial=0.0, where=peak > caps * (1 + MEMORY_SLACK)))
