"""Scripts whose segments do next to nothing: what they take is the engine's own time.

A source segment hands on a tensor that is there already, those between pass on what they get, the last one reads
nothing of it; backward, gradients are made without being written. All else is as in a run: the action loop, records,
exchange, channels, messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, fx, nn

from explorer.runner.engine.exchange import Exchange
from explorer.runner.engine.recording import recorder_for
from explorer.runner.engine.runtime import ScriptRuntime, Work, stage_numbers
from explorer.runner.engine.sending import Sends
from explorer.runner.engine.stages import Port, SegmentStage
from explorer.runner.model.segment_module import Input, Kind, Output, SegmentProgram
from explorer.runner.scripts.answers import answers
from explorer.runner.scripts.script import Channel, Do, Piece, Script, Segment, Step

WIDTH = 4
"""Bytes of an element."""


@dataclass(frozen=True, slots=True)
class Load:
    """across: the two segments are on two ranks, which send each other ``tensors`` tensors of ``nbytes`` for every
    micro-batch, there and, in training, back; else each rank has a chain of ``segments`` of its own."""

    across: bool
    training: bool
    micro_batches: int
    segments: int = 2
    tensors: int = 1
    nbytes: int = WIDTH


def script_of(load: Load) -> Script:
    """For two ranks. All forwards, then all backwards."""
    chains = (
        [[0, 1]] if load.across else [[2 * i for i in range(load.segments)], [2 * i + 1 for i in range(load.segments)]]
    )
    count = 2 if load.across else 2 * load.segments
    segments = tuple(Segment((s,), (s % 2,), 1, (s,)) for s in range(count))
    pieces = tuple(Piece(m, m, m, 1) for m in range(load.micro_batches))
    channels = tuple(
        Channel(
            a, a % 2, b % 2, (b,), tuple(range(a * load.tensors, (a + 1) * load.tensors)),
            (load.training,) * load.tensors, pieces, (b,),
        )
        for chain in chains for a, b in pairwise(chain)
    )  # fmt: skip
    batches = range(load.micro_batches)
    if load.across:
        there = [(Step(0, Do.SEND, m), Step(0, Do.RECV, m)) for m in batches]
        back = [(Step(0, Do.RECV_GRADIENT, m), Step(0, Do.SEND_GRADIENT, m)) for m in batches]
        steps: list[list[Step]] = [[], []]
        for m in batches:
            steps[0] += [Step(0, Do.FORWARD, m), there[m][0]]
            steps[1] += [there[m][1], Step(1, Do.FORWARD, m)]
        for m in batches if load.training else ():
            steps[1] += [Step(1, Do.BACKWARD, m), back[m][1]]
            steps[0] += [back[m][0], Step(0, Do.BACKWARD, m)]
    else:
        steps = [[Step(s, Do.FORWARD, m) for m in batches for s in chain] for chain in chains]
        if load.training:
            for chain, own_steps in zip(chains, steps, strict=True):
                own_steps += [Step(s, Do.BACKWARD, m) for m in batches for s in reversed(chain)]
    return Script(segments, channels, (0, 1), tuple(map(tuple, steps)), load.micro_batches, load.training)


def runtime_of(load: Load, rank: int, peer: int, device: torch.device) -> ScriptRuntime:
    """The load on one of two ranks. rank: 0 or 1; peer: the other one's number among all."""
    script = script_of(load)
    firsts, first_port, stages = stage_numbers(script)
    elements = max(1, load.nbytes // WIDTH)
    exchange = Exchange(script, rank, _Flat(elements), device)
    recorder, sends = recorder_for(device), Sends(answers(script, rank))
    own_stages = {
        s: _stage(script, load, s, firsts[s], stages, elements, device) for s in range(rank, len(script.segments), 2)
    }
    ports = {
        (number, at_source): Port(
            number, first_port + 2 * number + (not at_source), stages, peer, exchange, recorder, sends, device
        )
        for number, channel in enumerate(script.channels)
        for at_source in (True, False)
        if not channel.is_local and (channel.src_device if at_source else channel.dst_device) == rank
    }
    sample = torch.zeros(1, device=device)
    work = Work(own_stages, ports, exchange, sends, lambda *_: sample, _nothing, _nothing, _nothing)
    return ScriptRuntime(script, rank, work, recorder)


def _nothing(_: int) -> None:
    pass


def _stage(
    script: Script, load: Load, segment: int, index: int, stages: int, elements: int, device: torch.device
) -> SegmentStage:
    incoming = [c for c in script.channels if segment in c.readers]
    outgoing = [c for c in script.channels if c.source == segment]
    reads = [t for c in incoming for t in c.tensors]
    makes = [t for c in outgoing for t in c.tensors]
    graph, root = fx.Graph(), nn.Module()
    shape, dtype = (elements,), torch.float32
    if not reads:
        inputs = [Input(Kind.SAMPLE, 0, (1,), dtype)]
        graph.placeholder("sample")
        root.weight = nn.Parameter(torch.zeros(1, device=device))
        root.register_buffer("ready", torch.zeros(elements, device=device))
        values = [graph.call_function(_made, (graph.get_attr("weight"), graph.get_attr("ready"))) for _ in makes]
    else:
        inputs = [Input(Kind.TENSOR, t, shape, dtype, load.training) for t in reads]
        got = [graph.placeholder(f"value{t}") for t in reads]
        passed = [graph.call_function(torch.ops.aten.alias.default, (value,)) for value in got]
        values = passed if makes else [graph.call_function(_ended, tuple(got))]
    outputs = [Output(Kind.TENSOR, t, shape, dtype, load.training) for t in makes]
    if not makes:
        outputs = [Output(Kind.MODEL, 0, (), dtype, load.training)]
    graph.output(tuple(values))
    program = SegmentProgram(fx.GraphModule(root, graph), tuple(inputs), tuple(outputs))
    differentiated = [i.kind is Kind.TENSOR for i in inputs]
    return SegmentStage(program, segment, index, stages, device, differentiated, 1.0 / load.micro_batches, False)


class _Flat:
    """Every tensor has as many elements, whatever the samples."""

    def __init__(self, elements: int) -> None:
        self.elements = elements

    def batch_dim(self, tensor: int) -> int | None:
        return None

    def tensor_meta(self, tensor: int, samples: int) -> tuple[tuple[int, ...], torch.dtype]:
        return (self.elements,), torch.float32


class _Made(torch.autograd.Function):
    """A tensor that is there; of its gradient nothing is read."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, ready: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return ready.view_as(ready)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, None]:
        (weight,) = ctx.saved_tensors
        return torch.zeros_like(weight), None


class _Ended(torch.autograd.Function):
    """A number, of tensors that are not read; their gradients are not written."""

    @staticmethod
    def forward(ctx: Any, *values: Tensor) -> Tensor:
        ctx.save_for_backward(*values)
        return values[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.empty_like(value) for value in ctx.saved_tensors)


def _made(weight: Tensor, ready: Tensor) -> Tensor:
    return _Made.apply(weight, ready)  # type: ignore[no-any-return,no-untyped-call]


def _ended(*values: Tensor) -> Tensor:
    return _Ended.apply(*values)  # type: ignore[no-any-return,no-untyped-call]
