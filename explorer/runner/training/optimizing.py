"""The update of all ranks together: the norm of all gradients, the clip, the optimizer's step, the schedule's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from explorer.runner.engine.machine import Machine
from explorer.runner.engine.shards import Shards, share_out
from explorer.runner.model.optimizers import make_dense, step
from explorer.runner.training.ranks import Ranks
from explorer.runner.training.refusals import Factory

Schedule = Callable[[torch.optim.Optimizer], LRScheduler]
"""Optimizer -> what changes its learning rate, once a step."""


@dataclass
class Updater:
    """One rank's part of it. parameters: those it updates, by name; updated: these, or where replicas shard states
    its pieces of them, which the optimizer has in their place; counted: of those the ones whose norm it reports, which
    of replicas is one, and of a whole tensor of a group its first member. optimizer and schedule: None where it
    updates none."""

    ranks: Ranks
    parameters: dict[str, nn.Parameter]
    updated: list[nn.Parameter]
    counted: list[nn.Parameter]
    shards: list[Shards]
    optimizer: torch.optim.Optimizer | None
    schedule: LRScheduler | None
    clip: float | None
    states_on_host: bool = False
    first: bool = False
    """Whether it is the first rank with an optimizer, which reports the learning rate."""

    def update(self, loss: float) -> tuple[float, float | None, float]:
        """A step. loss: this rank's part. Returns the loss of all, the norm of all gradients before they were clipped
        (None: they are not) and the learning rate of the step."""
        squares = 0.0
        if self.clip is not None:
            make_dense(self.updated)
            squares = _squares(self.counted)
        rate = 0.0
        if self.first and self.optimizer is not None:
            rate = float(self.optimizer.param_groups[0]["lr"])
        loss, squares, rate = self.ranks.sums(loss, squares, rate)
        norm = None if self.clip is None else squares**0.5
        if self.clip is not None and norm is not None:
            total = torch.tensor(norm, device=self.ranks.device, dtype=torch.float32)
            clip_grads_with_norm_(self.updated, self.clip, total)
        if self.optimizer is not None:
            step(self.optimizer, states_on_host=self.states_on_host)
        for shards in self.shards:
            shards.gather()
        if isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step(loss)
        elif self.schedule is not None:
            self.schedule.step()
        return loss, norm, rate


def make_updater(
    machine: Machine, ranks: Ranks, factory: Factory, schedule: Schedule | None, clip: float | None
) -> Updater:
    """Raises what the factories raise."""
    names = {id(parameter): name for name, parameter in machine.held.parameters.items()}
    parameters = {names[id(p)]: p for owned in machine.owned.values() for p in owned}
    updated = [p for segment in machine.owned for p in machine.updated(segment)]
    shards = machine.every_shards()
    optimizer = factory(list(parameters.values())) if parameters else None
    if optimizer is not None:
        share_out(optimizer, shards)
    following = schedule(optimizer) if schedule is not None and optimizer is not None else None
    return Updater(
        ranks, parameters, updated, _counted(machine, names), shards, optimizer, following, clip, machine.states_on_host
    )


def _counted(machine: Machine, names: Mapping[int, str]) -> list[nn.Parameter]:
    """What this rank counts of the norm of all gradients. names: of parameters, by identity."""
    here, member, placed = machine.script.devices[machine.rank], machine.members.member, machine.program.placed
    parameters: list[nn.Parameter] = []

    def is_updated_here(parameter: nn.Parameter) -> bool:
        return placed.is_first(names[id(parameter)], member)

    for segment, owned in machine.owned.items():
        if segment in machine.shards:
            pieces = ((each.parameters[piece.of], piece) for each in machine.shards[segment] for piece in each.pieces)
            parameters += [piece.value for parameter, piece in pieces if is_updated_here(parameter)]
        elif machine.script.segments[segment].devices[0] == here:
            parameters += filter(is_updated_here, owned)
    return parameters


def _squares(parameters: list[nn.Parameter]) -> float:
    """The sum of the squares of their gradients."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return 0.0
    norms = torch.stack([torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in gradients])
    return float((norms**2).sum())
