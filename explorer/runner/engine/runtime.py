"""Runs a script on torch's pipelining runtime: its action loop, our segments and channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from torch import Tensor
from torch.autograd import profiler
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.schedules import (
    _Action,
    _ComputationType,
    _PipelineContext,
    _PipelineScheduleRuntime,
    _wait_batch_p2p,
)

from explorer.runner.bundles import heartbeats
from explorer.runner.engine.exchange import Exchange
from explorer.runner.engine.recording import Recorder
from explorer.runner.engine.sending import Sends
from explorer.runner.engine.stages import Port, SegmentStage
from explorer.runner.scripts.script import MESSAGES, Do, Script, Step, host_copies

NAMES = {
    Do.FORWARD: _ComputationType.FORWARD,
    Do.BACKWARD: _ComputationType.FULL_BACKWARD,
    Do.BACKWARD_INPUT: _ComputationType.BACKWARD_INPUT,
    Do.BACKWARD_WEIGHT: _ComputationType.BACKWARD_WEIGHT,
    Do.SYNC: _ComputationType.REDUCE_GRAD,
    # The runtime knows no update; what it does to parameters after the last backward is to reshard them.
    Do.UPDATE: _ComputationType.RESHARD,
    Do.SEND: _ComputationType.SEND_F,
    Do.RECV: _ComputationType.RECV_F,
    Do.SEND_GRADIENT: _ComputationType.SEND_B,
    Do.RECV_GRADIENT: _ComputationType.RECV_B,
}
"""What a step is called in the runtime's schedule."""
COMPUTE = {NAMES[do]: do for do in (Do.FORWARD, Do.BACKWARD, Do.BACKWARD_INPUT, Do.BACKWARD_WEIGHT, Do.SYNC, Do.UPDATE)}


@dataclass(frozen=True)
class Work:
    """What a rank runs a script with.

    stages: by segment. read_samples: (segment, micro-batch) -> the model's inputs it reads, by position.
    synchronise and update: what SYNC and UPDATE of a segment do; settle: waits for what SYNC began.
    """

    stages: Mapping[int, SegmentStage]
    ports: Mapping[tuple[int, bool], Port]
    """(channel, whether it is the source's end) -> port, for channels between ranks."""
    exchange: Exchange
    sends: Sends
    read_sample: Callable[[int, int, int], Tensor]
    """(segment, micro-batch, position) -> the samples of one of the model's inputs."""
    synchronise: Callable[[int], None]
    update: Callable[[int], None]
    settle: Callable[[int], None]


def stage_numbers(script: Script) -> tuple[list[int], int, int]:
    """(the runtime's stage of the first replica of each segment, that of the first port, how many in all)."""
    firsts, count = [], 0
    for segment in script.segments:
        firsts.append(count)
        count += len(segment.devices)
    return firsts, count, count + 2 * len(script.channels)


class ScriptRuntime(_PipelineScheduleRuntime):
    """The stock action loop over the steps of one rank."""

    def __init__(self, script: Script, rank: int, work: Work, recorder: Recorder) -> None:
        super().__init__([*work.stages.values(), *work.ports.values()], 1)  # type: ignore[no-untyped-call]
        self.script, self.work, self.recorder = script, work, recorder
        self.rank = rank
        self.training = script.training
        firsts, first_port, _ = stage_numbers(script)
        device = script.devices[rank]
        self._segment_of = {
            firsts[s] + script.segments[s].devices.index(device): s for s in work.stages
        }  # fmt: skip
        stage_of = {s: index for index, s in self._segment_of.items()}
        self.pipeline_order_with_comms = {
            rank: [
                _Action(
                    first_port + 2 * step.index + (step.do in (Do.RECV, Do.SEND_GRADIENT))
                    if step.do in MESSAGES
                    else stage_of[step.index],
                    NAMES[step.do],
                    step.number,
                )
                for step in script.steps[rank]
            ]
        }
        self._first_port = first_port
        self._copies = host_copies(script, rank)
        for segment, micro_batch in self._copies.comes.values():
            work.stages[segment].offloads |= {micro_batch}
        for name in COMPUTE:
            self.register_custom_function(name, self._compute)

    def _initialize_stages(self, *_: Any, **__: Any) -> None:
        """Channels need no metadata from neighbours: shapes are known."""

    def iterate(self) -> None:
        """One iteration of the script."""
        with _unnamed():
            self._step_microbatches()
            heartbeats.at("the end of an iteration", waits=True)
            self.work.sends.finish()

    def _check_inputs(self, *_: Any, **__: Any) -> tuple[list[Any], list[Any]]:
        return [()], [{}]

    def _update_losses(self, *_: Any, **__: Any) -> None:
        """Losses stay with their stages."""

    # -- compute ----------------------------------------------------------------------------------

    def _compute(self, action: _Action, ctx: _PipelineContext) -> None:
        segment = self._segment_of[action.stage_index]
        step = Step(segment, COMPUTE[action.computation_type], action.microbatch_index or 0)
        try:
            self._take(segment, step)
        except Exception as error:
            error.step = str(step)  # type: ignore[attr-defined]  # for the report: where it failed
            raise

    def _take(self, segment: int, step: Step) -> None:
        requested = self.recorder.now()
        heartbeats.at(step, waits=True)
        if step.do is Do.FORWARD:
            self._wait(self.fwd_recv_ops, self.work.exchange.incoming[segment, step.number], 1)
        elif step.do in (Do.BACKWARD, Do.BACKWARD_INPUT):
            self._wait(self.bwd_recv_ops, self.work.exchange.outgoing[segment, step.number], 0)
        elif step.do is Do.UPDATE:
            self.work.settle(segment)
        if step in self._copies.comes:
            of, micro_batch = self._copies.comes[step]
            self.work.stages[of].fetch(micro_batch)
        heartbeats.works()
        began = self.recorder.now()
        if step.do is Do.FORWARD:
            self._forward(segment, step.number)
        elif step.do is Do.BACKWARD_WEIGHT:
            self.work.stages[segment].backward_weight(step.number)
        elif step.do is Do.SYNC:
            self.work.synchronise(segment)
        elif step.do is Do.UPDATE:
            self.work.update(segment)
        else:
            self._backward(segment, step)
        self.recorder.action(step, requested, began, self.recorder.now())
        if step in self._copies.leaves:
            of, micro_batch = self._copies.leaves[step]
            self.work.stages[of].leave(micro_batch)

    def _wait(self, posted: dict[tuple[int, int], list[Any]], pieces: Sequence[tuple[int, int]], end: int) -> None:
        """Waits for messages: those that this is the first to need."""
        for channel, piece in pieces:
            works = posted.pop((self._first_port + 2 * channel + end, piece), None)
            if works is None:
                continue
            before = self.recorder.now()
            _wait_batch_p2p(works)
            self.recorder.message(channel, piece, end == 0, before, self.recorder.now())
            self.work.sends.answered((channel, piece, end == 0))

    def _forward(self, segment: int, micro_batch: int) -> None:
        work, stage = self.work, self.work.stages[segment]
        wanted = [i.position for i in stage.program.inputs if i.kind == "tensor"]
        read = work.exchange.read(segment, micro_batch, wanted)
        values = [
            read[i.position] if i.kind == "tensor" else work.read_sample(segment, micro_batch, i.position)
            for i in stage.program.inputs
        ]
        outputs = stage.forward(micro_batch, values, self.training)
        made = {
            o.position: value for o, value in zip(stage.program.outputs, outputs, strict=True) if o.kind == "tensor"
        }
        for channel, piece in work.exchange.outgoing[segment, micro_batch]:
            cut = work.exchange.cut(channel, piece, made)
            if self.script.channels[channel].is_local:
                work.exchange.arrived[channel, piece] = cut
            else:
                work.ports[channel, True].ready[piece] = cut

    def _backward(self, segment: int, step: Step) -> None:
        work, stage = self.work, self.work.stages[segment]
        gradients = work.exchange.total(segment, step.number)
        whole = step.do is Do.BACKWARD
        made = (stage.backward if whole else stage.backward_input)(step.number, gradients)
        back = {
            i.position: gradient for i, gradient in zip(stage.program.inputs, made, strict=True) if i.kind == "tensor"
        }
        work.exchange.give_back(segment, step.number, back)


@contextmanager
def _unnamed() -> Iterator[None]:
    """Actions without a name for torch's profiler while none listens: naming one takes a tenth of a step or more."""
    if profiler._is_profiler_enabled:
        yield
        return
    with patch.object(schedules, "record_function", nullcontext):
        yield
