"""What a stage may run again or offload: its forward operators in segments, what each saves and takes, what must then
be kept.

Saved bytes, times and workspace are as they were traced; what becomes of them in a region is modelled as
`solvers.problem.regions` counts it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.plan import Plan
from solvers.problem.graph import BACKWARD_PHASES, OpGraph, Phase, per_graph
from solvers.problem.problem import Problem

SPACING = 4
"""A segment ends where no more bytes cross than at any place so many operators before or after; in short stages,
fewer."""
MOST_TOGETHER = 4
"""Segments that may run again as one region."""


class Span(NamedTuple):
    """Segments first to last, which may run again as one region. room_bytes: what its operators save, all of which is
    there while its backward runs. working_bytes: the largest workspace of that backward."""

    first: int
    last: int
    room_bytes: float
    working_bytes: float


class Hosting(NamedTuple):
    """What a stage may send to its host. bytes_per_s: each way. resident: (s, micro-batches), ascending: of which what
    goes there is on the device at once, if a copy takes at most so long. windows: (s, share of the micro-batches) for
    which a copy back is hidden."""

    bytes_per_s: float
    resident: tuple[tuple[float, int], ...]
    windows: tuple[tuple[float, float], ...]

    def waits_s(self, copy_s: float) -> float:
        """By how much a micro-batch takes longer, on the average, with copies of so many seconds."""
        return sum(share * max(0.0, copy_s - seconds) for seconds, share in self.windows)


class Crossing(NamedTuple):
    """A tensor that regions may have to keep. producer: its place in the stage, -1 outside. readers: places in the
    stage of the forward operators that read it. outside: whether others do, too. saver: the place in the stage of the
    operator among whose saved bytes it is; -1 if that is outside, or nobody says."""

    tensor: int
    nbytes: float
    producer: int
    readers: tuple[int, ...]
    outside: bool
    saver: int


@dataclass(frozen=True)
class Choices:
    """Of a stage: its forward operators that may run again, in the order in which they run, one entry each.

    in_flight: micro-batches whose activations it holds. hosting: None where nothing may be offloaded.
    """

    in_flight: int
    operators: tuple[int, ...]
    segment: tuple[int, ...]
    """of each operator"""
    seconds: Floats
    saved_bytes: Floats
    forward_working: Floats
    """workspace in bytes, of a forward"""
    backward_working: Floats
    """of the largest of its backwards, where it runs in no region"""
    spans: tuple[Span, ...]
    crossings: tuple[Crossing, ...]
    hosting: Hosting | None = None

    @property
    def all_saved_bytes(self) -> float:
        """What a micro-batch keeps where nothing runs again."""
        return float(self.saved_bytes.sum())

    def inside(self, span: Span) -> list[int]:
        """The places of the operators of a span."""
        return [at for segment in range(span.first, span.last + 1) for at in self._members[segment]]

    def touching(self, span: Span) -> list[int]:
        """Numbers of the tensors that a span makes or reads."""
        return sorted({number for segment in range(span.first, span.last + 1) for number in self._near[segment]})

    @cached_property
    def _members(self) -> list[list[int]]:
        members: list[list[int]] = [[] for _ in range(max(self.segment, default=-1) + 1)]
        for at, segment in enumerate(self.segment):
            members[segment].append(at)
        return members

    @cached_property
    def _near(self) -> list[list[int]]:
        near: list[list[int]] = [[] for _ in self._members]
        for number, crossing in enumerate(self.crossings):
            ends = crossing.readers if crossing.producer < 0 else (crossing.producer, *crossing.readers)
            for segment in {self.segment[at] for at in ends}:
                near[segment].append(number)
        return near


def choices_of(problem: Problem, plan: Plan, index: int, hosting: Hosting | None = None) -> Choices:
    """problem: without regions that plans say. index: of the stage; one that recomputes as a whole has none."""
    stage = plan.stages[index]
    kinds = {problem.cluster.devices[d].kind for d in stage.devices}
    operators = () if stage.recompute else stage.operators
    choices = choices_in(problem, operators, stage.micro_batch_size / len(stage.devices), kinds, stage.in_flight)
    return replace(choices, hosting=hosting, spans=choices.spans if problem.recompute_operators else ())


def choices_in(
    problem: Problem, operators: Sequence[int], samples: float, kinds: Collection[str], in_flight: int = 1
) -> Choices:
    """Those of a stage of ``operators``. problem: without regions. samples: of a micro-batch of a replica. kinds: of
    devices; the slowest counts."""
    graph = problem.graph
    rank = {o: place for place, o in enumerate(graph.topological_order)}
    forward = sorted(
        (o for o in operators if graph.operators[o].phase is Phase.FORWARD and not graph.operators[o].replicable),
        key=rank.__getitem__,
    )
    place = {o: at for at, o in enumerate(forward)}
    seconds = np.max([problem.compute.at(kind, samples)[forward] for kind in sorted(kinds)], axis=0)
    saved = np.array([graph.operators[o].saved_bytes.at(samples) for o in forward])
    working = np.array([graph.operators[o].workspace_bytes.at(samples) for o in forward])
    merged, separate = _backward_working(graph, forward, samples)
    crossings = _crossings(graph, place, samples)
    segment = _segments(len(forward), crossings)
    trained = np.array([o in _mirrors(graph) for o in forward], np.bool_)
    spans = _spans(np.array(segment, np.int64), saved, merged, trained)
    return Choices(in_flight, tuple(forward), tuple(segment), seconds, saved, working, separate, spans, crossings)


@per_graph
def _mirrors(graph: OpGraph) -> dict[int, list[int]]:
    mirrors: dict[int, list[int]] = {}
    for b, operator in enumerate(graph.operators):
        if operator.phase in BACKWARD_PHASES and operator.forward_of is not None:
            mirrors.setdefault(operator.forward_of, []).append(b)
    return mirrors


def _backward_working(graph: OpGraph, forward: list[int], samples: float) -> tuple[Floats, Floats]:
    """Workspace of the backward of each operator: where it is done at once, in a region; and its largest part."""
    mirrors = _mirrors(graph)
    needs = [[graph.operators[b].workspace_bytes.at(samples) for b in mirrors.get(o, ())] for o in forward]
    joined = [any(graph.operators[b].phase is Phase.BACKWARD_INPUT for b in mirrors.get(o, ())) for o in forward]
    largest = [max(each, default=0.0) for each in needs]
    at_once = [sum(each) if one else most for one, each, most in zip(joined, needs, largest, strict=True)]
    return np.array(at_once), np.array(largest)


def _crossings(graph: OpGraph, place: dict[int, int], samples: float) -> tuple[Crossing, ...]:
    crossings = []
    for t in sorted({t for o in place for t in (*graph.inputs[o], *graph.outputs[o])}):
        tensor = graph.tensors[t]
        read = [c for c in tensor.consumers if graph.operators[c].phase is Phase.FORWARD]
        inside = tuple(sorted(place[c] for c in read if c in place))
        nbytes = tensor.nbytes.at(samples)
        if read and nbytes > 0:
            saver = place.get(tensor.saver, -1)
            crossings.append(
                Crossing(t, nbytes, place.get(tensor.producer, -1), inside, len(inside) < len(read), saver)
            )
    return tuple(crossings)


def _segments(count: int, crossings: tuple[Crossing, ...]) -> list[int]:
    """The segment of each operator: cut where no more crosses than anywhere near."""
    crossing = np.zeros(count + 1)
    for each in crossings:
        if each.producer >= 0 and each.readers:
            crossing[each.producer + 1 : max(each.readers) + 1] += each.nbytes
    spacing = max(1, min(SPACING, count // 8))
    segment, current, since = [], 0, 0
    for at in range(count):
        near = crossing[max(1, at - spacing) : min(count, at + spacing + 1)]
        if at - since >= spacing and crossing[at] <= near.min():
            current, since = current + 1, at
        segment.append(current)
    return segment


def _spans(segment: Ints, saved: Floats, working: Floats, trained: Bools) -> tuple[Span, ...]:
    count = int(segment[-1]) + 1 if len(segment) else 0
    spans = []
    for first in range(count):
        for last in range(first, min(count, first + MOST_TOGETHER)):
            inside = (segment >= first) & (segment <= last)
            if trained[inside].any():
                spans.append(Span(first, last, float(saved[inside].sum()), float(working[inside].max())))
    return tuple(spans)
