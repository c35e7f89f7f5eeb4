"""What was measured of a model on real hardware, operator by operator and link by link. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from solvers.errors import InvalidProblem
from solvers.formats.cluster_json import MAX_OPERATORS
from solvers.formats.records import Within, among, read_record
from solvers.problem.engine import EngineCosts

MAX_COUNTS = 64
"""Sample counts, and message sizes, of one file."""
MAX_RANKS = 1024

Count = Annotated[int, Within(1)]
Counts = Annotated[tuple[Count, ...], Within(most=MAX_COUNTS)]
PerCount = Annotated[tuple[float, ...], Within(most=MAX_COUNTS)]


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """One operator at each of the profile's sample counts.

    seconds: the lower quartile over repetitions of the whole graph (see `attribution.CALM`), the mean over
    ranks. spread: how much longer the median repetition took, as a share of ``seconds``.
    """

    name: str
    seconds: PerCount
    spread: PerCount


@dataclass(frozen=True, slots=True)
class WholeTimes:
    """The whole graph at one sample count, timed without the instrument, beside the sum of its operators.

    forward_s, backward_s: lower quartiles over repetitions, the mean over ranks.
    alone_s: forward and backward in one process while the others waited; None if there was but one process.
    """

    samples: Count
    forward_s: float
    backward_s: float
    operators_forward_s: float
    operators_backward_s: float
    alone_s: float | None = None

    @property
    def residual(self) -> float:
        """How much longer the operators together are than the whole graph, as a share of it."""
        whole = self.forward_s + self.backward_s
        return (self.operators_forward_s + self.operators_backward_s - whole) / whole if whole > 0 else 0.0

    @property
    def slowdown(self) -> float | None:
        """Time with all processes at work over the time of one alone."""
        return (self.forward_s + self.backward_s) / self.alone_s if self.alone_s else None


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """Messages from one rank to another: the best seconds one way at each size, and the line through them
    (see `link_times.fit`)."""

    src: Annotated[int, Within(0, MAX_RANKS)]
    dst: Annotated[int, Within(0, MAX_RANKS)]
    nbytes: Counts
    seconds: PerCount
    latency_s: float
    bandwidth_bytes_per_s: float


COLLECTIVES = ("all_reduce", "reduce_scatter")
"""Those that are measured; others send and wait as the second does, of which a member sends as much."""


@dataclass(frozen=True, slots=True)
class CollectiveTimes:
    """A collective among so many ranks of a host: the best seconds for whole tensors of each size, and the line through
    them (see `collective_times.fit`). latency_s: of each step round a ring; bandwidth_bytes_per_s: of what a rank
    sends."""

    kind: Annotated[str, among(*COLLECTIVES)]
    members: Count
    nbytes: Counts
    seconds: PerCount
    latency_s: float
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """What the engine itself took: fitted to runs of scripts whose segments do next to nothing.

    residual: the root mean square of what the fit is off, as a share of what was measured; measurements: how many
    it was fitted to; clock: what they were timed with.
    """

    costs: EngineCosts
    residual: float
    measurements: int
    clock: str


@dataclass(frozen=True, slots=True)
class Profile:
    """Measured costs of one model. Raises InvalidProblem if the parts do not fit together.

    hardware and hosts: per rank; their number is how many processes measured at once. samples: ascending,
    at least two. operators: all but updates, in the graph's order. updates: optimizer -> operator ->
    seconds of its part of one step. step_overhead_s: what calling a segment forward and backward takes
    beside its operators. noise: of a fixed piece of work, before and after, the larger; below 0.02 is quiet.
    memory_bytes: what each rank could use. clock: what operators were timed with (see `operator_times.timer_of`).
    engine: None in files of before it was measured; collectives: none in these.
    """

    reference: str
    graph_sha256: Annotated[str, Within(most=64)]
    training: bool
    dtype: str
    hardware: Annotated[tuple[str, ...], Within(most=MAX_RANKS)]
    hosts: Annotated[tuple[str, ...], Within(most=MAX_RANKS)]
    backend: str
    torch: str
    python: str
    date: str
    threads: Count
    pinned: bool
    samples: Counts
    operators: Annotated[tuple[OperatorTimes, ...], Within(most=MAX_OPERATORS)]
    updates: Annotated[Mapping[str, Annotated[Mapping[str, float], Within(most=MAX_OPERATORS)]], Within(most=8)]
    wholes: Annotated[tuple[WholeTimes, ...], Within(most=MAX_COUNTS)]
    links: Annotated[tuple[LinkTimes, ...], Within(most=MAX_RANKS * MAX_RANKS)]
    step_overhead_s: float
    noise: float
    memory_bytes: Annotated[tuple[float, ...], Within(most=MAX_RANKS)]
    notes: Annotated[tuple[str, ...], Within(most=1_000)] = ()
    clock: str = "wall clock"
    engine: Annotated[EngineTimes | None, partial(read_record, kind=EngineTimes)] = None
    collectives: Annotated[tuple[CollectiveTimes, ...], Within(most=MAX_COUNTS)] = ()

    def __post_init__(self) -> None:
        if len(self.samples) < 2 or list(self.samples) != sorted(set(self.samples)) or self.samples[0] < 1:
            raise InvalidProblem(f"samples: expected at least two counts, ascending from 1 up, found {self.samples}")
        if not self.hardware or len(self.hosts) != len(self.hardware) or len(self.memory_bytes) != len(self.hardware):
            raise InvalidProblem("hardware, hosts and memory_bytes: expected one of each for every rank")
        if len({times.name for times in self.operators}) != len(self.operators):
            raise InvalidProblem("operators: a name occurs twice")
        for times in self.operators:
            if len(times.seconds) != len(self.samples) or len(times.spread) != len(self.samples):
                raise InvalidProblem(f"operator {times.name!r}: expected {len(self.samples)} times and spreads")
            _check_all(f"operator {times.name!r}", *times.seconds, *times.spread)
        for optimizer, seconds in self.updates.items():
            _check_all(f"updates of {optimizer}", *seconds.values())
        if tuple(whole.samples for whole in self.wholes) != self.samples:
            raise InvalidProblem("wholes: expected one for every sample count, in order")
        for link in self.links:
            if not (0 <= link.src < self.ranks and 0 <= link.dst < self.ranks and link.src != link.dst):
                raise InvalidProblem(f"link {link.src} -> {link.dst}: expected two of {self.ranks} ranks")
            if len(link.nbytes) != len(link.seconds):
                raise InvalidProblem(f"link {link.src} -> {link.dst}: expected as many seconds as sizes")
            _check_all(f"link {link.src} -> {link.dst}", link.latency_s, *link.seconds)
            if not (math.isfinite(link.bandwidth_bytes_per_s) and link.bandwidth_bytes_per_s > 0):
                raise InvalidProblem(f"link {link.src} -> {link.dst}: the bandwidth must be more than 0")
        _check_all("step_overhead_s and noise", self.step_overhead_s, self.noise)
        if self.engine is not None:
            _check_all("engine.residual", self.engine.residual)
        for size in self.memory_bytes:
            if not size > 0:
                raise InvalidProblem(f"memory_bytes must be more than 0, found {size}")

    @property
    def ranks(self) -> int:
        """How many processes measured at once."""
        return len(self.hardware)


def _check_all(where: str, *values: float) -> None:
    for value in values:
        if not (math.isfinite(value) and value >= 0):
            raise InvalidProblem(f"{where}: expected finite numbers >= 0, found {value}")
