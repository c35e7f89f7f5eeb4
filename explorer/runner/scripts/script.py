"""What every rank does in one iteration, step by step: a plan made ready to run. No torch here."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from solvers.errors import InvalidPlan
from solvers.plan.plan import NOT_COPIED


class Do(StrEnum):
    """The kind of a step. SYNC averages the gradients of replicas; UPDATE is the optimizer's step; SEND and
    RECV move activations, SEND_GRADIENT and RECV_GRADIENT what flows back over the same channel."""

    FORWARD = "F"
    BACKWARD = "B"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    SYNC = "S"
    UPDATE = "U"
    SEND = "SEND"
    RECV = "RECV"
    SEND_GRADIENT = "SEND_GRADIENT"
    RECV_GRADIENT = "RECV_GRADIENT"


MESSAGES = frozenset({Do.SEND, Do.RECV, Do.SEND_GRADIENT, Do.RECV_GRADIENT})
ONCE = frozenset({Do.SYNC, Do.UPDATE})
"""Steps that run once per mini-batch; their number is 0."""
_STEP = re.compile(r"^(\d+)(F|B|I|W|S|U|SEND_GRADIENT|RECV_GRADIENT|SEND|RECV)(\d*)$")


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One thing a rank does: "2F0" is segment 2, forward, micro-batch 0; "5SEND1" is channel 5, piece 1.

    index: the segment, or the channel of a message. number: the micro-batch, or the piece.
    """

    index: int
    do: Do
    number: int = 0

    def __str__(self) -> str:
        return f"{self.index}{self.do.value}" + ("" if self.do in ONCE else str(self.number))


def parse_step(text: str) -> Step:
    """The step that ``str(step)`` gave. Raises InvalidPlan."""
    match = _STEP.match(text)
    if match is None or (match[3] == "") != (Do(match[2]) in ONCE):
        raise InvalidPlan(f"{text!r} is not a step; expected a segment or channel, what to do, and a number: 2F0")
    return Step(int(match[1]), Do(match[2]), int(match[3] or 0))


@dataclass(frozen=True, slots=True)
class Segment:
    """Forward operators that run as one call, with their backward, on one device or a group of replicas.

    operators: positions in the graph, in the order they run. devices: of the plan's cluster.
    micro_batch_size: samples, of which every replica takes an equal share. stages: the plan's stages it was
    made of, in order; where no stages were joined, segment i is stage i. regions: of operators whose forward runs
    again before their backward, region by region: (operator, name of its region, whether what it makes is cached).
    offload: operators of which what they save goes to the host's memory.
    """

    operators: tuple[int, ...]
    devices: tuple[int, ...]
    micro_batch_size: int
    stages: tuple[int, ...]
    recompute: bool = False
    regions: tuple[tuple[int, str, bool], ...] = ()
    offload: tuple[int, ...] = ()

    @property
    def share(self) -> int:
        """Samples of a micro-batch that one replica takes."""
        return self.micro_batch_size // len(self.devices)


@dataclass(frozen=True, slots=True)
class Piece:
    """What one message of a channel carries: the samples [first, first + samples) of the mini-batch, which lie
    in one micro-batch of the source (``sent_in``) and one of the readers (``read_in``)."""

    sent_in: int
    read_in: int
    first: int
    samples: int


@dataclass(frozen=True, slots=True)
class Channel:
    """Tensors that go from one segment on one device to segments on one device, and their gradients back.

    source: a segment; readers: the segments on ``dst_device`` that read, all with equal micro-batches and
    devices. tensors: positions of forward tensors of the graph; gradient: which of them have a gradient
    that flows back, the sum over the readers; senders: the readers whose backward it comes from. Where both
    devices are one, nothing is sent: the samples are handed over.
    """

    source: int
    src_device: int
    dst_device: int
    readers: tuple[int, ...]
    tensors: tuple[int, ...]
    gradient: tuple[bool, ...]
    pieces: tuple[Piece, ...]
    senders: tuple[int, ...] = ()

    @property
    def is_local(self) -> bool:
        return self.src_device == self.dst_device


@dataclass(frozen=True, slots=True)
class Script:
    """Everything the ranks do in one iteration (or one pass) of ``mini_batch`` samples.

    devices: rank -> device of the plan's cluster, ascending. steps: per rank, in order. A message is posted
    where its step stands and never blocks there; a compute step waits for the messages that it reads.
    """

    segments: tuple[Segment, ...]
    channels: tuple[Channel, ...]
    devices: tuple[int, ...]
    steps: tuple[tuple[Step, ...], ...]
    mini_batch: int
    training: bool


Pieces = Mapping[tuple[int, int], Sequence[tuple[int, int]]]
"""(segment, its micro-batch) -> (channel, piece); of nothing where there are none."""


def pieces_of(script: Script, device: int) -> tuple[Pieces, Pieces]:
    """What the segments of a device read, and what they feed."""
    reads: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    feeds: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for c, channel in enumerate(script.channels):
        for p, piece in enumerate(channel.pieces):
            if channel.src_device == device:
                feeds[channel.source, piece.sent_in].append((c, p))
            for reader in channel.readers if channel.dst_device == device else ():
                reads[reader, piece.read_in].append((c, p))
    return reads, feeds


class HostCopies(NamedTuple):
    """What a rank copies to its host's memory and back: (segment, micro-batch), by step.

    leaves: once the step is done, which is the one after the forward. comes: before the step, which is the one before
    the backward.
    """

    leaves: Mapping[Step, tuple[int, int]]
    comes: Mapping[Step, tuple[int, int]]


def host_copies(script: Script, rank: int) -> HostCopies:
    """Those of segments that offload what they save: see `solvers.plan.plan.Stage`."""
    runs = [step for step in script.steps[rank] if step.do not in MESSAGES and step.do is not Do.SYNC]
    place = {step: position for position, step in enumerate(runs)}
    leaves, comes = {}, {}
    for step, position in place.items():
        if step.do is Do.BACKWARD and script.segments[step.index].offload:
            forward = place.get(Step(step.index, Do.FORWARD, step.number), position)
            if position - forward > NOT_COPIED:
                leaves[runs[forward + 1]] = comes[runs[position - 1]] = step.index, step.number
    return HostCopies(leaves, comes)
