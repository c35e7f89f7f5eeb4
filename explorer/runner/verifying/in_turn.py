"""The model computed in parts, one after another, in a plain loop: what a run is compared with.

Each part is on one rank, which holds its parameters alone; all of the model on one rank is the case of a single part.
Share after share of the mini-batch goes forward through all parts and back again, before the next one begins, and only
one rank computes at a time. Nothing of the engine is in it: no script, no channels, no schedule, no replicas. What goes
from part to part is sent where it is needed, by every rank in the one order of the parts, so that no two can wait for
each other. Where a gradient flows is asked of autograd as it runs, not of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import torch
import torch.distributed as dist
from torch import Tensor, nn

from explorer.runner.model.drawing import Drawing, seed_calls
from explorer.runner.model.optimizers import dense, step
from explorer.runner.model.program import Program
from explorer.runner.model.segment_module import Kind, SegmentProgram
from explorer.runner.model.weights import Held
from solvers.errors import RunError


@dataclass(frozen=True, slots=True)
class Part:
    """operators: positions of forward operators of the graph. rank: who computes it."""

    operators: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Given:
    """What there is to compute with. samples: as `make_samples` gives them, of ``mini_batch`` samples, ``share`` of
    which are taken at once. seed: of what the model draws (dropout). process_of: a rank's number among all processes.
    """

    program: Program
    rank: int
    device: torch.device
    samples: tuple[Tensor, ...]
    share: int
    mini_batch: int
    training: bool
    seed: int
    process_of: Callable[[int], int]


def in_order(program: Program, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Each after those that it reads from. Raises RunError where an operator is in no part or in two, a parameter is
    read on several ranks, or parts wait for each other."""
    home = {operator: number for number, part in enumerate(parts) for operator in part.operators}
    if sorted(o for part in parts for o in part.operators) != list(range(len(program.folded.groups))):
        raise RunError("the segments of the plan are not all of the model, each operator once: plan again")
    for name, readers in program.readers.items():
        if len({parts[home[reader]].rank for reader in readers}) > 1:
            raise RunError(f"the parameter {name} is read on several ranks: plan again")
    before = {n: {home[program.edges[t].producer] for t in reads(program, part)} for n, part in enumerate(parts)}
    try:
        return tuple(parts[n] for n in TopologicalSorter(before).static_order())
    except CycleError as error:
        raise RunError(f"segments {error.args[1]} wait for each other: plan again") from None


def reads(program: Program, part: Part) -> tuple[int, ...]:
    """Forward tensors that a part needs of others."""
    return program.crossing(part.operators)[0]


def names_of(program: Program, parts: Sequence[Part], rank: int) -> tuple[str, ...]:
    """The parameters that a rank holds for its parts."""
    return program.parameters_of([o for part in parts if part.rank == rank for o in part.operators])


class InTurn:
    """One rank of it; every rank makes one with the same parts in the same order (`in_order`), and calls its methods.

    gradients: of the parameters of this rank after the first `iterate`, by name."""

    def __init__(
        self, given: Given, parts: Sequence[Part], held: Held, optimizer: torch.optim.Optimizer | None
    ) -> None:
        self.given, self.parts, self.held, self.optimizer = given, tuple(parts), held, optimizer
        self.gradients: dict[str, Tensor] = {}
        program = given.program
        self._reads = [reads(program, part) for part in parts]
        made_in = {o: number for number, part in enumerate(parts) for o in part.operators}
        self._source = {t: made_in[program.edges[t].producer] for tensors in self._reads for t in tensors}
        self._modules: dict[int, SegmentProgram] = {
            number: program.segment(part.operators, given.share, held)
            for number, part in enumerate(parts)
            if part.rank == given.rank
        }
        self._drawing = {n: seed_calls(one.module) for n, one in self._modules.items()}
        self._iterations = 0
        self._made: dict[int, Tensor] = {}
        self._leaves: dict[tuple[int, int], Tensor] = {}
        self._losses: dict[int, list[Tensor]] = {}
        self._back: dict[int, Tensor] = {}
        self._known: dict[tuple[int, int, bool], bool] = {}
        self._announced: set[tuple[int, int, bool]] = set()

    @property
    def trained(self) -> dict[str, nn.Parameter]:
        """The trainable parameters of this rank, by name."""
        return {name: p for name, p in self.held.parameters.items() if p.requires_grad}

    def iterate(self) -> float:
        """One mini-batch and its update; this rank's part of the loss."""
        self._iterations += 1
        for parameter in self.held.parameters.values():
            parameter.grad = None
        loss = sum(self._share(first) for first in range(0, self.given.mini_batch, self.given.share))
        if not self.gradients:
            self.gradients = {n: dense(p.grad) for n, p in self.held.parameters.items() if p.grad is not None}
        if self.given.training and self.optimizer is not None:
            step(self.optimizer)
        return loss

    def _share(self, first: int) -> float:
        loss = sum(self._forward(number, first) for number in range(len(self.parts)))
        if self.given.training:
            for number in reversed(range(len(self.parts))):
                self._backward(number)
        for store in (self._made, self._leaves, self._losses, self._back):
            store.clear()
        return loss

    def _forward(self, number: int, first: int) -> float:
        for tensor in self._reads[number]:
            self._hand_on(tensor, number)
        if number not in self._modules:
            return 0.0
        module, weight = self._modules[number], self.given.share / self.given.mini_batch
        inputs = [
            self._leaves[number, i.position] if i.kind is Kind.TENSOR else self._sample(i.position, first)
            for i in module.inputs
        ]
        with torch.set_grad_enabled(self.given.training):
            results = self._draw(first, module.module, *inputs) if self._drawing[number] else module.module(*inputs)
            loss, ends = 0.0, []
            for output, value in zip(module.outputs, results, strict=True):
                if output.kind is Kind.TENSOR:
                    self._made[output.position] = value
                elif value.is_floating_point():
                    loss += float(value.detach().mean()) * weight
                    if value.requires_grad:
                        ends.append(value.mean() * weight)
        self._losses[number] = ends
        return loss

    def _draw(self, first: int, module: nn.Module, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Random numbers are those of the run: by seed, iteration, operator and first sample."""
        return Drawing(self.given.seed, lambda: self._iterations, lambda sample: sample)(first, module, *inputs)

    def _backward(self, number: int) -> None:
        if number in self._modules:
            made = [o.position for o in self._modules[number].outputs if o.kind is Kind.TENSOR]
            sent = [tensor for tensor in made if tensor in self._back]
            ends = [*self._losses[number], *(self._made[tensor] for tensor in sent)]
            if ends:
                starts = [None] * len(self._losses[number])
                torch.autograd.backward(ends, [*starts, *(self._back.pop(tensor) for tensor in sent)])
        for tensor in self._reads[number]:
            self._hand_back(tensor, number)

    def _sample(self, position: int, first: int) -> Tensor:
        program, whole = self.given.program, self.given.samples[position]
        dim = program.sample_dim(program.captured.inputs[position])
        return whole if dim is None else whole.narrow(dim, first, self.given.share)

    # -- from part to part ------------------------------------------------------------------------

    def _hand_on(self, tensor: int, number: int) -> None:
        """A tensor from the part that made it, a leaf in the one that reads it."""
        here, source, reader = self.given.rank, self.parts[self._source[tensor]].rank, self.parts[number].rank
        if here == source == reader:
            value, flows = self._made[tensor], self._made[tensor].requires_grad
        elif here == source:
            value = self._made[tensor]
            self._announce((tensor, number, False), value.requires_grad, reader)
            dist.send(value.detach().contiguous(), self.given.process_of(reader))
            return
        elif here == reader:
            flows = self._flows((tensor, number, False), source)
            value = self._room(tensor)
            dist.recv(value, self.given.process_of(source))
        else:
            return
        self._leaves[number, tensor] = value.detach().requires_grad_(flows)

    def _hand_back(self, tensor: int, number: int) -> None:
        """What a reader's backward left at its leaf, to the part that made it; several readers' add up."""
        here, source, reader = self.given.rank, self.parts[self._source[tensor]].rank, self.parts[number].rank
        gradient: Tensor | None = None
        if here == reader:
            gradient = self._leaves.pop((number, tensor)).grad
            if here != source:
                self._announce((tensor, number, True), gradient is not None, source)
                if gradient is not None:
                    dist.send(gradient.contiguous(), self.given.process_of(source))
        elif here == source and self._flows((tensor, number, True), reader):
            gradient = self._room(tensor)
            dist.recv(gradient, self.given.process_of(reader))
        if here == source and gradient is not None:
            self._back[tensor] = self._back[tensor] + gradient if tensor in self._back else gradient

    def _room(self, tensor: int) -> Tensor:
        program = self.given.program
        value = program.sized[self.given.share][0].values[program.edges[tensor].value]
        return torch.empty(value.shape, dtype=getattr(torch, value.dtype), device=self.given.device)

    def _announce(self, what: tuple[int, int, bool], flag: bool, rank: int) -> None:
        """(tensor, part that reads it, whether its gradient is meant): whether there is one. It is asked of autograd in
        the first share; all have the same graph."""
        if self._known.setdefault(what, flag) is not flag:
            raise RunError(f"the model makes other gradients of one share than of another (tensor {what[0]})")
        if what not in self._announced:
            self._announced.add(what)
            dist.send(torch.tensor([int(flag)], device=self.given.device), self.given.process_of(rank))

    def _flows(self, what: tuple[int, int, bool], rank: int) -> bool:
        if what not in self._known:
            flag = torch.empty(1, dtype=torch.int64, device=self.given.device)
            dist.recv(flag, self.given.process_of(rank))
            self._known[what] = bool(flag.item())
        return self._known[what]
