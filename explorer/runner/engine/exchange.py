"""The tensors on their way: what segments hand to one another on one rank, and what messages carry.

A channel carries pieces, each the samples of one message. Here they are cut from what a segment made and
put together to what another one reads; gradients go the same way back and are added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from explorer.runner.engine.sending import room
from explorer.runner.scripts.script import Channel, Piece, Script, pieces_of
from solvers.errors import RunError


class Shapes(Protocol):
    """What is known of the graph's forward tensors."""

    def batch_dim(self, tensor: int) -> int | None:
        """The dimension that holds the samples; None: the same for all samples."""

    def tensor_meta(self, tensor: int, samples: int) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and dtype at so many samples."""


class Exchange:
    """Pieces that have arrived on one rank and gradients that have come back, by channel and piece.

    first: the first sample of micro-batch i of segment s on this rank, from ``first(s, i)``.
    """

    def __init__(self, script: Script, device: int, shapes: Shapes, torch_device: torch.device) -> None:
        self.script, self.device, self.shapes, self.torch_device = script, device, shapes, torch_device
        self.arrived: dict[tuple[int, int], tuple[Tensor, ...]] = {}
        self.returned: dict[tuple[int, int], tuple[Tensor | None, ...]] = {}
        self.incoming, self.outgoing = pieces_of(script, device)
        self._left: dict[tuple[int, int], int] = {}
        self._waiting: dict[tuple[int, int], list[Tensor | None]] = {}

    def first(self, segment: int, micro_batch: int) -> int:
        """The first sample of the mini-batch in a micro-batch of a segment on this rank."""
        at = self.script.segments[segment]
        return micro_batch * at.micro_batch_size + at.devices.index(self.device) * at.share

    # -- forward ----------------------------------------------------------------------------------

    def cut(self, channel: int, piece: int, made: Mapping[int, Tensor]) -> tuple[Tensor, ...]:
        """What the source sends in a piece, of the tensors it made in that micro-batch."""
        at, part = self._at(channel, piece)
        offset = part.first - self.first(at.source, part.sent_in)
        share = self.script.segments[at.source].share
        return tuple(self._slice(t, made[t].detach(), offset, part.samples, share) for t in at.tensors)

    def room(self, channel: int, piece: int) -> tuple[Tensor, ...]:
        """What is to be received of a piece; its tensors lie in `arrived`."""
        at, part = self._at(channel, piece)
        metas = [self.shapes.tensor_meta(t, part.samples) for t in at.tensors]
        self.arrived[channel, piece], posted = room(metas, self.torch_device)
        return posted

    def read(self, segment: int, micro_batch: int, tensors: Sequence[int]) -> dict[int, Tensor]:
        """The tensors that a segment reads, put together from the pieces that have arrived."""
        parts: dict[int, list[tuple[int, Tensor]]] = defaultdict(list)
        for c, p in self.incoming[segment, micro_batch]:
            at, part = self._at(c, p)
            for t, value in zip(at.tensors, self.arrived[c, p], strict=True):
                parts[t].append((part.first, value))
        joined = {}
        for t in tensors:
            if not parts[t]:
                raise RunError(f"segment {segment} reads tensor {t}, which no channel brings")
            joined[t] = self._joined(t, sorted(parts[t], key=lambda part: part[0]))
        self._done_reading(segment, micro_batch)
        return joined

    def _done_reading(self, segment: int, micro_batch: int) -> None:
        """Drop what its last reader has read."""
        for key in self.incoming[segment, micro_batch]:
            left = self._left.setdefault(key, len(self.script.channels[key[0]].readers)) - 1
            self._left[key] = left
            if left == 0:
                del self._left[key], self.arrived[key]

    # -- backward ---------------------------------------------------------------------------------

    def give_back(self, segment: int, micro_batch: int, gradients: Mapping[int, Tensor | None]) -> None:
        """Adds a reader's gradients of what it read to those of the pieces it came in."""
        for c, p in self.incoming[segment, micro_batch]:
            at, part = self._at(c, p)
            if not any(at.gradient):
                continue
            offset = part.first - self.first(segment, micro_batch)
            share = self.script.segments[segment].share
            sums = self._waiting.setdefault((c, p), [None] * len(at.tensors))
            for k, t in enumerate(at.tensors):
                gradient = gradients.get(t) if at.gradient[k] else None
                if gradient is None:
                    continue
                if part.first > self._first_of(segment, micro_batch, t) and self.shapes.batch_dim(t) is None:
                    continue  # one tensor that came in several copies: its gradient goes back with the first
                part_gradient = self._slice(t, gradient, offset, part.samples, share)
                known = sums[k]
                sums[k] = part_gradient if known is None else known + part_gradient

    def _first_of(self, segment: int, micro_batch: int, tensor: int) -> int:
        return min(
            self.script.channels[c].pieces[p].first
            for c, p in self.incoming[segment, micro_batch]
            if tensor in self.script.channels[c].tensors
        )

    def sums(self, channel: int, piece: int) -> tuple[Tensor | None, ...]:
        """The gradients of a piece, added over its readers, which all ran; forgets them."""
        at, _ = self._at(channel, piece)
        return tuple(self._waiting.pop((channel, piece), [None] * len(at.tensors)))

    def flowing_back(self, channel: int, piece: int) -> tuple[Tensor, ...]:
        """What a gradient message carries: zeros where a reader gave no gradient."""
        at, part = self._at(channel, piece)
        return tuple(
            self._empty(t, part.samples).zero_() if value is None else value.contiguous()
            for t, value, flows in zip(at.tensors, self.sums(channel, piece), at.gradient, strict=True)
            if flows
        )

    def gradient_room(self, channel: int, piece: int) -> tuple[Tensor, ...]:
        """What is to be received of the gradients of a piece; they are what `total` adds up."""
        at, part = self._at(channel, piece)
        flowing = [t for t, flows in zip(at.tensors, at.gradient, strict=True) if flows]
        tensors, posted = room([self.shapes.tensor_meta(t, part.samples) for t in flowing], self.torch_device)
        brought = iter(tensors)
        self.returned[channel, piece] = tuple(next(brought) if flows else None for flows in at.gradient)
        return posted

    def total(self, segment: int, micro_batch: int) -> dict[int, Tensor]:
        """The gradients of what a segment made in a micro-batch, added over all channels; forgets them."""
        totals: dict[int, Tensor] = {}
        share = self.script.segments[segment].share
        for c, p in self.outgoing[segment, micro_batch]:
            at, part = self._at(c, p)
            back = self.sums(c, p) if at.is_local else self.returned.pop((c, p), (None,) * len(at.tensors))
            offset = part.first - self.first(segment, micro_batch)
            for t, value in zip(at.tensors, back, strict=True):
                if value is not None:
                    whole = self._spread(t, value, offset, part.samples, share)
                    totals[t] = totals[t] + whole if t in totals else whole
        return totals

    # -- samples of a tensor ----------------------------------------------------------------------

    def _at(self, channel: int, piece: int) -> tuple[Channel, Piece]:
        at = self.script.channels[channel]
        return at, at.pieces[piece]

    def _empty(self, tensor: int, samples: int) -> Tensor:
        shape, dtype = self.shapes.tensor_meta(tensor, samples)
        return torch.empty(shape, dtype=dtype, device=self.torch_device)

    def _slice(self, tensor: int, value: Tensor, offset: int, samples: int, share: int) -> Tensor:
        dim = self.shapes.batch_dim(tensor) if samples != share else None
        if dim is None:
            return value
        rows = value.shape[dim] // share  # several where the samples' dimension was merged with an inner one
        return value.narrow(dim, offset * rows, samples * rows)

    def _joined(self, tensor: int, parts: list[tuple[int, Tensor]]) -> Tensor:
        dim = self.shapes.batch_dim(tensor) if len(parts) > 1 else None
        if dim is None:
            return parts[0][1]
        return torch.cat([value for _, value in parts], dim)

    def _spread(self, tensor: int, value: Tensor, offset: int, samples: int, share: int) -> Tensor:
        """A gradient of some samples as one of all, zero elsewhere."""
        dim = self.shapes.batch_dim(tensor) if samples != share else None
        if dim is None:
            return value
        shape, dtype = self.shapes.tensor_meta(tensor, share)
        whole = torch.zeros(shape, dtype=dtype, device=value.device)
        self._slice(tensor, whole, offset, samples, share).copy_(value)
        return whole
