"""What waits for what when a plan runs: compute steps on ranks, messages, and averages over replicas.

These tasks are not those of `solvers.evaluation`: segments join stages and single operators, channels join what the
simulator sends apart, so each is longer, and fewer things wait. How long one takes, the problem says (`ComputeTable`,
`Problem.tensor_s`, `Ring`); `lowering` has them run by the one event loop.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from explorer.runner.scripts.script import Channel, Do, Piece, Step
from explorer.runner.scripts.segments import Layout
from explorer.runner.scripts.stated_turns import Sending
from solvers.errors import InvalidPlan, NoLink
from solvers.problem.cluster import Ring, around
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem

PHASES = {
    Do.FORWARD: (Phase.FORWARD,),
    Do.BACKWARD: (Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT),
    Do.BACKWARD_INPUT: (Phase.BACKWARD_INPUT,),
    Do.BACKWARD_WEIGHT: (Phase.BACKWARD_WEIGHT,),
    Do.UPDATE: (Phase.UPDATE,),
}
FIRST_BACKWARD = (Do.BACKWARD, Do.BACKWARD_INPUT)
ALL_BACKWARD = (*FIRST_BACKWARD, Do.BACKWARD_WEIGHT)


@dataclass(slots=True)
class Task:
    """One thing that happens.

    ranks: one that computes; two of a message, the sender first; all that take part in an average. back: of a
    message, the step of the receiver (step is the sender's). wire: what a message occupies, "" if nothing.
    urgency: of the ready messages of one link the lowest goes first.
    """

    step: Step
    ranks: tuple[int, ...]
    seconds: float
    arrives_as: Step | None = None
    wire: str = ""
    urgency: int = 0
    before: set[int] = field(default_factory=set)


class Waits:
    """All tasks of one iteration. order: per rank the numbers of its compute tasks in the plan's order."""

    def __init__(self, problem: Problem, layout: Layout, channels: Sequence[Channel], devices: Sequence[int]) -> None:
        self.problem, self.segments, self.channels = problem, layout.segments, channels
        self.devices = tuple(devices)
        self.rank_of = {device: rank for rank, device in enumerate(self.devices)}
        self.tasks: list[Task] = []
        self.task_of: dict[tuple[int, Step], int] = {}
        self.order: list[list[int]] = []
        self.sendings: list[Sending] = []
        self._members = _members(problem, layout)
        self._tables: dict[tuple[str, float], list[float]] = {}
        for rank, device in enumerate(self.devices):
            self.order.append([])
            for place, step in enumerate(layout.order[device]):
                task = self._add(Task(step, (rank,), self._compute_s(step, device), urgency=place))
                self.task_of[rank, step] = task
                self.order[rank].append(task)
        self._inside_segments()
        for index, channel in enumerate(channels):
            self._connect(index, channel)
        self._updates()

    def _add(self, task: Task) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1

    def _wait(self, later: int, earlier: int) -> None:
        self.tasks[later].before.add(earlier)

    def _compute_s(self, step: Step, device: int) -> float:
        """Seconds of one replica's share on its device, by the problem's costs."""
        segment = self.segments[step.index]
        size = self.problem.mini_batch if step.do is Do.UPDATE else segment.micro_batch_size
        key = self.problem.cluster.devices[device].kind, size / len(segment.devices)
        if key not in self._tables:
            self._tables[key] = self.problem.compute.at(*key).tolist()
        phases = PHASES[step.do]
        if segment.recompute and step.do in FIRST_BACKWARD:
            phases = (Phase.FORWARD, *phases)
        seconds = math.fsum(
            self._tables[key][o] for phase in phases for o in self._members.get((step.index, phase), ())
        )
        if not math.isfinite(seconds):
            raise InvalidPlan(f"{step} cannot run on device {device}, a {key[0]}: its time there is infinite")
        return seconds

    def keep_turns(self, turns: Sequence[Sequence[int]]) -> None:
        """Let every message of a turn wait for the one before it."""
        for turn in turns:
            for earlier, later in pairwise(turn):
                self._wait(later, earlier)

    def prefer_turns(self, turns: Sequence[Sequence[int]]) -> None:
        """Let links serve, of the messages that are ready, the first of a turn."""
        for turn in turns:
            for place, task in enumerate(turn):
                self.tasks[task].urgency = place

    # -- inside a segment -------------------------------------------------------------------------

    def _inside_segments(self) -> None:
        """Forward before backward, gradients of inputs before those of parameters, per micro-batch."""
        for (rank, step), task in self.task_of.items():
            earlier: Step | None = None
            if step.do in FIRST_BACKWARD:
                earlier = Step(step.index, Do.FORWARD, step.number)
            elif step.do is Do.BACKWARD_WEIGHT:
                earlier = Step(step.index, Do.BACKWARD_INPUT, step.number)
            if earlier is not None:
                self._wait(task, self.task_of[rank, earlier])

    def _backward(self, segment: int, number: int, device: int) -> int | None:
        """The step that makes gradients of a segment's inputs; None if it has no backward."""
        rank = self.rank_of[device]
        for do in FIRST_BACKWARD:
            if (rank, Step(segment, do, number)) in self.task_of:
                return self.task_of[rank, Step(segment, do, number)]
        return None

    # -- messages ---------------------------------------------------------------------------------

    def _connect(self, index: int, channel: Channel) -> None:
        src, dst = self.rank_of[channel.src_device], self.rank_of[channel.dst_device]
        for number, piece in enumerate(channel.pieces):
            made = self.task_of[src, Step(channel.source, Do.FORWARD, piece.sent_in)]
            read = [self.task_of[dst, Step(r, Do.FORWARD, piece.read_in)] for r in channel.readers]
            if channel.is_local:
                for task in read:
                    self._wait(task, made)
            else:
                ends = Step(index, Do.SEND, number), Step(index, Do.RECV, number)
                makers = tuple((channel.source, self.problem.graph.tensors[t].producer) for t in channel.tensors)
                self._message(ends, (src, dst), channel.tensors, piece, [made], read, makers)
            back = tuple(t for t, flows in zip(channel.tensors, channel.gradient, strict=True) if flows)
            if back:
                self._gradient(index, number, channel, piece, back)

    def _gradient(self, index: int, number: int, channel: Channel, piece: Piece, tensors: tuple[int, ...]) -> None:
        """Back over the channel, once every reader that sends a gradient has made it of these samples."""
        tasks = [self._backward(reader, piece.read_in, channel.dst_device) for reader in channel.senders]
        made = [task for task in tasks if task is not None]
        reader = self._backward(channel.source, piece.sent_in, channel.src_device)
        if reader is None or len(made) < len(tasks):
            raise InvalidPlan(
                f"a gradient goes from segment {channel.senders[0]} to segment {channel.source}, but one of them has no"
                " backward step"
            )
        if channel.is_local:
            for task in made:
                self._wait(reader, task)
            return
        ends = Step(index, Do.SEND_GRADIENT, number), Step(index, Do.RECV_GRADIENT, number)
        src, dst = self.rank_of[channel.dst_device], self.rank_of[channel.src_device]
        makers = tuple(
            (s, o) for s in channel.senders for t in tensors for o in self.problem.graph.tensors[t].consumers
        )
        self._message(ends, (src, dst), tensors, piece, made, [reader], makers)

    def _message(
        self,
        ends: tuple[Step, Step],
        ranks: tuple[int, int],
        tensors: Sequence[int],
        piece: Piece,
        made: list[int],
        read: list[int],
        makers: tuple[tuple[int, int], ...],
    ) -> None:
        src, dst = (self.devices[rank] for rank in ranks)
        link = self.problem.cluster.link(src, dst)
        if link is None and self.problem.transfer_s is None:
            raise NoLink(f"there is no link from device {src} to device {dst}, yet the plan sends tensors over it")
        seconds = math.fsum(self.problem.tensor_s(t, piece.samples, src, dst) for t in tensors)
        wire = link.resource if link is not None and link.resource else f"{src}->{dst}"
        urgency = min(self.tasks[task].urgency for task in read)
        message = self._add(Task(ends[0], ranks, seconds, ends[1], wire, urgency))
        back = ends[0].do is Do.SEND_GRADIENT
        made_in = piece.read_in if back else piece.sent_in
        first = tensors[0], ends[0].number
        self.sendings.append(Sending(message, wire, dst, makers, made_in, back, first))
        for task in made:
            self._wait(message, task)
        for task in read:
            self._wait(task, message)

    # -- updates ----------------------------------------------------------------------------------

    def _updates(self) -> None:
        """An update, and the average over replicas before it, waits for every backward step that reads one of
        its parameters: those of its own segment, and of others where parameters are tied."""
        feeding = _feeding(self.problem, self._members, len(self.segments))
        backward: dict[int, list[int]] = defaultdict(list)
        for (_, step), task in self.task_of.items():
            if step.do in ALL_BACKWARD:
                backward[step.index].append(task)
        for index, segment in enumerate(self.segments):
            awaited = [task for other in sorted(feeding[index]) for task in backward[other]]
            update = Step(index, Do.UPDATE)
            updates = [self.task_of[key] for d in segment.devices if (key := (self.rank_of[d], update)) in self.task_of]
            owned = math.fsum(self.problem.graph.operators[o].trained_bytes for o in segment.operators)
            if len(segment.devices) > 1 and owned > 0 and awaited:
                ranks = tuple(sorted(self.rank_of[device] for device in segment.devices))
                average = self._add(Task(Step(index, Do.SYNC), ranks, self._average_s(segment.devices, owned)))
                for task in awaited:
                    self._wait(average, task)
                for task in updates:
                    self._wait(task, average)
            for task in updates:
                for earlier in awaited:
                    self._wait(task, earlier)

    def _average_s(self, devices: tuple[int, ...], nbytes: float) -> float:
        slowest = 0.0
        for src, dst in around(devices):
            link = self.problem.cluster.link(src, dst)
            if link is None:
                raise NoLink(f"there is no link from device {src} to device {dst}, replicas of one segment")
            slowest = max(slowest, Ring(len(devices)).link_s(link, nbytes))
        return slowest


def _members(problem: Problem, layout: Layout) -> dict[tuple[int, Phase], list[int]]:
    """(segment, phase) -> its operators of that phase."""
    holds: dict[int, list[int]] = defaultdict(list)
    for index, segment in enumerate(layout.segments):
        for o in segment.operators:
            holds[o].append(index)
    members: dict[tuple[int, Phase], list[int]] = defaultdict(list)
    for o, operator in enumerate(problem.graph.operators):
        for index in holds[o if operator.forward_of is None else operator.forward_of]:
            members[index, operator.phase].append(o)
    return dict(members)


def _feeding(problem: Problem, members: dict[tuple[int, Phase], list[int]], count: int) -> list[set[int]]:
    """Per segment the segments whose backward its updates wait for."""
    graph = problem.graph
    segments_of: dict[int, set[int]] = defaultdict(set)
    groups: dict[str, set[int]] = defaultdict(set)
    for (index, _), operators in members.items():
        for o in operators:
            segments_of[o].add(index)
            group = graph.operators[o].colocation
            if group is not None:
                groups[group].add(index)
    by_segment: list[set[int]] = []
    for index in range(count):
        updates = members.get((index, Phase.UPDATE), ())
        feeding = {index}
        for u in updates:
            feeding.update(s for o in graph.predecessors[u] for s in segments_of[o])
        if not updates:  # a graph without updates says which parameters are tied by co-location only
            owners = [graph.operators[o] for o in members[index, Phase.FORWARD]]
            for operator in owners:
                if operator.trained_bytes > 0 and operator.colocation is not None:
                    feeding |= groups[operator.colocation]
        by_segment.append(feeding)
    return by_segment
