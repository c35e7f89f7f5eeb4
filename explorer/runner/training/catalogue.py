"""Which rank has which tensor of the model, by the names that the model itself has for them: what a checkpoint and a
whole state dict are made of."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from explorer.runner.engine.machine import Machine
from explorer.runner.model.construct import Built
from explorer.runner.training.ranks import Ranks

Meta = tuple[tuple[int, ...], torch.dtype]
"""Shape and dtype."""


@dataclass
class Catalogue:
    """tensors: what this rank has, by name (of tied ones the first): parameters, and buffers that belong to the state.
    owners: of every tensor of the model the rank that tells it, of a buffer one that changes it if any does; metas: its
    shape and dtype. keys: of the model's state dict, in order, each with the name of its tensor."""

    ranks: Ranks
    tensors: dict[str, Tensor]
    owners: dict[str, int]
    metas: dict[str, Meta]
    keys: dict[str, str]

    @property
    def owned(self) -> dict[str, Tensor]:
        """What this rank tells."""
        return {name: value for name, value in self.tensors.items() if self.owners[name] == self.ranks.rank}

    def whole(self) -> dict[str, Tensor]:
        """The model's state dict, on rank 0 and on the CPU; {} elsewhere. Every rank must call it."""
        found: dict[str, Tensor] = {}
        for name, owner in self.owners.items():
            if self.ranks.rank == owner == 0:
                found[name] = self.tensors[name].detach().cpu().clone()
            elif self.ranks.rank == owner:
                dist.send(self.tensors[name].detach().contiguous(), 0)
            elif self.ranks.rank == 0:
                shape, dtype = self.metas[name]
                room = torch.empty(shape, dtype=dtype, device=self.ranks.device)
                dist.recv(room, owner)
                found[name] = room.cpu()
        return {key: found[name] for key, name in self.keys.items()} if self.ranks.rank == 0 else {}


def make_catalogue(machine: Machine, ranks: Ranks, built: Built, idle: dict[str, Tensor]) -> Catalogue:
    """Every rank must call it. built: the module, whose names count; idle: parameters that nothing reads, on rank 0."""
    keys = _keys(built)
    inside = {id(tensor) for stage in machine.stages.values() for tensor in stage.program.module.buffers()}
    buffers = {name: machine.held.buffers[name] for name in keys.values() if name in machine.held.buffers}
    mine: dict[str, Tensor] = {**machine.held.parameters, **idle}
    mine |= {name: tensor for name, tensor in buffers.items() if id(tensor) in inside}
    operators = [operator for segment in machine.stages for operator in machine.script.segments[segment].operators]
    written = {id(machine.held.buffers[name]) for name in machine.program.buffer_names_changed(operators)}
    told = ranks.all_of({name: (tuple(t.shape), t.dtype, id(t) in written) for name, t in mine.items()})
    each = [(name, rank, *meta) for rank, names in enumerate(told) for name, meta in names.items()]
    metas: dict[str, Meta] = {name: (shape, dtype) for name, _, shape, dtype, _ in each}
    owners: dict[str, int] = {}
    for name, rank, *_ in sorted(each, key=lambda one: not one[-1]):
        owners.setdefault(name, rank)
    for name, tensor in buffers.items():  # in no segment: as it was made, on every rank alike
        if name not in owners:
            owners[name], metas[name] = 0, (tuple(tensor.shape), tensor.dtype)
            mine[name] = tensor
    order = list(dict.fromkeys(keys.values()))
    return Catalogue(
        ranks, mine, {name: owners[name] for name in order}, {name: metas[name] for name in order}, keys
    )  # fmt: skip


def _keys(built: Built) -> dict[str, str]:
    """Key of the module's state dict -> the first name of its tensor."""
    first: dict[int, str] = {}
    for name, tensor in (*built.module.named_parameters(), *built.module.named_buffers()):
        first.setdefault(id(tensor), name)
    state = built.module.state_dict(keep_vars=True)
    return {key: first[id(value)] for key, value in state.items() if isinstance(value, Tensor)}
