"""What a launcher's file says of a run, whichever launcher it is."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from explorer.words import text
from solvers.errors import InvalidProblem
from solvers.problem.collectives import Axis
from solvers.problem.problem import Pipeline, Precision

MOST = 2**24
"""Of any number in a file. Beyond it is a typing error."""


@dataclass(frozen=True)
class Configuration:
    """A launcher's configuration of one training run.

    launcher: its name, "Megatron-LM".
    path: of the file.
    tensor, context, expert: degrees; tokens and experts are not both divided here.
    pipeline: degree; chunks: stages of each pipeline rank (virtual pipeline), at least 1.
    data: replicas of each stage, with each member of a group that divides experts; None where the file leaves it to
    the number of devices.
    micro_batch: samples of one replica in a micro-batch.
    of_replica: samples of one replica in an iteration, where the file says that of no whole iteration.
    mini_batch: samples of an iteration; None for those of every replica.
    layers: transformer layers of the model; None where the file does not say.
    counts: layers of every stage, in order; empty for an even split.
    names: modules of every stage, in order, where the file lists modules; empty where it counts layers.
    ends: what the embedding and the head each count for in an even split, in layers.
    schedule: the order of micro-batches.
    recompute: as the setting of a question takes it.
    dtype: "bf16", "fp16" or "fp32". precision: of training. zero: stage of ZeRO. optimizer: None for the default.
    sequence_parallel: whether tokens are divided between the calls that need them whole.
    world: processes of the run, where the file starts them.
    ignored: flags or keys that change a run and are not planned here.
    """

    launcher: str
    path: str
    tensor: int = 1
    context: int = 1
    expert: int = 1
    pipeline: int = 1
    chunks: int = 1
    data: int | None = None
    micro_batch: int = 1
    of_replica: int | None = None
    mini_batch: int | None = None
    layers: int | None = None
    counts: tuple[int, ...] = ()
    names: tuple[tuple[str, ...], ...] = ()
    ends: tuple[int, int] = (0, 0)
    schedule: Pipeline = Pipeline.ONE_F_ONE_B
    recompute: str = "none"
    dtype: str = "fp32"
    precision: Precision = Precision.PURE
    zero: int = 0
    optimizer: str | None = None
    sequence_parallel: bool = False
    world: int | None = None
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.context > 1 and self.expert > 1:
            raise InvalidProblem(
                f"{self.path}: context {self.context} and expert {self.expert}: a group of devices divides tokens or"
                " experts here; set one to 1, and plan with as many devices fewer"
            )

    @property
    def axes(self) -> dict[Axis, int]:
        """What the members of a group divide, over how many, the outer axis first."""
        degrees = {Axis.CONTEXT: self.context, Axis.EXPERT: self.expert, Axis.TENSOR: self.tensor}
        return {axis: degree for axis, degree in degrees.items() if degree > 1} or {Axis.TENSOR: 1}

    @property
    def members(self) -> int:
        """Devices of a group."""
        return prod(self.axes.values())

    @property
    def _group_words(self) -> str:
        return " x ".join(f"{axis.value} {degree}" for axis, degree in self.axes.items())

    @property
    def group_micro_batch(self) -> int:
        """Samples of a group in a micro-batch: where experts are divided, each member has its own."""
        return self.micro_batch * self.expert

    @property
    def stages(self) -> int:
        """Of the whole pipeline."""
        return self.pipeline * self.chunks

    def replicas(self, devices: int | None) -> int:
        """Replicas of each stage on so many devices (None: those of the file).

        Raises InvalidProblem where the degrees do not divide the devices.
        """
        group, of = self.members * self.pipeline, f"{self._group_words} x pipeline {self.pipeline}"
        if self.data is not None and self.data % self.expert:
            raise InvalidProblem(f"{self.path}: experts over {self.expert} of {text.plural(self.data, 'replica')}")
        data = None if self.data is None else self.data // self.expert
        whole = devices or self.world or group * (data or 1)
        if whole % group:
            raise InvalidProblem(
                f"{self.path}: {whole:,} devices are no multiple of {of} = {group:,}; give another --devices"
            )
        if data is not None and whole != group * data:
            raise InvalidProblem(
                f"{self.path}: {of} x data {data} are {group * data:,} devices, and there are {whole:,}; leave out"
                " --devices or give as many"
            )
        return whole // group

    def samples(self, replicas: int) -> int:
        """Of an iteration. Raises InvalidProblem where micro-batches do not divide them."""
        of_one = self.group_micro_batch * replicas
        whole = self.mini_batch or (self.of_replica or self.micro_batch) * self.expert * replicas
        if whole % of_one:
            raise InvalidProblem(
                f"{self.path}: {whole:,} samples an iteration are no multiple of micro-batches of"
                f" {self.group_micro_batch} x {text.plural(replicas, 'replica')}"
            )
        return whole

    def settings(self, devices: int | None) -> dict[str, object]:
        """Settings of `explorer.plan` that the configuration fixes, on so many devices. Raises InvalidProblem."""
        replicas = self.replicas(devices)
        settings: dict[str, object] = {
            "devices": replicas * self.members * self.pipeline,
            "mini_batch": self.samples(replicas),
            "dtype": self.dtype,
            "precision": self.precision,
            "pipeline": self.schedule,
            "max_replicas": replicas * self.pipeline,
            "recompute": self.recompute,
        }
        if replicas * self.pipeline > 1:
            settings["zero"] = self.zero
        if self.optimizer is not None:
            settings["optimizer"] = self.optimizer
        return settings

    def words(self, devices: int | None = None) -> str:
        """ "tensor 4, pipeline 8 of 2 chunks, data 2; micro-batches of 1, 128 samples; interleaved"."""
        replicas = self.replicas(devices)
        pipeline = f"pipeline {self.pipeline}" + (f" of {self.chunks} chunks" if self.chunks > 1 else "")
        parts = [f"{self._group_words}, {pipeline}, data {replicas}"]
        parts.append(f"micro-batches of {self.group_micro_batch}")
        parts.append(f"{text.plural(self.samples(replicas), 'sample')} an iteration")
        parts.append(self.schedule.value)
        if self.recompute != "none":
            parts.append(f"recomputes {self.recompute}")
        if self.zero and replicas > 1:
            parts.append(f"ZeRO-{self.zero}")
        parts.append(self.dtype + ("" if self.precision is Precision.PURE else f", {self.precision.value}"))
        return ", ".join(parts)


def whole_number(path: str, name: str, value: object, least: int = 1) -> int:
    """A number of a file. Raises InvalidProblem, with the name, for anything else."""
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str) and value.lstrip("-").isascii() and value.lstrip("-")[:12].isdigit() and len(value) < 13:
        number = int(value) if value.count("-") <= (value[:1] == "-") else None
    if number is None or not least <= number <= MOST:
        raise InvalidProblem(
            f"{path}: {name} must be a whole number from {least} to {MOST:,}, found {str(value)[:40]!r}"
        )
    return number


def even_counts(path: str, layers: int, stages: int, ends: tuple[int, int]) -> list[int]:
    """Layers of every stage where a launcher divides them evenly, the first stages one more.

    ends: what stands before the first layer and after the last counts for, in layers. Raises InvalidProblem where a
    stage would have none.
    """
    each, more = divmod(layers + sum(ends), stages)
    counts = [each + (stage < more) for stage in range(stages)]
    counts[0] -= ends[0]
    counts[-1] -= ends[1]
    if min(counts) < 0 or each == 0:
        raise InvalidProblem(f"{path}: {text.plural(layers, 'layer')} cannot be divided into {stages} stages")
    return counts
