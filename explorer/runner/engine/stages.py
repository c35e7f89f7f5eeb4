"""Segments and channel ends as stages of torch's pipelining runtime.

The stock runtime runs chains: a stage sends to the next one. Here every end of a channel is a stage of its
own (a port), which only sends or receives, so that the runtime's own SEND and RECV actions address channels
and any graph of segments runs on its unmodified loop. With `runtime` this is the only file that knows
torch's private classes (torch >= 2.13, < 2.14).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.distributed.pipelining.stage import _PipelineStageBase
from torch.utils.checkpoint import checkpoint

from explorer.runner.engine.exchange import Exchange
from explorer.runner.engine.recording import Recorder
from explorer.runner.engine.sending import Sends, packed_up
from explorer.runner.engine.split_backward import Part, backward_inputs, backward_parameters, backward_whole
from explorer.runner.model.offloaded import Offloaded, offloading
from explorer.runner.model.program import Output, SegmentProgram
from explorer.runner.model.recomputation import Region, in_regions, once


class _Stage(_PipelineStageBase):
    """What the runtime wants of a stage beside its actions; nothing of it applies here."""

    def _prepare_forward_infra(self, num_microbatches: int, *_: Any, **__: Any) -> None:
        self.chunks = num_microbatches

    def _prepare_backward_infra(self, num_microbatches: int, *_: Any, **__: Any) -> None:
        self.chunks = num_microbatches

    def _create_grad_recv_info(self, act_send_info: dict[Any, Any]) -> tuple[Any, ...]:
        return ()

    def _get_init_p2p_neighbors_ops(self) -> list[dist.P2POp]:
        return []


def mean_of(micro_batch: int, position: int, output: Tensor) -> Tensor:
    """What a model is trained on that states no other loss: the mean of each of its outputs."""
    return output if output.dim() == 0 else output.mean()


_End = tuple[GradientEdge, Tensor | None]
"""Where a backward begins, and its gradient where that is known: of a loss."""


class SegmentStage(_Stage):
    """One segment on this rank: forward and backward of a micro-batch, and what the backward still needs.

    samples_read: the model's inputs that the segment reads itself, by position. weight: of a loss of one
    micro-batch's share in that of the mini-batch. regions: of calls that run again before their backward, see
    `in_regions`; where the whole segment does, they are not looked at.
    """

    def __init__(
        self, program: SegmentProgram, segment: int, index: int, stages: int, device: torch.device,
        differentiated: Sequence[bool], weight: float, recompute: bool, regions: Mapping[str, Region] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(program.module, index, stages, device)
        self.regions = {} if recompute or not regions else regions
        self.offload: frozenset[str] = frozenset()
        """Calls of which what they save may go to the host (`offloading`)."""
        self._parted: nn.Module | None = None
        self.program, self.segment, self.weight, self.recompute = program, segment, weight, recompute
        self.differentiated = tuple(differentiated)
        self.saved: dict[int, tuple[tuple[_End | None, ...], tuple[Tensor, ...]]] = {}
        """Where the backward begins, of each output, and the inputs. What was sent is not among them: it is free once
        it has arrived, unless it was saved."""
        self.late: dict[int, tuple[Part, ...]] = {}
        """What `backward_weight` has left to do."""
        self.offloads: frozenset[int] = frozenset()
        """Micro-batches of which what those calls save goes to the host's memory."""
        self.hosted: dict[int, Offloaded] = {}
        self.losses: dict[int, float | Tensor] = {}
        self.remembers = False
        self.remembered: tuple[Tensor, ...] = ()
        """The inputs of the last forward, where it remembers."""
        self.loss_of: Callable[[int, int, Tensor], Tensor | None] = mean_of
        """(micro-batch, position of an output of the model, the output) -> its loss, None: it has none."""
        self.calling: Callable[..., tuple[Tensor, ...]] | None = None
        """(micro-batch, module, *inputs) -> its outputs, in place of the plain call; a recomputation calls it again,
        whenever that comes."""

    def forward(self, micro_batch: int, values: Sequence[Tensor], training: bool) -> tuple[Tensor, ...]:
        """Runs the segment; values are its inputs in order. Returns its outputs in order."""
        inputs = tuple(
            value.detach().requires_grad_(wanted and training)
            for value, wanted in zip(values, self.differentiated, strict=True)
        )
        if self.remembers:
            self.remembered = tuple(i.detach().requires_grad_(i.requires_grad) for i in inputs)
        module = self._module(training)
        call = module if self.calling is None else partial(self.calling, micro_batch, module)
        with torch.set_grad_enabled(training), self._to_host(micro_batch, inputs, training):
            again = self.recompute and training
            outputs = checkpoint(once(call, module), *inputs, use_reentrant=False) if again else call(*inputs)
            outputs = self._with_losses(micro_batch, outputs)
        if training:
            self.saved[micro_batch] = (tuple(map(self._end, self.program.outputs, outputs)), inputs)
        return outputs

    def _to_host(self, micro_batch: int, inputs: tuple[Tensor, ...], training: bool) -> AbstractContextManager[object]:
        """Inside, what is saved of a micro-batch that is offloaded can leave; inputs and parameters stay."""
        if not training or micro_batch not in self.offloads:
            return nullcontext()
        module = self.program.module
        hosted = self.hosted[micro_batch] = Offloaded((*inputs, *module.parameters(), *module.buffers()))
        return torch.autograd.graph.saved_tensors_hooks(hosted.pack, hosted.unpack)

    def leave(self, micro_batch: int) -> None:
        """Send to the host what the forward of a micro-batch saved."""
        self.hosted[micro_batch].leave()

    def fetch(self, micro_batch: int) -> None:
        """Bring back what the forward of a micro-batch saved."""
        self.hosted.pop(micro_batch).fetch()

    def _module(self, training: bool) -> nn.Module:
        """What is called: the segment, its regions apart where they are to run again, and calls that offload marked.
        That is made at the first call, since calls may be given seeds after the stage was made."""
        if not training or not (self.regions or self.offload):
            return self.program.module
        if self._parted is None:
            module = in_regions(self.program.module, self.regions) if self.regions else self.program.module
            self._parted = offloading(module, self.offload) if self.offload else module
        return self._parted

    def _with_losses(self, micro_batch: int, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The outputs, those of the model replaced by their losses, which are noted: here the backward begins."""
        ends = []
        for output, value in zip(self.program.outputs, outputs, strict=True):
            end = value
            if output.kind == "model" and value.is_floating_point():
                loss = self.loss_of(micro_batch, output.position, value)
                if loss is not None:
                    self.losses[micro_batch] = self.losses.get(micro_batch, 0.0) + loss.detach() * self.weight
                end = value.detach() if loss is None else loss
            ends.append(end)
        return tuple(ends)

    def backward(self, micro_batch: int, gradients: Mapping[int, Tensor]) -> tuple[Tensor | None, ...]:
        """The whole backward: adds to the parameters' gradients, returns those of the inputs in order."""
        saved, inputs = self.saved.pop(micro_batch)
        ends, starts = self._ends(saved, gradients)
        if not ends:
            return (None,) * len(inputs)
        return backward_whole(ends, starts, inputs)

    def backward_input(self, micro_batch: int, gradients: Mapping[int, Tensor]) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs; those of the parameters wait for `backward_weight`."""
        saved, inputs = self.saved.pop(micro_batch)
        ends, starts = self._ends(saved, gradients)
        if not ends:
            return (None,) * len(inputs)
        if self.recompute or self.regions:  # a forward that is run again cannot be walked twice: everything now
            return backward_whole(ends, starts, inputs)
        made, self.late[micro_batch] = backward_inputs(ends, starts, inputs)
        return made

    def backward_weight(self, micro_batch: int) -> None:
        """The gradients of the parameters."""
        backward_parameters(self.late.pop(micro_batch, ()))

    def _end(self, output: Output, value: Tensor) -> _End | None:
        """Where the backward of an output begins, with the gradient of a loss; None where none does."""
        if not value.requires_grad:
            return None
        return get_gradient_edge(value), torch.full_like(value, self.weight) if output.kind == "model" else None

    def _ends(
        self, ends: tuple[_End | None, ...], gradients: Mapping[int, Tensor]
    ) -> tuple[list[GradientEdge], list[Tensor]]:
        """Where gradients come in, and these gradients."""
        pairs: list[tuple[GradientEdge, Tensor]] = []
        for output, end in zip(self.program.outputs, ends, strict=True):
            gradient = None if end is None else gradients.get(output.position) if end[1] is None else end[1]
            if end is not None and gradient is not None:
                pairs.append((end[0], gradient))
        return [edge for edge, _ in pairs], [gradient for _, gradient in pairs]

    def clear_runtime_states(self) -> None:
        self.saved.clear()
        self.late.clear()
        self.losses.clear()
        self.hosted.clear()


class Port(_Stage):
    """One end of a channel. Posts messages; what they bring lies in the exchange. What it sends is posted by ``sends``,
    and the runtime, which would keep it until the iteration ends, gets none of it."""

    def __init__(
        self, channel: int, index: int, stages: int, peer: int, exchange: Exchange, recorder: Recorder, sends: Sends,
        device: torch.device,
    ) -> None:  # fmt: skip
        super().__init__(nn.Module(), index, stages, device)
        self.channel, self.peer, self.exchange, self.recorder, self.sends = channel, peer, exchange, recorder, sends
        self.ready: dict[int, tuple[Tensor, ...]] = {}
        """Pieces to be sent, by number."""

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        self.recorder.posted(self.channel, fwd_chunk_id, False)
        self.sends.post((self.channel, fwd_chunk_id, False), packed_up(self.ready.pop(fwd_chunk_id)), self.peer)
        return []

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        return self._posts(self.exchange.room(self.channel, fwd_chunk_id))

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        self.recorder.posted(self.channel, bwd_chunk_id, True)
        gradients = packed_up(self.exchange.flowing_back(self.channel, bwd_chunk_id))
        self.sends.post((self.channel, bwd_chunk_id, True), gradients, self.peer)
        return []

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        return self._posts(self.exchange.gradient_room(self.channel, bwd_chunk_id))

    def _posts(self, tensors: Sequence[Tensor]) -> list[dist.P2POp]:
        return [dist.P2POp(dist.irecv, tensor, self.peer) for tensor in tensors]

    def clear_runtime_states(self) -> None:
        self.ready.clear()
