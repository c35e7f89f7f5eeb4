"""Act out a script under the worst of rules, to be sure that no runtime can get stuck in it. No torch here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from explorer.runner.scripts.script import MESSAGES, ONCE, Channel, Do, Script, Step
from solvers.errors import InvalidPlan

OTHER_END = {
    Do.SEND: Do.RECV,
    Do.RECV: Do.SEND,
    Do.SEND_GRADIENT: Do.RECV_GRADIENT,
    Do.RECV_GRADIENT: Do.SEND_GRADIENT,
}
BACK = (Do.BACKWARD, Do.BACKWARD_INPUT)


def replay(script: Script) -> None:
    """Every rank does its steps strictly in order; a message blocks both its ranks until both are there.

    It knows the script alone, and shares no code with the lowering. Raises InvalidPlan for a deadlock, for messages of
    two ranks that do not match in order, for a step whose inputs are not there, and for steps that are missing or
    there twice.
    """
    _check_steps(script)
    _check_pieces(script)
    _Play(script).play()


def _check_steps(script: Script) -> None:
    """Every step that segments and channels call for, once, and no other."""
    rank_of = {device: rank for rank, device in enumerate(script.devices)}
    expected: list[Counter[Step]] = [Counter() for _ in script.devices]
    scripted = [Counter(steps) for steps in script.steps]
    every = {step for steps in script.steps for step in steps}
    trained = {step.index for step in every if step.do in BACK}
    for index, segment in enumerate(script.segments):
        for device in segment.devices:
            rank = rank_of[device]
            for number in range(script.mini_batch // segment.micro_batch_size):
                expected[rank][Step(index, Do.FORWARD, number)] += 1
                if index not in trained:
                    continue
                split = Step(index, Do.BACKWARD_INPUT, number) in scripted[rank]
                for do in (Do.BACKWARD_INPUT, Do.BACKWARD_WEIGHT) if split else (Do.BACKWARD,):
                    expected[rank][Step(index, do, number)] += 1
            for do in ONCE:
                if Step(index, do) in every:
                    expected[rank][Step(index, do)] += 1
    for index, channel in enumerate(script.channels):
        if channel.is_local:
            continue
        src, dst = rank_of[channel.src_device], rank_of[channel.dst_device]
        for number in range(len(channel.pieces)):
            expected[src][Step(index, Do.SEND, number)] += 1
            expected[dst][Step(index, Do.RECV, number)] += 1
            if any(channel.gradient):
                expected[dst][Step(index, Do.SEND_GRADIENT, number)] += 1
                expected[src][Step(index, Do.RECV_GRADIENT, number)] += 1
    for rank, (needed, there) in enumerate(zip(expected, scripted, strict=True)):
        for step in sorted((needed - there).keys()):
            raise InvalidPlan(f"rank {rank}: step {step} is missing")
        for step in sorted((there - needed).keys()):
            raise InvalidPlan(f"rank {rank}: step {step} is there twice or does not belong there")


def _check_pieces(script: Script) -> None:
    """Every tensor that a segment reads over a channel arrives there once for every sample."""
    arrived: dict[tuple[int, int, int], Counter[int]] = defaultdict(Counter)
    for index, channel in enumerate(script.channels):
        source = script.segments[channel.source]
        for piece in channel.pieces:
            samples = range(piece.first, piece.first + piece.samples)
            if not set(samples) <= _samples(script, channel.source, channel.src_device, piece.sent_in):
                raise InvalidPlan(f"channel {index}: {piece} is not what {source.devices} make")
            for reader in channel.readers:
                if not set(samples) <= _samples(script, reader, channel.dst_device, piece.read_in):
                    raise InvalidPlan(f"channel {index}: {piece} is not what segment {reader} reads")
                for tensor in channel.tensors:
                    arrived[reader, channel.dst_device, tensor].update(samples)
    for (reader, device, tensor), samples_seen in arrived.items():
        count = script.mini_batch // script.segments[reader].micro_batch_size
        needed = Counter(s for number in range(count) for s in _samples(script, reader, device, number))
        if samples_seen != needed:
            raise InvalidPlan(f"tensor {tensor} does not arrive once for every sample at segment {reader}")


def _samples(script: Script, segment: int, device: int, number: int) -> set[int]:
    """The samples of a micro-batch that a replica takes."""
    size = script.segments[segment].micro_batch_size
    devices = script.segments[segment].devices
    first = number * size + devices.index(device) * (size // len(devices))
    return set(range(first, first + size // len(devices)))


class _Play:
    """Ranks as actors: where each is in its list, and what has happened on it."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.place = [0] * len(script.steps)
        self.done: list[set[Step]] = [set() for _ in script.steps]
        self.there = [frozenset(steps) for steps in script.steps]
        self.own: dict[tuple[int, int], list[Step]] = defaultdict(list)
        for rank, steps in enumerate(script.steps):
            for step in steps:
                if step.do not in MESSAGES:
                    self.own[rank, step.index].append(step)
        self.rank_of = {device: rank for rank, device in enumerate(script.devices)}
        self.read_over: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.made_over: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, channel in enumerate(script.channels):
            for reader in channel.readers:
                self.read_over[reader, self.rank_of[channel.dst_device]].append(index)
            self.made_over[channel.source, self.rank_of[channel.src_device]].append(index)

    def play(self) -> None:
        moved = True
        while moved:
            moved = False
            for rank in range(len(self.place)):
                while (step := self._head(rank)) is not None and self._try(rank, step):
                    moved = True
        if any(self._head(rank) is not None for rank in range(len(self.place))):
            raise InvalidPlan("the script deadlocks: " + "; ".join(self._stuck()))

    def _head(self, rank: int) -> Step | None:
        steps = self.script.steps[rank]
        return steps[self.place[rank]] if self.place[rank] < len(steps) else None

    def _finish(self, rank: int, step: Step) -> None:
        self.done[rank].add(step)
        self.place[rank] += 1

    def _try(self, rank: int, step: Step) -> bool:
        if step.do in MESSAGES:
            return self._meet(rank, step)
        if step.do is Do.SYNC:
            return self._gather(step)
        self._check_inputs(rank, step)
        self._finish(rank, step)
        return True

    def _meet(self, rank: int, step: Step) -> bool:
        channel = self.script.channels[step.index]
        ends = self.rank_of[channel.src_device], self.rank_of[channel.dst_device]
        other = ends[1] if rank == ends[0] else ends[0]
        peer_step = self._head(other)
        if peer_step is None or peer_step.do not in MESSAGES or rank not in self._ranks(peer_step):
            return False
        if peer_step != Step(step.index, OTHER_END[step.do], step.number):
            raise InvalidPlan(f"rank {rank} is at {step} and rank {other} at {peer_step}: their messages do not match")
        sender = rank if step.do in (Do.SEND, Do.SEND_GRADIENT) else other
        self._check_inputs(sender, step if sender == rank else peer_step)
        self._finish(rank, step)
        self._finish(other, peer_step)
        return True

    def _ranks(self, message: Step) -> tuple[int, int]:
        channel = self.script.channels[message.index]
        return self.rank_of[channel.src_device], self.rank_of[channel.dst_device]

    def _gather(self, step: Step) -> bool:
        ranks = [self.rank_of[device] for device in self.script.segments[step.index].devices]
        if any(self._head(rank) != step for rank in ranks):
            return False
        for rank in ranks:
            self._check_inputs(rank, step)
            self._finish(rank, step)
        return True

    # -- what a step reads ------------------------------------------------------------------------

    def _check_inputs(self, rank: int, step: Step) -> None:
        missing = [needed for needed in self._needs(rank, step) if needed not in self.done[rank]]
        if missing:
            raise InvalidPlan(f"rank {rank}: {step} comes before {missing[0]}, which it needs")

    def _needs(self, rank: int, step: Step) -> list[Step]:
        """Steps of the same rank that must have happened."""
        if step.do is Do.SEND:
            channel = self.script.channels[step.index]
            return [Step(channel.source, Do.FORWARD, channel.pieces[step.number].sent_in)]
        if step.do is Do.SEND_GRADIENT:
            channel = self.script.channels[step.index]
            return self._backward(rank, channel.senders, channel.pieces[step.number].read_in)
        if step.do is Do.FORWARD:
            return self._arrivals(rank, step)
        if step.do in BACK:
            return [Step(step.index, Do.FORWARD, step.number), *self._returns(rank, step)]
        if step.do is Do.BACKWARD_WEIGHT:
            return [Step(step.index, Do.BACKWARD_INPUT, step.number)]
        own = self.own[rank, step.index]
        late = [s for s in own if s.do in (*BACK, Do.BACKWARD_WEIGHT)]
        return late + [s for s in own if s.do is Do.SYNC and step.do is Do.UPDATE]

    def _arrivals(self, rank: int, step: Step) -> list[Step]:
        needed = []
        for index in self.read_over[step.index, rank]:
            channel = self.script.channels[index]
            for number, piece in enumerate(channel.pieces):
                if piece.read_in == step.number:
                    made = Step(channel.source, Do.FORWARD, piece.sent_in)
                    needed.append(made if channel.is_local else Step(index, Do.RECV, number))
        return needed

    def _returns(self, rank: int, step: Step) -> list[Step]:
        needed: list[Step] = []
        for index in self.made_over[step.index, rank]:
            channel: Channel = self.script.channels[index]
            for number, piece in enumerate(channel.pieces):
                if piece.sent_in != step.number or not any(channel.gradient):
                    continue
                if channel.is_local:
                    needed += self._backward(rank, channel.senders, piece.read_in)
                else:
                    needed.append(Step(index, Do.RECV_GRADIENT, number))
        return needed

    def _backward(self, rank: int, segments: Sequence[int], number: int) -> list[Step]:
        """The steps of ``segments`` that make gradients of inputs, where they have any."""
        backs = (Step(segment, do, number) for segment in segments for do in BACK)
        return [step for step in backs if step in self.there[rank]]

    def _stuck(self) -> list[str]:
        heads = ((rank, self._head(rank)) for rank in range(len(self.place)))
        return [f"rank {rank} at {step}" for rank, step in heads if step is not None]
