"""A plan as what most launchers run: stages in one line, each giving to the next, with equal micro-batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from explorer.exports.layers.merged import forward_homes, merged, renumbered, sends
from explorer.exports.layers.recomputation import not_recomputed
from explorer.words import text
from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import PlanFile
from solvers.plan.plan import Plan
from solvers.problem.graph import OpGraph, topological_order
from solvers.problem.problem import Precision, Problem

MOST_STAGES = 512
"""Of a line: plans of single operators have thousands, and take as many steps to look through."""


@dataclass(frozen=True)
class Chain:
    """file: the plan with its stages numbered along the line. devices: by rank, those of its replicas; ranks are
    numbered in the order in which the line first comes to them. rank_of: stage -> rank."""

    file: PlanFile
    devices: tuple[tuple[int, ...], ...]
    rank_of: tuple[int, ...]

    @property
    def problem(self) -> Problem:
        return self.file.problem

    @property
    def graph(self) -> OpGraph:
        return self.file.problem.graph

    @property
    def plan(self) -> Plan:
        return self.file.plan

    @property
    def replicas(self) -> int:
        """Of every stage."""
        return len(self.devices[0])

    @property
    def micro_batch(self) -> int:
        """Samples, of which every replica takes an equal share."""
        return self.plan.stages[0].micro_batch_size

    @property
    def micro_batches(self) -> int:
        return self.problem.mini_batch // self.micro_batch

    @property
    def recomputing(self) -> tuple[int, ...]:
        return tuple(i for i, stage in enumerate(self.plan.stages) if stage.recompute)

    @property
    def per_rank(self) -> int:
        """Stages of a rank, at most."""
        return max(self.rank_of.count(rank) for rank in range(len(self.devices)))

    @property
    def in_rounds(self) -> bool:
        """Whether stage s is of rank s modulo the ranks, as interleaved schedules deal them out."""
        ranks = len(self.devices)
        return len(self.rank_of) % ranks == 0 and all(rank == s % ranks for s, rank in enumerate(self.rank_of))

    @property
    def in_a_v(self) -> bool:
        """Whether every rank has two stages, the s-th of the line and the s-th from its end, as V schedules do."""
        last = len(self.rank_of) - 1
        return last == 2 * len(self.devices) - 1 and all(r == min(s, last - s) for s, r in enumerate(self.rank_of))

    @cached_property
    def homes(self) -> dict[int, tuple[int, ...]]:
        """Forward operator -> its stages."""
        return forward_homes(self.graph, self.plan)

    def skips(self, *, copied: bool) -> list[str]:
        """What goes past a stage, a phrase each. copied: what a launcher can compute in each stage (masks, tables of
        angles), too."""
        readers: dict[tuple[int, int], set[int]] = {}
        for tensor in self.graph.tensors:
            o = tensor.producer
            if o in self.homes and tensor.nbytes.at(1) > 0 and (copied or not self.graph.operators[o].replicable):
                made = self.homes[o][0]
                read = {s for c in tensor.consumers for s in self.homes.get(c, ()) if s not in self.homes[o]}
                readers.setdefault((o, made), set()).update(s for s in read if s > made + 1)
        return [
            f"{self.graph.operators[o].name} from stage {made} to {', '.join(map(str, sorted(stages)))}"
            for (o, made), stages in readers.items()
            if stages
        ]

    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Per rank the actions of one replica, updates left out: "0F0", "1B3"."""
        return tuple(tuple(str(a) for a in self.plan.order[group[0]] if a.kind != "U") for group in self.devices)


def chain_of(file: PlanFile, *, passing_on: bool = False) -> Chain:
    """passing_on: stages can hand on what is not for them, so that a line of waiting is enough.

    Raises UnsupportedProblem, with the reason, if the plan is not of that shape.
    """
    graph = file.problem.graph
    _check_not_single(graph, file.plan)
    if len(file.plan.stages) > MOST_STAGES:
        raise UnsupportedProblem(
            f"the plan has {len(file.plan.stages):,} stages; launchers have a few a device, here at most {MOST_STAGES}"
        )
    _check_micro_batches(file.plan)
    plan = merged(graph, file.plan)
    homes = forward_homes(graph, plan)
    empty = sorted(set(range(len(plan.stages))) - {s for stages in homes.values() for s in stages})
    if empty:
        raise UnsupportedProblem(f"stage {empty[0]} has no forward of its own; a launcher's stage is a part of a model")
    pairs = sends(graph, homes, waits=passing_on)
    after: list[list[int]] = [sorted(b for a, b in pairs if a == stage) for stage in range(len(plan.stages))]
    order = topological_order(after)
    hint = " (--in-sequence plans one line)" if passing_on else ""
    if len(order) < len(plan.stages):
        raise UnsupportedProblem("the stages form a cycle; a launcher runs them one after the other")
    for a, b in pairwise(order):
        if (a, b) not in pairs:
            raise UnsupportedProblem(
                f"the stages are a DAG: {_stage(file, plan, a)} gives nothing to {_stage(file, plan, b)}, and this"
                f" format has stages in one line only{hint}"
            )
    plan = renumbered(plan, order)
    groups = list(dict.fromkeys(stage.devices for stage in plan.stages))
    _check_replicas(groups)
    rank_of = tuple(groups.index(stage.devices) for stage in plan.stages)
    return Chain(file._replace(plan=plan), tuple(groups), rank_of)


def losses(chain: Chain, expressed: Iterable[str] = ()) -> list[str]:
    """What a format does not say of a chain but what it says: of "numbers", "order", "recompute", "replicas"."""
    left_out = []
    if "numbers" not in expressed:
        left_out += numbers(chain.problem)
    if "recompute" not in expressed:
        left_out += not_recomputed(chain.problem, chain.plan)
    if "replicas" not in expressed and chain.replicas > 1:
        left_out.append(f"every stage has {chain.replicas} replicas: run as many copies of this, data parallel")
    if "order" not in expressed:
        left_out.append("the order of micro-batches on every device, which is the launcher's own")
    return left_out


def numbers(problem: Problem, *, optimizer: bool = True) -> list[str]:
    """A sentence on what the plan's memory counts on: the dtype, and in training optimizer, precision and ZeRO."""
    parts = sorted({tensor.dtype for tensor in problem.graph.tensors if "float" in tensor.dtype})
    if problem.training:
        parts += [problem.optimizer.value] if optimizer else []
        parts += [] if problem.precision is Precision.PURE else [f"{problem.precision.value} precision"]
        parts += [f"ZeRO stage {problem.zero}"] if problem.zero else []
    return [f"{', '.join(parts)}, which the plan's memory counts on: set the same"] if parts else []


def headline(file: PlanFile) -> str:
    """The plan in a line, for the head of a file."""
    members = range(file.problem.graph.tensor_parallel)
    cluster = text.counted((device.kind for device in file.problem.cluster.devices for _ in members), "x")
    name = text.short(file.reference or file.problem.graph.name, 90)
    return f"{name} on {cluster}: a plan of placement-explorer"


def with_plan(chain: Chain, plan: Plan) -> Chain:
    """The same line with other operators in its stages."""
    return replace(chain, file=chain.file._replace(plan=plan))


def _check_not_single(graph: OpGraph, plan: Plan) -> None:
    homes = forward_homes(graph, plan)
    if len(plan.stages) > 2 and len(homes) > 2 and all(len(stage) == 1 for stage in homes.values()):
        held = [0] * len(plan.stages)
        for (stage,) in homes.values():
            held[stage] += 1
        if max(held) == 1:
            raise UnsupportedProblem(
                f"the plan places {len(homes)} operators one by one; this format has modules (plan for the time of an"
                " iteration: --objective iteration)"
            )


def _check_micro_batches(plan: Plan) -> None:
    sizes = sorted({stage.micro_batch_size for stage in plan.stages})
    if len(sizes) > 1:
        raise UnsupportedProblem(
            f"stages have micro-batches of {', '.join(map(str, sizes))} samples, and this format has one size for all"
            " (plan with --micro-batches)"
        )


def _check_replicas(groups: list[tuple[int, ...]]) -> None:
    degrees = sorted({len(group) for group in groups})
    if len(degrees) > 1:
        raise UnsupportedProblem(
            f"stages have {', '.join(map(str, degrees))} replicas, and this format has one data parallel degree for all"
            " (plan with --replicate 1)"
        )
    seen: set[int] = set()
    for group in groups:
        if seen & set(group):
            raise UnsupportedProblem(f"device {min(seen & set(group))} has stages of several groups of replicas")
        seen |= set(group)


def _stage(file: PlanFile, plan: Plan, stage: int) -> str:
    where = " and ".join(file.problem.cluster.devices[device].name for device in plan.stages[stage].devices)
    first = min(o for o in plan.stages[stage].operators)
    return f"the stage of {text.short(file.problem.graph.operators[first].name, 60)} ({where})"
