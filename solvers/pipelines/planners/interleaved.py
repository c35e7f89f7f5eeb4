"""Several stages a device, in turn or in a V: shorter bubbles for more transfers, or less memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted, Shape
from solvers.contiguous.chains import topological_orders
from solvers.contiguous.planners.chain_dp import memory_shares
from solvers.kernels.arrays import Ints
from solvers.pipelines.even_cuts import even_cuts
from solvers.pipelines.offers import likely_counts, offer_draft, unsupported
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.problem import IN_TURN, LEFT_OPEN, SEVERAL_STAGES, Objective, Pipeline, Problem
from solvers.schedules.ordering.interleaving import textbook_in_flight
from solvers.schedules.ordering.v_shaped import v_in_flight
from solvers.search.monitor import Monitor

Cuts = tuple[int, ...]
"""Where an order of super-operators is cut, ends included."""

CHUNKS = (1, 2, 3, 4, 6, 8)
"""Stages per device that are tried; one is a pipeline that is not interleaved."""
PROMISING = 3
"""Pairs of micro-batches and stages per device, the best of one cut each, that get cuts of other kinds."""
TRANSFER_WEIGHTS = (0.5, 0.0, 2.0)
"""How much of the time to send and receive counts as load: little where transfers hide behind compute."""
UNLIMITED = math.inf
"""The share of memory to plan for at first: what is in flight is only known once a plan is made."""
STEPS = (1, 2, 4, 8)
"""Super-operators that one move takes across a cut."""
LEAST_GAIN = 1e-3
"""A relative gain below this is not worth another round of moves."""


@dataclass(frozen=True)
class Interleaved:
    """Stages of even load, dealt out to the devices in turn, or in a V.

    For every allowed number of micro-batches and of stages per device, ``orders`` topological orders are cut
    into that many times as many parts as there are accelerators, as even as can be, see `even_cuts`; part i
    runs on device i modulo devices, without replicas. Pipelines in a V have two parts a device, part i beside the i-th
    from the end (DUAL_PIPE: on a pair of devices, a replica each); so have ZERO_BUBBLE and PLANNER, whose other plans
    are those of planners with one stage a device. All are judged by simulation, one of every pair of
    numbers and several of the best pairs; then cuts of the best move as long as that helps. chunks: stages
    per device, 0 tries several.
    """

    name: ClassVar[str] = "interleaved"
    source: ClassVar[str] = (
        "Narayanan et al., SC 2021, section 2.2 (Megatron-LM's interleaved schedule); Qi et al., NeurIPS 2024 (in a V)"
    )
    guarantee: ClassVar[str] = "heuristic"

    chunks: int = 0
    orders: int = 4
    improve: bool = True

    def unsupported(self, problem: Problem) -> str | None:
        if problem.pipeline not in (*SEVERAL_STAGES, *LEFT_OPEN):
            return (
                f"it gives devices several stages, and the pipeline asked for is {problem.pipeline.value};"
                " use --pipeline interleaved"
            )
        if problem.pipeline not in IN_TURN and not problem.has_backward():
            return f"{problem.pipeline.value} is an order of forwards and backwards, and this is inference; use 1f1b"
        if problem.pipeline is Pipeline.DUAL_PIPE and problem.max_replicas < 2:
            return "DualPipe has two copies of the parameters, and a stage may have one; use --replicate 2"
        if problem.pipeline is Pipeline.DUAL_PIPE and len(problem.cluster.accelerators) % 2:
            count = len(problem.cluster.accelerators)
            return f"DualPipe pairs devices, and there are {count}; use dualpipe-v, or another --devices"
        if problem.objective is not Objective.ITERATION:
            return f"it shortens iterations, and the objective is {problem.objective.value}; use auto"
        if self.chunks < 0:
            return f"chunks must be at least 1, or 0 to try several, found {self.chunks}"
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        search = _Search(problem, monitor, self.orders)
        best_s: dict[tuple[int, int], float] = {}
        for count, bound_s, _ in likely_counts(problem, problem.micro_batch_choices()):
            for chunks in search.chunks(self.chunks):
                if bound_s < monitor.objective_s and problem.mini_batch // count % search.replicas == 0:
                    best_s[count, chunks] = search.offer_best(count, chunks, TRANSFER_WEIGHTS[:1], 1)
        for count, chunks in sorted(best_s, key=best_s.__getitem__)[:PROMISING]:
            search.offer_best(count, chunks, TRANSFER_WEIGHTS, self.orders)
        if self.improve:
            search.improve()
        return False


@dataclass(frozen=True, slots=True)
class _Cut:
    """Consecutive parts of an order, for one number of micro-batches."""

    micro_batches: int
    order: tuple[int, ...]
    cuts: Cuts


class _Search:
    """One call of the planner: orders, what was offered, and the best of it."""

    def __init__(self, problem: Problem, monitor: Monitor, orders: int) -> None:
        self.monitor, self.orders = monitor, orders
        in_a_v = problem.pipeline is Pipeline.PLANNER
        self.problem = replace(problem, pipeline=Pipeline.ZERO_BUBBLE) if in_a_v else problem
        self.in_turn = problem.pipeline in IN_TURN
        self.replicas = 2 if problem.pipeline is Pipeline.DUAL_PIPE else 1
        self.condensed = Condensed(problem, ordered=True)
        self.judged_s: dict[_Cut, float] = {}
        self._offered_s: dict[tuple[int, tuple[frozenset[int], ...]], float] = {}
        self._orders: dict[Shape, list[Ints]] = {}

    def chunks(self, wanted: int) -> tuple[int, ...]:
        """Stages per device that are tried: two in a V."""
        if not self.in_turn:
            return (2,)
        return (wanted,) if wanted else CHUNKS

    def offer_best(self, micro_batches: int, chunks: int, weights: Sequence[float], orders: int) -> float:
        """Offer cuts of ``orders`` into ``chunks`` parts per accelerator, each for the largest share of the
        memory with which it fits. The least objective in seconds, inf without one."""
        self.monitor.check()
        contracted = self._contracted(micro_batches)
        devices = min(len(self.problem.cluster.accelerators) // self.replicas, len(contracted))
        if len(contracted) < chunks * devices:
            return np.inf
        if contracted.shape not in self._orders:
            self._orders[contracted.shape] = topological_orders(contracted.shape, self.orders)
        in_flight = self._in_flight(devices, chunks, micro_batches)
        cap = min(self.problem.cluster.devices[d].memory_bytes for d in self.problem.cluster.accelerators)
        best_s = np.inf
        for order, weight in itertools.product(self._orders[contracted.shape][:orders], weights):
            forward = tuple(order[::-1].tolist())
            for share in (UNLIMITED, *memory_shares(self.problem)):
                if math.isinf(cap) and share != UNLIMITED:
                    break
                held = cap * share / chunks
                cuts = even_cuts(contracted, forward, chunks * devices, in_flight, held, weight, self.monitor.check)
                judged_s = self.offer(_Cut(micro_batches, forward, cuts)) if cuts else np.inf
                best_s = min(best_s, judged_s)
                if judged_s < np.inf:
                    break
        return best_s

    def offer(self, cut: _Cut) -> float:
        """Have a cut judged, once; its objective in seconds, inf if it does not fit."""
        parts = (cut.micro_batches, tuple(frozenset(cut.order[a:b]) for a, b in itertools.pairwise(cut.cuts)))
        if parts not in self._offered_s:
            devices = self._devices(len(cut.cuts) - 1)
            self._offered_s[parts] = offer_draft(self.problem, self.monitor, self._draft(cut), devices)
            self.judged_s[cut] = self._offered_s[parts]
        return self._offered_s[parts]

    def improve(self) -> None:
        """Move the cuts of the best as long as that helps."""
        while self.judged_s:
            best = min(self.judged_s, key=self.judged_s.__getitem__)
            before_s = self.judged_s[best]
            if before_s == np.inf:
                return
            for cut in _moved(best):
                self.monitor.check()
                if self.offer(cut) < before_s * (1 - LEAST_GAIN):
                    break
            else:
                return

    def _contracted(self, micro_batches: int) -> Contracted:
        return self.condensed.at(self.problem.mini_batch // micro_batches)

    def _draft(self, cut: _Cut) -> Draft:
        members = self._contracted(cut.micro_batches).shape.members
        size = self.problem.mini_batch // cut.micro_batches
        parts = [cut.order[a:b] for a, b in itertools.pairwise(cut.cuts)]
        return Draft(tuple(DraftStage(part, size, self.replicas) for part in parts)).expanded(members)

    def _in_flight(self, devices: int, chunks: int, micro_batches: int) -> list[int]:
        """Micro-batches that the stages hold at least, [devices x chunks]."""
        pipeline = self.problem.pipeline
        if not self.problem.has_backward():
            return [1] * devices * chunks
        if pipeline is Pipeline.LOOPED_BFS:
            return [micro_batches] * devices * chunks
        if self.in_turn:
            return textbook_in_flight(devices, chunks, micro_batches)
        least = {Pipeline.ZERO_BUBBLE: Pipeline.V_MIN, Pipeline.DUAL_PIPE: Pipeline.DUAL_PIPE_V}
        return v_in_flight(least.get(pipeline, pipeline), devices, micro_batches)

    def _devices(self, parts: int) -> Sequence[tuple[int, ...]]:
        accelerators = self.problem.cluster.accelerators
        if self.replicas > 1:  # the second copy comes from the other end
            return [(accelerators[part], accelerators[parts - 1 - part]) for part in range(parts)]
        if not self.in_turn:
            return [(accelerators[min(part, parts - 1 - part)],) for part in range(parts)]
        return [(accelerators[part % len(accelerators)],) for part in range(parts)]


def _moved(cut: _Cut) -> Iterator[_Cut]:
    """Cuts that differ in one place; no part becomes empty."""
    for place in range(1, len(cut.cuts) - 1):
        for step in STEPS:
            for to in (cut.cuts[place] - step, cut.cuts[place] + step):
                if cut.cuts[place - 1] < to < cut.cuts[place + 1]:
                    yield _Cut(cut.micro_batches, cut.order, (*cut.cuts[:place], to, *cut.cuts[place + 1 :]))
