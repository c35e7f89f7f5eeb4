"""What a comparison of a run with its prediction holds."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.costs.interval import Interval
from explorer.runner.bundles.outcome import Agreement, Environment, noise_word
from solvers.plan.schedule import Schedule
from solvers.problem.problem import Objective


@dataclass(frozen=True, slots=True)
class MeasuredSpan:
    """One action of one device in the iteration that is drawn.

    action: "2F0", of the segment; stages: those of the plan that it joins. kind: F, B, I, W, U, or S for the
    all-reduce of replicas. micro_batch: -1 for S and U. start_s, end_s: from the start of the iteration;
    wait_s: spent waiting for messages just before start_s. predicted_s: how long the plan's actions of the
    same kind take in the prediction, None where it has none.
    """

    action: str
    segment: int
    stages: tuple[int, ...]
    kind: str
    micro_batch: int
    device: int
    start_s: float
    end_s: float
    wait_s: float
    predicted_s: float | None


@dataclass(frozen=True, slots=True)
class SegmentError:
    """One kind of action of one segment: seconds of one action, the mean over micro-batches and replicas.

    kind: as measured. predicted_s: None where the plan has no such action.
    """

    segment: int
    stages: tuple[int, ...]
    devices: tuple[int, ...]
    kind: str
    measured_s: float
    predicted_s: float | None

    @property
    def ratio(self) -> float | None:
        """measured / predicted; None without a prediction above 0."""
        return self.measured_s / self.predicted_s if self.predicted_s else None


@dataclass(frozen=True, slots=True)
class OperatorError:
    """One operator: seconds of one replica's share of a micro-batch (of the mini-batch, for an update), the mean
    over its devices; runs: how often per iteration. profiled: whether it was measured by itself; else its
    share of its segment's actions is shown, so that all operators of a segment and phase have one ratio."""

    predicted_s: float
    measured_s: float
    runs: int
    profiled: bool

    @property
    def ratio(self) -> float | None:
        """measured / predicted; None without a prediction above 0."""
        return self.measured_s / self.predicted_s if self.predicted_s else None


@dataclass(frozen=True, slots=True)
class LinkError:
    """One link that messages went over.

    messages: of one iteration; waited: how many in all iterations the reader had to wait for, so that their time
    is known. measured_s and predicted_s: of these, the median, None where there are none. latency_s and
    bandwidth_bytes_per_s: as measured; how: "fitted", "ratio" (too few sizes: both as the median message),
    "all-reduce" (only replicas used it), or "" where nothing was measured and the problem's own are kept.
    """

    src: int
    dst: int
    messages: float
    waited: int
    nbytes: float
    measured_s: float | None
    predicted_s: float | None
    latency_s: float
    bandwidth_bytes_per_s: float
    how: str


@dataclass(frozen=True, slots=True)
class PartError:
    """Bytes of one kind at a device's peak: "parameters", "gradients", "optimizer states" or all else."""

    name: str
    predicted_bytes: float
    measured_bytes: float


@dataclass(frozen=True, slots=True)
class DeviceError:
    """One device that ran: seconds of compute in an iteration, of waiting for messages, and bytes at its peak. parts:
    what the peak is made of, as predicted and as measured, empty where nobody measured that."""

    device: int
    rank: int
    busy_predicted_s: float
    busy_measured_s: float
    wait_s: float
    peak_predicted_bytes: float
    peak_measured_bytes: float | None
    parts: tuple[PartError, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A run beside its prediction.

    objective: ITERATION or MAKESPAN, whichever ran. predicted_s: P0, of the problem's own costs; within: between which
    times that may lie where it is estimated (`costs.interval`); operators_fed_s: P1, with the measured time of every
    action; fed_s: P2, with the measured links as well; measured_s: M, the median of iterations_s.
    predicted and fed: the schedules of P0 and P2; spans: the measured iteration whose length is nearest to the median,
    drawn_s long. operators: by position, None where nothing was measured.
    fed_each_error: the median over iterations of (P - M) / M where each is simulated with its own times: what
    the simulator is off where noise between iterations is left out. noise: as in `Outcome`. notes: what a reader
    must know before believing the numbers.
    """

    objective: Objective
    predicted_s: float
    within: Interval | None
    operators_fed_s: float
    fed_s: float
    measured_s: float
    iterations_s: tuple[float, ...]
    predicted: Schedule
    fed: Schedule
    spans: tuple[MeasuredSpan, ...]
    drawn_s: float
    segments: tuple[SegmentError, ...]
    operators: tuple[OperatorError | None, ...]
    links: tuple[LinkError, ...]
    devices: tuple[DeviceError, ...]
    bubble_predicted: float
    bubble_measured: float
    fed_each_error: float
    agreement: Agreement | None = None
    noise: float | None = None
    environment: Environment | None = None
    losses: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def operators_error_s(self) -> float:
        """What wrong compute times cost: P1 - P0."""
        return self.operators_fed_s - self.predicted_s

    @property
    def links_error_s(self) -> float:
        """What wrong links cost: P2 - P1."""
        return self.fed_s - self.operators_fed_s

    @property
    def schedule_error_s(self) -> float:
        """What the schedule model does not know: M - P2."""
        return self.measured_s - self.fed_s

    @property
    def total_error_s(self) -> float:
        """M - P0: the three errors added up."""
        return self.measured_s - self.predicted_s

    @property
    def error(self) -> float:
        """(P0 - M) / M: below 0 where the prediction is too short."""
        return (self.predicted_s - self.measured_s) / self.measured_s

    @property
    def fed_error(self) -> float:
        """(P2 - M) / M: of the simulator alone, fed with measured times."""
        return (self.fed_s - self.measured_s) / self.measured_s

    @property
    def fastest_s(self) -> float:
        return min(self.iterations_s)

    @property
    def noise_word(self) -> str:
        return noise_word(self.noise)

    def share(self, seconds: float) -> float:
        """Of the measured time."""
        return seconds / self.measured_s
