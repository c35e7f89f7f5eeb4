"""How long a draft takes and what it holds, without lowering it to tasks: what searches ask thousands of times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.errors import InvalidPlan, InvalidProblem
from solvers.evaluation.columns import UPDATE, rows_of
from solvers.evaluation.evaluate import MEMORY_SLACK
from solvers.evaluation.lower import repeated
from solvers.evaluation.simulation import simulate
from solvers.kernels.arrays import Floats, Ints
from solvers.pipelines.costs import node_of_operator
from solvers.pipelines.recomputation.levels import stated
from solvers.pipelines.seating import Seating
from solvers.pipelines.timing.draft_kernel import GIVEN, GPIPE, IN_PARTS, ONE_F_ONE_B, Facts, Given, Options, run_draft
from solvers.pipelines.timing.held import ReadHere, Working
from solvers.pipelines.timing.lowering_kernel import Orders
from solvers.pipelines.timing.stages_kernel import KINDS
from solvers.pipelines.timing.tables import (
    Costs,
    edges_of,
    messages_of,
    reads_of,
    symmetric,
    wires_of,
)
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import ACTION_KINDS, Plan, parse_action
from solvers.plan.segments import Place
from solvers.problem.problem import SEVERAL_STAGES, Objective, Pipeline, Transfers
from solvers.schedules.nodes.mapping import map_stages
from solvers.schedules.ordering.stage_actions import splits
from solvers.schedules.realise import realise

NO_ORDERS = Given(Orders(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)), False)
NOWHERE: Ints = np.zeros(0, np.int64)


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


@dataclass(frozen=True, slots=True, eq=False)
class _Seats:
    """Of the stages ``own`` that have devices of their own: the numbers of their kinds, how many devices, and the one
    where an operator is pinned."""

    seating: Seating
    own: list[int]
    kinds: list[int]
    replicas: list[int]
    pinned: list[int | None]

    def places(self, hosts: Sequence[int], peak_bytes: Floats) -> list[Place]:
        """The devices of every stage, those of its host. peak_bytes: as far as they are known, [stages]."""
        held = [float(peak_bytes[s]) for s in self.own]
        devices = self.seating.devices_of(self.kinds, self.replicas, self.pinned, held)
        at = dict(zip(self.own, devices, strict=True))
        return [at[host] for host in hosts]


class Estimator:
    """Iteration seconds and peak bytes of drafts over the super-operators of a problem.

    They are those of `realise` and `simulate`, but for rounding: on arrays where transfers occupy links only and
    devices run one task at a time, else by calling these. Where accelerators differ in kind or memory, `Seating` says
    which stage runs on which (`devices`). Raises InvalidProblem (a ValueError) without accelerators.

    Orders of ZERO_BUBBLE, and of INTERLEAVED where stages share devices, are searched for by `realise`, which takes
    from hundredths to tenths of a second. quick: for ZERO_BUBBLE take ZB-H1 in their place (of stages that share
    devices 1F1B): seldom 6 % longer, but what it holds may be a third less.
    """

    def __init__(self, condensed: Condensed, *, quick: bool = False) -> None:
        problem = condensed.problem
        devices = [problem.cluster.devices[d] for d in problem.cluster.accelerators]
        if not devices:
            raise InvalidProblem("there are no accelerators to estimate pipelines on")
        self.problem = problem
        self._seating = Seating(problem)
        self._members = condensed.at(1, merge_trivial=False).shape.members
        node = node_of_operator(condensed)
        self._costs = Costs(problem, node)
        self._pinned = {int(node[operator]): device for operator, device in problem.pins.items()}
        self._edges, self._reads = edges_of(problem, node), reads_of(problem, node)
        self._messages, self._wires = messages_of(problem, node), wires_of(problem)
        self._alike = self._wires.alike
        self._symmetric = symmetric(problem.cluster)
        self._caps: Floats = np.array([device.memory_bytes for device in devices])
        self._limits: Floats = self._caps * (1 + MEMORY_SLACK)
        self._on_arrays = problem.transfers is Transfers.LINKS and all(device.concurrency == 1 for device in devices)
        stated = problem.stated_bytes is not None
        self._quick = quick
        self._splits = splits(problem.graph) and problem.objective is not Objective.MAKESPAN
        self._options = Options(
            problem.mini_batch, problem.has_backward(), not stated, problem.training, *repeated(problem.repeats)
        )
        self._order = problem.graph.topological_order
        self._read_here = ReadHere(problem, node)
        self._working = None if stated or problem.has_backward() else Working(problem, node)

    def __len__(self) -> int:
        """How many super-operators there are."""
        return len(self._members)

    def estimate(self, draft: Draft, devices: Sequence[Place] | None = None) -> Estimate:
        """What a draft over super-operators costs. devices: those of every stage; by default `Seating` chooses where
        accelerators differ, else `map_stages`. Raises InvalidPlan unless its stages partition the super-operators."""
        return self._seated(draft, devices)[0]

    def devices(self, draft: Draft) -> list[Place] | None:
        """Those of every stage that `estimate` assumes; None where `map_stages` chooses them, or none fit."""
        return self._seated(draft, None)[1]

    def _seated(self, draft: Draft, devices: Sequence[Place] | None) -> tuple[Estimate, list[Place] | None]:
        """The estimate, and the devices of every stage where accelerators differ."""
        stages = draft.stages
        stage_of = self._stage_of(stages)
        problem, count = self.problem, len(stages)
        hosts = [s if stage.host is None else stage.host for s, stage in enumerate(stages)]
        impossible = (
            (devices is None and draft.devices() > len(self._caps))
            or any(problem.mini_batch % stage.micro_batch_size for stage in stages)
            or any(stages[host].host is not None for host in hosts)
        )
        if impossible:
            return self._none(count), None
        if self._seating.uniform:
            return self._run(draft, stage_of, hosts, devices)[0], None
        seats = None if devices is not None else self._seats(stages, stage_of, hosts)
        if devices is None and seats is None:
            return self._none(count), None
        places = seats.places(hosts, np.zeros(count)) if seats is not None else list(devices or ())
        estimate, peak = self._run(draft, stage_of, hosts, places)
        if seats is not None and self._symmetric and math.isfinite(estimate.seconds):
            better, moved = seats.places(hosts, estimate.peak_bytes), np.zeros(len(self._caps))
            moved[_flat([better[s] for s in _own(hosts)])] = peak[_flat([places[s] for s in _own(hosts)])]
            return replace(estimate, over=self._over(moved)), better
        return estimate, places

    def _seats(self, stages: Sequence[DraftStage], stage_of: Ints, hosts: Sequence[int]) -> _Seats | None:
        """The kind of device of every stage that has its own, by its work and that of its guests on the fastest."""
        rows = [
            self._costs.row(stage.micro_batch_size, stages[host].replicas)
            for stage, host in zip(stages, hosts, strict=True)
        ]
        stage = stage_of[self._costs.node]
        seconds = self._costs.operators.seconds[np.array(rows)[stage], np.arange(len(stage))]
        each_s = np.bincount(stage, seconds * (self._costs.phase != UPDATE), len(stages))
        work_s = [0.0] * len(stages)
        for s, host in enumerate(hosts):
            work_s[host] += float(each_s[s]) * (self.problem.mini_batch / stages[s].micro_batch_size)
        pinned = {hosts[stage_of[node]]: device for node, device in self._pinned.items()}
        own = _own(hosts)
        replicas, homes = [stages[s].replicas for s in own], [pinned.get(s) for s in own]
        kinds = self._seating.kinds_of([work_s[s] for s in own], replicas, homes)
        return None if kinds is None else _Seats(self._seating, own, kinds, replicas, homes)

    def _run(
        self, draft: Draft, stage_of: Ints, hosts: Sequence[int], devices: Sequence[Place] | None
    ) -> tuple[Estimate, Floats]:
        """The estimate on devices that are given, or those that `map_stages` chooses; and the peaks of devices, by
        their numbers unless all are alike."""
        problem = self.problem
        stages = (draft.textbook() if problem.pipeline is Pipeline.ONE_F_ONE_B else draft).stages
        rows = []
        for stage, host in zip(stages, hosts, strict=True):
            size, replicas = stage.micro_batch_size, stages[host].replicas
            kind = self._seating.kind_of.get(devices[host][0], 0) if devices else 0
            row = self._costs.row(size, replicas, self._seating.kinds[kind], stage.recompute)
            rows.append((size, replicas, row, stage.recompute, stage.block, stage.slack, host))
        table = np.array(rows, np.int64)
        on_arrays = self._on_arrays and (devices is None or self._of_their_own(draft, devices, hosts))
        pipeline = self._pipeline(shared=len(_own(hosts)) < len(stages))
        if on_arrays and pipeline != GIVEN:
            device = NOWHERE
            if not self._alike:
                chosen = self._mapped(draft, stage_of) if devices is None else devices
                device = _flat([chosen[s] for s in _own(hosts)])
            return self._estimate_of(stage_of, table, device, pipeline, NO_ORDERS)
        try:
            plan = realise(problem, stated(problem, draft.expanded(self._members)), devices)
            if on_arrays:
                device = NOWHERE if self._alike else _flat([plan.stages[s].devices for s in _own(hosts)])
                return self._estimate_of(stage_of, table, device, GIVEN, _orders_of(plan, _own(hosts)))
            return self._simulated(plan)
        except InvalidPlan:
            return self._none(len(stages)), self._caps

    def _stage_of(self, stages: Sequence[DraftStage]) -> Ints:
        sizes = [len(stage.operators) for stage in stages]
        nodes = np.fromiter(chain.from_iterable(stage.operators for stage in stages), np.int64, sum(sizes))
        stage_of = np.full(len(self), -1, np.int64)
        stage_of[nodes] = np.repeat(np.arange(len(stages)), sizes)
        if len(nodes) != len(self) or stage_of.min() < 0:
            raise InvalidPlan("the stages of a draft must hold every super-operator once")
        return stage_of

    def _none(self, stages: int) -> Estimate:
        return Estimate(math.inf, np.zeros(stages), np.zeros(stages), 0.0)

    def _estimate_of(
        self, stage_of: Ints, table: Ints, device: Ints, pipeline: int, orders: Given
    ) -> tuple[Estimate, Floats]:
        read_here = self._read_here.of(stage_of, table)
        working = np.zeros(0) if self._working is None else self._working.of(stage_of, table)
        facts = Facts(self._costs.operators, self._messages, self._wires, self._edges, self._reads)
        seconds, fullest, busy, peak = run_draft(
            facts, self._options, pipeline, orders, stage_of, table, device, working, read_here
        )
        return Estimate(seconds, fullest, busy, self._over(peak) if math.isfinite(seconds) else 0.0), peak

    def _pipeline(self, shared: bool) -> int:
        """Which orders devices follow, as arrays tell them. shared: whether stages share devices."""
        pipeline = self.problem.pipeline
        if pipeline is Pipeline.GPIPE:
            return GPIPE
        if pipeline in SEVERAL_STAGES and shared:
            return GIVEN
        if pipeline is Pipeline.ZERO_BUBBLE and self._splits:
            return GIVEN if not self._quick else ONE_F_ONE_B if shared else IN_PARTS
        return ONE_F_ONE_B

    def _of_their_own(self, draft: Draft, devices: Sequence[tuple[int, ...]], hosts: Sequence[int]) -> bool:
        """Whether devices that are given are such as `map_stages` chooses: accelerators, each for one stage and
        those it hosts."""
        used = [device for stage in _own(hosts) for device in devices[stage]]
        fit = all(len(devices[s]) == draft.stages[s].replicas for s in _own(hosts))
        shared = all(devices[s] == devices[host] for s, host in enumerate(hosts))
        return fit and shared and len(set(used)) == len(used) and max(used) < len(self._caps)

    def _mapped(self, draft: Draft, stage_of: Ints) -> Sequence[tuple[int, ...]]:
        """The devices of every stage that `map_stages` chooses."""
        sets: list[list[int]] = [[] for _ in draft.stages]
        for operator, stage in zip(self._order, stage_of[self._costs.node].tolist(), strict=True):
            sets[stage].append(operator)
        return map_stages(self.problem, draft.stages, [tuple(members) for members in sets])

    def _simulated(self, plan: Plan) -> tuple[Estimate, Floats]:
        schedule = simulate(self.problem, plan, Objective.ITERATION)
        peaks, busy = schedule.peak_bytes(), np.zeros(len(plan.stages))
        for span in schedule.spans:
            stage = -1 if span.is_transfer else parse_action(span.action).stage
            if stage >= 0 and span.device == plan.stages[stage].devices[0]:
                busy[stage] += span.end_s - span.start_s
        fullest = np.array([max(peaks[d] for d in stage.devices) for stage in plan.stages])
        peak = np.array(peaks[: len(self._caps)])
        return Estimate(schedule.makespan_s, fullest, busy, self._over(peak)), peak

    def _over(self, peak: Floats) -> float:
        over = peak > self._limits[: len(peak)]
        return float((peak - self._caps[: len(peak)])[over].max()) if over.any() else 0.0


def _own(hosts: Sequence[int]) -> list[int]:
    """The stages that have devices of their own."""
    return [stage for stage, host in enumerate(hosts) if stage == host]


def _flat(rows: Sequence[Sequence[int]]) -> Ints:
    return np.array([device for row in rows for device in row], np.int64)


def _orders_of(plan: Plan, own: Sequence[int]) -> Given:
    """The orders of the devices of these stages as arrays."""
    orders = [plan.order[plan.stages[stage].devices[0]] for stage in own]
    kinds = {kind: number for number, kind in enumerate(ACTION_KINDS)}
    start, unit = rows_of([[KINDS * action.stage + kinds[action.kind] for action in order] for order in orders])
    _, micro = rows_of([[action.micro_batch for action in order] for order in orders])
    split = bool(np.isin(unit % KINDS, (kinds["I"], kinds["W"])).any())
    return Given(Orders(start, unit, micro), split)
