"""Ways to serve a decoder, and which of them nothing beats in both throughput and time per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solvers.plan.plan import Plan
from solvers.plan.result import Result


@dataclass(frozen=True, eq=False)
class Point:
    """One replica, of which there are as many as the devices make.

    tensor, pipeline: devices of a group, and stages. replicas: copies of the model, each with its own requests.
    micro_batch: sequences that one stage decodes at once; as many micro-batches as stages are in flight. token_s: from
    one token of a sequence to its next. first_token_s: a prompt of one sequence through all stages, with nothing else
    running. layers: of each stage. peak_bytes: of a device, the larger of decode and prefill, by stage; cache_bytes: of
    it the KV cache, by stage. result: the plan of the decode phase of one replica, a stage a tensor-parallel group.
    """

    tensor: int
    pipeline: int
    replicas: int
    micro_batch: int
    token_s: float
    first_token_s: float
    layers: tuple[int, ...]
    peak_bytes: tuple[float, ...]
    cache_bytes: tuple[float, ...]
    result: Result

    @property
    def plan(self) -> Plan:
        """Of the decode phase. Points without a plan are none."""
        assert self.result.plan is not None
        return self.result.plan

    @property
    def devices(self) -> int:
        """Of all replicas."""
        return self.tensor * self.pipeline * self.replicas

    @property
    def sequences(self) -> int:
        """In flight, in all replicas."""
        return self.micro_batch * self.pipeline * self.replicas

    @property
    def tokens_per_s(self) -> float:
        """Of all replicas."""
        return self.sequences / self.token_s

    @property
    def tokens_per_s_per_device(self) -> float:
        return self.tokens_per_s / self.devices


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """Those that no other beats: more tokens a second at no more time per token. By time per token, ascending."""
    front: list[Point] = []
    for point in sorted(points, key=lambda one: (one.token_s, -one.tokens_per_s, one.first_token_s)):
        if not front or point.tokens_per_s > front[-1].tokens_per_s:
            front.append(point)
    return front


def best_within(points: Sequence[Point], limit_s: float | None) -> Point | None:
    """The largest throughput, of those within a limit on time per token where there is one; None if there is none."""
    within = [one for one in points if limit_s is None or one.token_s <= limit_s]
    return max(within, key=lambda one: (one.tokens_per_s, -one.token_s), default=None)
