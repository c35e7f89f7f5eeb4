"""ZeRO-3: how much longer a micro-batch takes because replicas gather a stage's parameters from each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from solvers.errors import NoLink
from solvers.problem.cluster import around
from solvers.problem.graph import OpGraph, Phase, per_graph
from solvers.problem.problem import Problem
from solvers.problem.training import ZERO_PARAMETERS


class Gathering(NamedTuple):
    """What a forward and a backward of a micro-batch gather, in s.

    The parameters that come first are waited for: nothing runs before them that could hide them. The others come
    while operators run, one ahead of the next (Rajbhandari et al., SC 2020, section 7.2.2; PyTorch, FSDP notes: "the
    1st all-gather will not be able to overlap with anything"). A forward begins with the first operator that has
    parameters, a backward with the last.
    """

    first_s: float
    after_first_s: float
    last_s: float
    before_last_s: float

    def forward_s(self, compute_s: float) -> float:
        """A forward whose operators take ``compute_s``."""
        return self.first_s + max(compute_s, self.after_first_s)

    def backward_s(self, compute_s: float) -> float:
        """The same of what begins a backward, what runs again in it included."""
        return self.last_s + max(compute_s, self.before_last_s)


@per_graph
def ranks(graph: OpGraph) -> tuple[int, ...]:
    """The place of every operator in the graph's topological order."""
    rank_of = [0] * len(graph)
    for place, operator in enumerate(graph.topological_order):
        rank_of[operator] = place
    return tuple(rank_of)


def owned_bytes(problem: Problem, operators: Iterable[int]) -> list[float]:
    """B of parameters of these operators that have some, trained and frozen, in the order in which they run."""
    graph = problem.graph
    owners = [o for o in operators if graph.operators[o].phase is Phase.FORWARD and graph.operators[o].param_bytes]
    return [graph.operators[o].param_bytes for o in sorted(owners, key=ranks(graph).__getitem__)]


def gathering(problem: Problem, operators: Iterable[int], devices: Sequence[int]) -> Gathering | None:
    """What a stage with these operators gathers on these devices; None if it gathers nothing. Raises NoLink.

    Of r replicas each sends the next one, and the last the first, r - 1 parts of an r-th: (r-1)/r of the bytes go
    over every link, and the first gathering pays r - 1 latencies. All of it is as slow as the slowest link.
    """
    replicas = len(devices)
    if problem.copies.zero < ZERO_PARAMETERS or replicas == 1:
        return None
    nbytes = owned_bytes(problem, operators)
    if not nbytes:
        return None
    latency_s, s_per_byte = 0.0, 0.0
    for src, dst in around(devices):
        link = problem.cluster.link(src, dst)
        if link is None:
            raise NoLink(f"there is no link from device {src} to device {dst}, yet replicas gather parameters over it")
        latency_s = max(latency_s, link.latency_s)
        s_per_byte = max(s_per_byte, 1.0 / link.bandwidth_bytes_per_s)
    share_s, everything = (replicas - 1) / replicas * s_per_byte, sum(nbytes)
    begin_s = (replicas - 1) * latency_s
    return Gathering(
        begin_s + share_s * nbytes[0],
        share_s * (everything - nbytes[0]),
        begin_s + share_s * nbytes[-1],
        share_s * (everything - nbytes[-1]),
    )
