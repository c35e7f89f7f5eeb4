"""The tensors that a plan sends from device to device, the largest first."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from solvers.plan.crossings import messages_between_stages
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one operator's output (or a sum of several) costs between two places.

    producer: the name of the operator, the first one of a sum. source, target: the devices of the stages. nbytes: B of
    one micro-batch of the source. times: how often a mini-batch sends it.
    """

    producer: str
    source: tuple[int, ...]
    target: tuple[int, ...]
    nbytes: float
    times: int

    @property
    def total_bytes(self) -> float:
        """B of a mini-batch."""
        return self.nbytes * self.times


def transfers(problem: Problem, plan: Plan) -> tuple[Transfer, ...]:
    """Every message that leaves its place, once for each place that reads it, the most bytes of a mini-batch first.

    The bytes are those of `solvers.evaluation.evaluate.cut_bytes`, one by one. What several replicas read counts as
    one copy.
    """
    where: dict[int, list[tuple[tuple[int, ...], int]]] = defaultdict(list)
    for stage in plan.stages:
        for operator in stage.operators:
            where[operator].append((stage.devices, stage.micro_batch_size))
    operators, tensors = problem.graph.operators, problem.graph.tensors
    by_route: dict[tuple[str, tuple[int, ...], tuple[int, ...]], Transfer] = {}
    for group in messages_between_stages(problem.graph, plan.stages):
        for t in group:
            copies = where[tensors[t].producer]
            homes = {devices for devices, _ in copies}
            source, samples = copies[0]
            for target in sorted({d for c in tensors[t].consumers for d, _ in where[c]} - homes):
                name = operators[tensors[group[0]].producer].name
                nbytes = tensors[group[0]].nbytes.at(samples)
                times = max(1, problem.mini_batch // samples)
                by_route[f"{group[0]} {name}", source, target] = Transfer(name, source, target, nbytes, times)
    return tuple(sorted(by_route.values(), key=lambda sent: (-sent.total_bytes, sent.producer, sent.target)))
