"""A question to a planner: which graph, on which cluster, at what costs, for which objective."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidProblem, printable
from solvers.kernels.arrays import Floats, Ints
from solvers.problem.cluster import ONCE, Cluster, Device, Link, Repeats
from solvers.problem.engine import EngineCosts
from solvers.problem.graph import OpGraph, per_graph, without_checkpoints
from solvers.problem.names import clean_names
from solvers.problem.training import ZERO_STAGES, ByKind, Copies, copies
from solvers.problem.training import Optimizer as Optimizer
from solvers.problem.training import Precision as Precision


class Objective(StrEnum):
    """What to minimise.

    MAX_LOAD: seconds per sample of the busiest device in steady state (with the GPIPE pipeline: of
    the busiest in the forward pass plus the busiest in the backward pass). MAKESPAN: seconds for one
    pass of ``mini_batch`` samples, unsplit. ITERATION: seconds for ``mini_batch`` samples in
    micro-batches, with flush and update.
    """

    MAX_LOAD = "max-load"
    MAKESPAN = "makespan"
    ITERATION = "iteration"


class Contiguity(StrEnum):
    """Which sets of operators a device may hold (see the docs: "contiguous" means two things).

    ACYCLIC: the devices' sets form a chain of downsets, so their quotient is acyclic.
    CONVEX: no path leaves a set and comes back. NONE: any set.
    """

    ACYCLIC = "acyclic"
    CONVEX = "convex"
    NONE = "none"


class Transfers(StrEnum):
    """How transfers and compute share a device.

    BLOCKING: sender and receiver are each busy for the transfer (the published max-load model).
    LANE: one transfer lane a device beside compute. DUPLEX: one lane a direction.
    LINKS: links are exclusive resources and devices are free; max-load, which is a quantity per
    device, is then computed under BLOCKING.
    """

    BLOCKING = "blocking"
    LANE = "lane"
    DUPLEX = "duplex"
    LINKS = "links"


class Execution(StrEnum):
    """How one unsplit pass runs.

    OPERATOR: an operator starts when its inputs are there. CALL: a stage on an accelerator is one
    call that starts when all its inputs are there and gives its outputs at its end.
    """

    OPERATOR = "operator"
    CALL = "call"


class Pipeline(StrEnum):
    """The order in which a device takes its micro-batches.

    GPIPE: all forwards, then all backwards (Huang et al., NeurIPS 2019). ONE_F_ONE_B: as many forwards
    as stages follow, then backwards and forwards in turn (PipeDream, SOSP 2019; on a DAG of stages,
    GraphPipe, ASPLOS 2025), as launchers run it. K_F_K_B: the same where planners may run several forwards in
    a row (kFkB, GraphPipe) and keep more micro-batches in flight than that, where it pays. INTERLEAVED: the
    same where a device may run several stages, which are contiguous each by itself (Narayanan et al., SC 2021).
    ZERO_BUBBLE: gradients of parameters wait until a device would idle (Qi et al., ICLR 2024). PLANNER: whatever
    the planner finds best.

    Two stages a device in a V, the second on the way back, with I and W apart: ZB_V (Qi et al., ICLR 2024), which holds
    what 1F1B's first device does, V_HALF and V_MIN, which hold about half and a third of that (Qi et al., NeurIPS
    2024), DUAL_PIPE_V. DUAL_PIPE: two copies of the parameters, which go through the devices in opposite directions
    (DeepSeek-V3, 2024). LOOPED_BFS: several stages a device, all micro-batches on one before the next (Lamy-Poirier,
    MLSys 2023).
    """

    PLANNER = "planner"
    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    K_F_K_B = "kfkb"
    INTERLEAVED = "interleaved"
    ZERO_BUBBLE = "zero-bubble"
    ZB_V = "zb-v"
    V_HALF = "v-half"
    V_MIN = "v-min"
    DUAL_PIPE = "dualpipe"
    DUAL_PIPE_V = "dualpipe-v"
    LOOPED_BFS = "looped-bfs"


IN_A_V = (Pipeline.ZB_V, Pipeline.V_HALF, Pipeline.V_MIN, Pipeline.DUAL_PIPE_V)
"""Those that place two stages a device in a V."""
LEFT_OPEN = (Pipeline.ZERO_BUBBLE, Pipeline.PLANNER)
"""Those whose planners choose how many stages a device has, and in which order they run."""
IN_TURN = (Pipeline.INTERLEAVED, Pipeline.LOOPED_BFS)
"""Those that deal stages out to the devices in turn."""
SEVERAL_STAGES = (*IN_A_V, Pipeline.DUAL_PIPE, *IN_TURN)
"""Those that are named for devices with several stages."""
IN_PARTS = (*IN_A_V, *LEFT_OPEN, Pipeline.DUAL_PIPE)
"""Those that run I and W in place of B."""


class Origin(IntEnum):
    """Where the time of an operator at a batch size is from, the surest first.

    MEASURED: this very work, timed on that hardware. INTERPOLATED: from measured work of the same class at sizes
    about it. ESTIMATED: from a model of the hardware, or from measured work of other sizes altogether.
    """

    MEASURED = 0
    INTERPOLATED = 1
    ESTIMATED = 2


Origins = NDArray[np.uint8]
"""Values of `Origin`."""


@dataclass(frozen=True, eq=False)
class ComputeTable:
    """Seconds of every operator per device kind, at some batch sizes, linear in between.

    samples: ascending batch sizes, [points]. seconds: kind -> array [operators, points]; inf means
    "cannot run on that kind". A table with one point scales in proportion to the samples. origins: kind -> array
    [operators, points] of `Origin`, for kinds whose times are not all of one origin.
    """

    samples: tuple[int, ...]
    seconds: Mapping[str, Floats]
    origins: Mapping[str, Origins] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("seconds", "origins"):
            object.__setattr__(self, name, {printable(kind): table for kind, table in getattr(self, name).items()})
        if not self.samples or list(self.samples) != sorted(set(self.samples)) or self.samples[0] < 1:
            raise InvalidProblem(f"cost table: batch sizes must ascend from 1 up, found {self.samples}")
        for kind, table in self.seconds.items():
            if table.ndim != 2 or table.shape[1] != len(self.samples):
                raise InvalidProblem(
                    f"cost table for {kind}: expected shape [operators, {len(self.samples)}], found {table.shape}"
                )
            if np.isnan(table).any() or (table < 0).any():
                row = int(np.argwhere(np.isnan(table) | (table < 0))[0][0])
                raise InvalidProblem(f"cost table for {kind}: operator {row} has a negative time or NaN")
        for kind, origins in self.origins.items():
            if kind not in self.seconds or origins.shape != self.seconds[kind].shape:
                raise InvalidProblem(f"cost table for {kind}: there must be an origin for every time")
            if (origins > Origin.ESTIMATED).any():
                raise InvalidProblem(f"cost table for {kind}: an origin is at most {int(Origin.ESTIMATED)}")

    def at(self, kind: str, samples: float) -> Floats:
        """Seconds of every operator on a device of ``kind`` for ``samples``, shape [operators]."""
        table = self._table(kind)
        points = self.samples
        if len(points) == 1:
            return np.asarray(table[:, 0] * (samples / points[0]))
        right = min(max(bisect_left(points, samples), 1), len(points) - 1)
        left = right - 1
        weight = (samples - points[left]) / (points[right] - points[left])
        with np.errstate(invalid="ignore"):
            mixed = table[:, left] + weight * (table[:, right] - table[:, left])
        return np.where(np.isinf(table[:, left]), np.inf, np.maximum(mixed, 0.0))

    def at_each(self, kind: str, samples: Floats) -> Floats:
        """`at` for several numbers of samples, shape [operators, len(samples)]."""
        table, points = self._table(kind), np.array(self.samples)
        if len(points) == 1:
            return np.asarray(table * (samples / points[0]))
        right = np.clip(np.searchsorted(points, samples), 1, len(points) - 1)
        left = right - 1
        weight = (samples - points[left]) / (points[right] - points[left])
        below = table[:, left]
        with np.errstate(invalid="ignore"):
            mixed = below + weight * (table[:, right] - below)
        return np.where(np.isinf(below), np.inf, np.maximum(mixed, 0.0))

    def origin_at(self, kind: str, samples: float) -> Origins | None:
        """The `Origin` of every operator's time in `at`, shape [operators]; None where all have the same.

        Between two batch sizes of the table, and beyond them, only what takes equally long at both is measured.
        """
        if kind not in self.origins:
            return None
        table, points = self.origins[kind], self.samples
        if samples in points:
            return table[:, points.index(int(samples))]
        right = min(max(bisect_left(points, samples), 1), len(points) - 1)
        about = [right - 1, right] if len(points) > 1 else [0, 0]
        ends, seconds = table[:, about], self.seconds[kind][:, about]
        least = np.where((seconds[:, 0] == seconds[:, 1]) & (len(points) > 1), Origin.MEASURED, Origin.INTERPOLATED)
        return np.asarray(np.maximum(ends.max(axis=1), least.astype(np.uint8)))

    def _table(self, kind: str) -> Floats:
        if kind not in self.seconds:
            known = ", ".join(sorted(self.seconds))
            raise InvalidProblem(f"no compute times for device kind {kind!r}; there are times for: {known}")
        return self.seconds[kind]


@dataclass(frozen=True, eq=False)
class Plain:
    """A graph and its times as they are where no region runs again."""

    graph: OpGraph
    compute: ComputeTable


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Everything a plan is judged by. Raises InvalidProblem if the parts do not fit together.

    compute: see ComputeTable. transfer_s: seconds per sample of each tensor between any two
    devices, or None (then from the links). stated_bytes: memory of each operator as a workload
    states it (then nothing else is counted), or None (then parameters, gradients, optimizer
    states, saved activations, workspace and receive buffers are counted).
    mini_batch: samples per iteration. micro_batches: how many it is split into, or None (a planner
    sweeps powers of two). zero: the stage of ZeRO, which shards what
    replicas hold of parameters in training (0: each holds all). max_replicas: on how many devices a stage may be
    replicated. recompute:
    whether a stage may run its forward again in place of keeping activations. recompute_operators: whether a plan says
    of which operators that is true, stage by stage (`Stage.regions`); then the graph asked about has no regions.
    host_links: of each kind of device the
    bytes per second, each way, between a device and its host's memory, where stages may offload what they save to it;
    without any, none may. state_links: the same for masters and optimizer states, which are in the host's memory and
    come for the update (`solvers.problem.gradient_room.states_on_hosts`); without any, they stay. mixed_micro_batches:
    whether stages may differ in the size of their micro-batches.
    subgraphs_per_device: in a single pass of calls (`is_latency`), how many stages an accelerator may
    have; None is any number. pins: operator position -> device.
    costs_from: a label for people: where the compute times come from. plain: where regions of the graph run again,
    the graph and the times without that, `graph` and `compute` being what they make of them
    (`solvers.problem.regions`); None where nothing does. engine: what running a plan takes beside that, where it was
    measured; no objective counts it (see `EngineCosts`). repeats: of a question about a part of a cluster, how often
    its plan is done at once. copy_tied: whether `graph` has a copy of each tied parameter
    at every operator that reads it (`solvers.problem.tied`), which `plain` has not. group_link: what joins members of
    tensor-parallel groups, where devices are such; what they exchange over it is in the compute times already.
    group_sum_link: that of their all-reduces, where it is another. outer_link: what joins a member to its counterpart
    in the next inner group, where groups divide a model along two axes.
    """

    graph: OpGraph
    cluster: Cluster
    compute: ComputeTable
    objective: Objective = Objective.ITERATION
    contiguity: Contiguity = Contiguity.ACYCLIC
    transfers: Transfers = Transfers.LINKS
    execution: Execution = Execution.OPERATOR
    pipeline: Pipeline = Pipeline.K_F_K_B
    transfer_s: tuple[float, ...] | None = None
    stated_bytes: tuple[float, ...] | None = None
    mini_batch: int = 1
    micro_batches: int | None = 1
    training: bool = True
    optimizer: Optimizer = Optimizer.ADAM
    precision: Precision = Precision.PURE
    zero: int = 0
    max_replicas: int = 1
    recompute: bool = False
    recompute_operators: bool = False
    mixed_micro_batches: bool = False
    subgraphs_per_device: int | None = None
    pins: Mapping[int, int] = field(default_factory=dict)
    costs_from: str = "given"
    plain: Plain | None = None
    engine: EngineCosts | None = None
    copy_tied: bool = False
    repeats: Repeats = ONCE
    group_link: Link | None = None
    group_sum_link: Link | None = None
    outer_link: Link | None = None
    host_links: Mapping[str, float] = field(default_factory=dict)
    state_links: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clean_names(self, "costs_from")
        operators, devices = len(self.graph), len(self.cluster)
        for kind in {device.kind for device in self.cluster.devices}:
            if kind not in self.compute.seconds:
                raise InvalidProblem(f"no compute times for device kind {kind!r}")
            rows = self.compute.seconds[kind].shape[0]
            if rows != operators:
                raise InvalidProblem(f"compute times for {kind!r}: expected {operators} operators, found {rows}")
        if self.transfer_s is not None:
            self._check_list("transfer_s", self.transfer_s, len(self.graph.tensors))
            for group in self.graph.messages:
                if len({self.transfer_s[t] for t in group}) > 1:
                    raise InvalidProblem(
                        f"transfer_s: tensors {', '.join(map(str, group))} are one sum group and travel as one"
                        " message, so they must take the same time"
                    )
        if self.stated_bytes is not None:
            self._check_list("stated_bytes", self.stated_bytes, operators)
        if self.mini_batch < 1:
            raise InvalidProblem(f"mini_batch must be at least 1 sample, found {self.mini_batch}")
        if self.micro_batches is not None and (self.micro_batches < 1 or self.mini_batch % self.micro_batches != 0):
            raise InvalidProblem(
                f"micro_batches must divide the mini-batch of {self.mini_batch} samples, found {self.micro_batches}"
            )
        if (self.mini_batch // (self.micro_batches or 1)) % self.graph.sample_step:
            raise InvalidProblem(
                f"groups of {self.graph.sample_step} devices divide the samples of a micro-batch, so give it a"
                f" multiple of that: found {self.mini_batch // (self.micro_batches or 1)}"
            )
        if self.zero not in ZERO_STAGES:
            raise InvalidProblem(f"zero must be 0 (none) or a stage of ZeRO, 1, 2 or 3, found {self.zero}")
        if self.max_replicas < 1:
            raise InvalidProblem(f"max_replicas must be at least 1, found {self.max_replicas}")
        if self.subgraphs_per_device is not None and self.subgraphs_per_device < 1:
            raise InvalidProblem(f"subgraphs_per_device must be at least 1 or None, found {self.subgraphs_per_device}")
        if self.recompute_operators and not self.iterates_counted:
            raise InvalidProblem("recompute_operators is of training in micro-batches with sizes that are counted")
        for name in ("host_links", "state_links"):
            for kind, speed in getattr(self, name).items():
                if not 0 < speed < math.inf:
                    raise InvalidProblem(f"{name}: {kind} must have more than 0 bytes/s, found {speed}")
        for operator, device in self.pins.items():
            if not 0 <= operator < operators:
                raise InvalidProblem(f"pin: there is no operator {operator} (there are {operators})")
            if not 0 <= device < devices:
                name = self.graph.operators[operator].name
                raise InvalidProblem(f"pin {name}={device}: there is no device {device} (there are {devices})")

    def __repr__(self) -> str:
        choices = ", ".join((self.objective, self.contiguity, self.pipeline))
        return f"Problem({choices}, mini-batch {self.mini_batch:,}, {self.graph!r}, {self.cluster!r})"

    @staticmethod
    def _check_list(what: str, values: tuple[float, ...], expected: int) -> None:
        if len(values) != expected:
            raise InvalidProblem(f"{what}: expected {expected} values, found {len(values)}")
        for position, value in enumerate(values):
            if not math.isfinite(value) or value < 0:
                raise InvalidProblem(f"{what}[{position}] must be a finite number >= 0, found {value}")

    @property
    def iterates_counted(self) -> bool:
        """Whether what is saved is counted, micro-batch by micro-batch: training in iterations, no stated sizes."""
        return self.objective is Objective.ITERATION and self.has_backward() and self.stated_bytes is None

    def no_offload(self, devices: Iterable[int]) -> str:
        """Why a stage on ``devices`` may not offload what it saves, as the end of a sentence; "" if it may."""
        if not self.host_links:
            return "which is not allowed"
        if not self.iterates_counted:
            return "which is of training in micro-batches with sizes that are counted"
        for device in devices:
            spec = self.cluster.devices[device]
            if spec.kind not in self.host_links or spec.concurrency != 1:
                return f"to which device {device} has no link"
        return ""

    def links_on(self, links: Mapping[str, float], devices: Sequence[Device]) -> dict[str, float]:
        """``links`` to hosts where ``devices``, in their order, are of other kinds; of one kind the slowest."""
        slowest: dict[str, float] = {}
        for old, new in zip(self.cluster.devices, devices, strict=True):
            if old.kind in links:
                slowest[new.kind] = min(slowest.get(new.kind, math.inf), links[old.kind])
        return slowest

    @property
    def is_latency(self) -> bool:
        """Whether one pass of calls is asked for: the latency model of Tarnawski et al. 2020, section 6."""
        return self.objective is Objective.MAKESPAN and self.execution is Execution.CALL

    def per_sample_s(self, objective_s: float) -> float:
        """An objective for one sample of the mini-batch; a max-load is that already."""
        return objective_s if self.objective is Objective.MAX_LOAD else objective_s / self.mini_batch

    @property
    def as_traced(self) -> Plain:
        """The graph and the times as they were traced, whatever runs again; without regions that a plan states."""
        plain = self.plain or Plain(self.graph, self.compute)
        return (
            replace(plain, graph=without_checkpoints(plain.graph)) if self.recompute_operators and self.plain else plain
        )

    @property
    def transfers_alike(self) -> bool:
        """Whether a tensor takes as long between any two devices as between any other two that are linked."""
        speeds = {(link.bandwidth_bytes_per_s, link.latency_s) for link in self.cluster.speeds}
        return self.transfer_s is not None or len(speeds) <= 1

    @property
    def copies(self) -> Copies:
        """What is held of trained parameters beside themselves: nothing in inference. Frozen ones are held once."""
        if not self.training:
            return Copies()
        held = copies(self.optimizer, self.precision, self.zero)
        return held.on_host() if self.state_links else held

    def reduced_bytes(self, samples: float) -> Floats:
        """Bytes of gradients that replicas all-reduce once a mini-batch, [operators].

        What they exchange of parameters (ZeRO) is counted as such bytes: see `Copies.reduced`.

        samples: of a micro-batch of a replica.
        """
        trained, frozen = _held_sizes(self.graph)[:2]
        return self.copies.reduced(trained, frozen, np.full(len(trained), self.mini_batch / samples))

    def exchanged_bytes(self, samples: float) -> Floats:
        """The part of `reduced_bytes` that is exchanged after the last backward, [operators]: `Copies.exchanged`."""
        trained, frozen = _held_sizes(self.graph)[:2]
        return self.copies.exchanged(trained, frozen, np.full(len(trained), self.mini_batch / samples))

    def can_share(self, micro_batch_size: int, replicas: int) -> bool:
        """Whether so many replicas can share every micro-batch equally: a sample cannot be split.

        Where times are stated per sample alone, a "sample" stands for any number of them.
        """
        return micro_batch_size % (replicas * self.graph.sample_step) == 0 or len(self.compute.samples) == 1

    def degrees(self) -> Ints:
        """Numbers of devices that may share an operator, ascending.

        Where plans have micro-batches of given sizes, those that can share one of these.
        """
        every = np.arange(1, min(self.max_replicas, len(self.cluster)) + 1)
        if self.objective is Objective.MAKESPAN or len(self.compute.samples) == 1:
            return every
        sizes = [self.mini_batch // count for count in self.stage_choices()]
        return np.asarray(every[np.any([size % (every * self.graph.sample_step) == 0 for size in sizes], axis=0)])

    @property
    def sizes_alike(self) -> bool:
        """Whether all stages of a plan have micro-batches of one size."""
        return not self.mixed_micro_batches or len(self.stage_choices()) == 1

    def static_bytes(self, replicas: int = 1) -> Floats:
        """Bytes each operator holds on its device all the time, shape [operators].

        replicas: how many share the operator; with ZeRO they share these bytes. With ZeRO-3 `gathered_bytes` of one
            operator come on top.
        """
        if self.stated_bytes is not None:
            return np.asarray(self.stated_bytes, dtype=np.float64)
        return self.held_by_kind(replicas).total()

    def gathered_bytes(self, replicas: int) -> Floats:
        """Bytes of parameters that the other replicas hold, [operators]; 0 without ZeRO-3, and where sizes are stated.

        A stage has room for those of one operator at a time, the largest.
        """
        return self.copies.gathered(_held_sizes(self.graph)[5], replicas) * (self.stated_bytes is None)

    def held_by_kind(self, replicas: int = 1) -> ByKind:
        """Bytes each operator holds on its device all the time, by kind; counted sizes, not stated ones."""
        trained, frozen, factorable, buffers, gradient_sums, _ = _held_sizes(self.graph)
        return self.copies.by_kind(trained, frozen, factorable, buffers, gradient_sums, replicas)

    def tensor_s(self, tensor: int, samples: float, src: int, dst: int) -> float:
        """Seconds to move one tensor for ``samples`` from device ``src`` to ``dst``."""
        if src == dst:
            return 0.0
        if self.transfer_s is not None:
            return self.transfer_s[tensor] * samples
        nbytes = self.graph.tensors[tensor].nbytes.at(samples)
        return self.cluster.transfer_s(nbytes, src, dst) if nbytes > 0 else 0.0

    def micro_batch_choices(self) -> tuple[int, ...]:
        """Numbers of micro-batches a planner may use: the given one, or powers of two that divide.

        Where members of groups divide samples, none that leave a member without one.
        """
        if self.micro_batches is not None:
            return (self.micro_batches,)
        choices = []
        count = 1
        while count <= self.mini_batch and self.mini_batch % (count * self.graph.sample_step) == 0:
            choices.append(count)
            count *= 2
        return tuple(choices)

    def stage_choices(self) -> tuple[int, ...]:
        """Numbers of micro-batches a stage may have, ascending.

        With mixed micro-batches, fewer too where every replica takes whole ones.
        """
        counts = set(self.micro_batch_choices())
        if self.mixed_micro_batches:
            most = min(self.max_replicas, len(self.cluster))
            counts |= {count // r for count in counts for r in range(2, most + 1) if count % r == 0}
        return tuple(sorted(counts))

    def allows_size(self, samples: int) -> bool:
        """Whether a stage may have micro-batches of so many samples: whether their number is of `stage_choices`."""
        most = min(self.max_replicas, len(self.cluster)) if self.mixed_micro_batches else 1
        whole = [self.mini_batch // count for count in self.micro_batch_choices()]
        return any(samples % each == 0 and samples // each <= most for each in whole) and self.mini_batch % samples == 0

    @property
    def whole_backwards(self) -> bool:
        """Whether the pipeline asked for runs the whole backward of a stage as one action."""
        return self.pipeline not in IN_PARTS

    @property
    def by_stage(self) -> bool:
        """Whether a device may run several stages, so that contiguity is asked of each stage by itself."""
        left_open = self.pipeline in LEFT_OPEN and self.objective is Objective.ITERATION
        return left_open or self.pipeline in SEVERAL_STAGES

    @property
    def alternates(self) -> bool:
        """Whether forwards and backwards take turns on a device, in 1F1B or a kind of it."""
        return self.pipeline in (Pipeline.ONE_F_ONE_B, Pipeline.K_F_K_B)

    @property
    def may_run_ahead(self) -> bool:
        """Whether a stage may keep more micro-batches in flight than 1F1B does, or run several in a row."""
        return self.has_backward() and self.pipeline not in (Pipeline.GPIPE, Pipeline.ONE_F_ONE_B)

    def has_backward(self) -> bool:
        """Whether the graph is trained."""
        return self.graph.trains


@per_graph
def _held_sizes(graph: OpGraph) -> Floats:
    """Bytes by kind, [6, operators].

    Rows: trained, frozen and factorable parameters, buffers, separate sums of gradients, all parameters.
    """
    sizes = [
        (o.trained_bytes, o.frozen_bytes, o.factorable_bytes, o.buffer_bytes, o.gradient_sum_bytes, o.param_bytes)
        for o in graph.operators
    ]
    return np.array(np.array(sizes, np.float64).reshape(-1, 6).T, order="C")
