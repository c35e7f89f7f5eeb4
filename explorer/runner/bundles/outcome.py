"""What a run brings back: times of every action on every rank, messages, memory, errors. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from explorer.costs.profile import Profile
from explorer.runner.bundles.words import Name, Words, line
from explorer.runner.scripts.script import parse_step
from solvers.errors import InvalidPlan, InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.records import STATED, Within, among, table
from solvers.problem.collectives import KINDS

MAX_RANKS = 4096
MAX_SEGMENTS = 1_000_000
MAX_ITERATIONS = 100_000
MAX_ROWS = 1_000_000
"""Actions, and messages, that one file holds; a longer run keeps those of its first iterations."""
MAX_OPERATORS = 1_000_000
MAX_NOTES = 1_000
MAX_MEMORY_PARTS = 32


def _read_step(field: Field) -> str:
    text = field.text(64)
    try:
        parse_step(text)
    except InvalidPlan as error:
        raise InvalidProblem(f"{field.where}: {error}") from None
    return text


def _read_loss(field: Field) -> float:
    return math.nan if field.is_null else field.number(-math.inf)


Rank = Annotated[int, Within(0, MAX_RANKS - 1)]
Number = Annotated[float, Within(-math.inf)]
Error = Annotated[float, Field.number_or_infinity]
StepText = Annotated[str, _read_step]
PerRank = Annotated[tuple[Annotated[str, line(300)], ...], Within(most=MAX_RANKS)]
MemoryParts = Annotated[Mapping[str, float], Within(most=MAX_MEMORY_PARTS)]
Stages = Annotated[tuple[int, ...], Within(most=MAX_SEGMENTS)]


class RunStatus(StrEnum):
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time limit"


@dataclass(frozen=True, slots=True)
class MeasuredAction:
    """One compute step of one rank in one measured iteration.

    action: "2F0", of the segment (see `Script`). start_s, end_s: on the common clock, from the start of the
    iteration, the waiting for inputs not counted in. wait_s: spent waiting for messages just before start_s.
    engine_s: the engine's own time before that, posting messages and looking up what comes next.
    """

    rank: Rank
    iteration: int
    action: StepText
    start_s: Number
    end_s: Number
    wait_s: Number = 0.0
    engine_s: Number = 0.0


@dataclass(frozen=True, slots=True)
class MeasuredMessage:
    """One message in one measured iteration: channel and piece, from one rank to another.

    sent_s: when the sender posted it; arrived_s: when the reader found it there; waited: whether the reader
    had to wait for it, so that arrived_s is the moment of arrival and not merely a later one.
    """

    channel: int
    piece: int
    src_rank: Rank
    dst_rank: Rank
    iteration: int
    action: StepText
    nbytes: int
    sent_s: Number
    arrived_s: Number
    waited: bool


@dataclass(frozen=True, slots=True)
class MeasuredExchange:
    """What the first member of a group exchanged with the others inside of an action of one measured iteration. kind:
    all_reduce, all_gather, reduce_scatter, all_to_all or ring. sent_bytes: that it sent, round a ring. start_s, end_s:
    as those of a `MeasuredAction`."""

    rank: Rank
    iteration: int
    kind: Annotated[str, among(*KINDS)]
    sent_bytes: Number
    start_s: Number
    end_s: Number


@dataclass(frozen=True, slots=True)
class Environment:
    """Where it ran. hosts and devices: per rank; devices are names of hardware. backend: "gloo" or "nccl"."""

    hosts: PerRank
    devices: PerRank
    backend: Name
    torch: Name
    python: Name
    threads: int
    date: Name
    pinned: Annotated[bool, STATED] = False


class Way(StrEnum):
    """How the model was computed that a run is compared with. WHOLE: in one piece, on one rank. STAGES: segment after
    segment, each on a rank that has it, so that none holds more parameters than in the run."""

    WHOLE = "whole"
    STAGES = "stages"


ROUNDING = {"float64": 1e-9, "float32": 1e-4}
"""Relative differences that rounding explains, by dtype. Most runs in float32 stay below 1e-5; tensors whose
gradients nearly cancel do not."""
COARSE = 0.1
"""The same of narrower dtypes, which keep two or three digits."""

QUIET, NOISY = 0.02, 0.05
"""Coefficient of variation of a fixed piece of work below which a machine is quiet, and above which it is noisy."""


def noise_word(noise: float | None) -> str:
    """ "quiet", "some noise", "noisy", or "noise unknown". noise: as in `Outcome`."""
    if noise is None:
        return "noise unknown"
    return "quiet" if noise < QUIET else "noisy" if noise > NOISY else "some noise"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the run is from the model computed in a plain loop, on the same micro-batches in order.

    loss: largest relative difference of a loss. gradient: largest over tensors of max|difference| /
    max|gradient| (of a tensor with tiny gradients: over 1e-3 of the model's largest one); parameter: the same
    of the parameters after all steps. worst: the tensor of ``gradient``.
    compared: how many parameters, on all ranks. way: how the model was computed. undefined: how many losses, gradients
    and parameters hold entries that are no finite numbers, the same ones in both; their other entries are compared.
    """

    loss: Error
    gradient: Error
    parameter: Error
    worst: Words
    dtype: Name
    compared: Annotated[int, STATED] = 0
    way: Way = Way.WHOLE
    undefined: int = 0

    @property
    def undefined_words(self) -> str:
        """What to know where values are no numbers in both, as the end of a sentence."""
        if not self.undefined:
            return ""
        return f"; {self.undefined} of the losses, gradients and parameters are no finite numbers, alike in both"

    @property
    def true_model(self) -> str:
        """What the run was compared with, in words."""
        return "the whole model" if self.way is Way.WHOLE else "the model computed stage after stage"

    @property
    def holds(self) -> bool:
        """Whether all differences are rounding; NaN never is."""
        return all(value <= self.rounding for value in (self.loss, self.gradient, self.parameter))

    @property
    def rounding(self) -> float:
        """The largest relative difference that rounding explains."""
        return ROUNDING.get(self.dtype, COARSE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run. iterations_s: seconds of each measured iteration, the longest over ranks. segments: the plan's
    stages that each segment joins; rank_devices: rank -> device of the plan. losses: one a measured
    iteration, empty if there is none. noise: coefficient of variation of a fixed piece of work, repeated
    before and after (see `noise_word`). reason: why it ended, in one line, where it was
    not DONE. culprit: the rank that caused it, or -1. peak_bytes: per rank, above what an idle rank holds.
    """

    status: RunStatus
    reason: Annotated[Words, STATED] = ""
    culprit: Annotated[int, Within(-1, MAX_RANKS - 1), STATED] = -1
    environment: Annotated[Environment | None, STATED] = None
    iterations_s: Annotated[tuple[float, ...], Within(most=MAX_ITERATIONS), STATED] = ()
    actions: Annotated[tuple[MeasuredAction, ...], table(MeasuredAction, MAX_ROWS), STATED] = ()
    messages: Annotated[tuple[MeasuredMessage, ...], table(MeasuredMessage, MAX_ROWS), STATED] = ()
    exchanges: Annotated[tuple[MeasuredExchange, ...], table(MeasuredExchange, MAX_ROWS)] = ()
    segments: Annotated[tuple[Stages, ...], Within(most=MAX_SEGMENTS)] = ()
    rank_devices: Annotated[tuple[int, ...], Within(most=MAX_RANKS)] = ()
    peak_bytes: Annotated[tuple[Number, ...], Within(most=MAX_RANKS)] = ()
    peak_parts: Annotated[tuple[MemoryParts, ...], Within(most=MAX_RANKS)] = ()
    """Per rank category -> bytes of what was there at its peak, as a memory timeline of torch.profiler has them; empty
    where there was none."""
    losses: Annotated[tuple[Annotated[float, _read_loss], ...], Within(most=MAX_ITERATIONS)] = ()
    noise: float | None = None
    agreement: Agreement | None = None
    operators_s: Annotated[Mapping[str, float], Within(most=MAX_OPERATORS)] = field(default_factory=dict)
    """Operator name -> measured seconds per micro-batch share, where the request asked for it."""
    notes: Annotated[tuple[Words, ...], Within(most=MAX_NOTES)] = ()
    profile: Profile | None = None
    """What a calibration measured."""


def judged(outcome: Outcome) -> Outcome:
    """The same, as failed where it differs from the whole model: whoever lists runs must not take it for one that is
    right. Of one that failed by its loss, whether the model in a plain loop does so too."""
    agreement = outcome.agreement
    if agreement is None:
        return outcome
    reasons = [outcome.reason] if outcome.reason else []
    if not agreement.holds:
        errors = {"losses": agreement.loss, "gradients": agreement.gradient, "parameters": agreement.parameter}
        wrong = [f"{what} by {error:.1e}" for what, error in errors.items() if not error <= agreement.rounding]
        where = f" (worst: {agreement.worst})" if agreement.worst else ""
        reasons.append(f"it differs from {agreement.true_model}, relative: {', '.join(wrong)}{where}")
    elif reasons and agreement.undefined:
        reasons.append(f"{agreement.true_model} gives the same, so it is not the plan but the model, its data or step")
    return replace(outcome, status=RunStatus.FAILED, reason="; ".join(reasons)) if reasons else outcome
