"""A training under way: steps of the optimizer, each of one or several mini-batches that run as the plan says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch.distributed as dist
from torch import Tensor

from explorer.runner.engine.machine import Machine
from explorer.runner.model.drawing import Drawing, seed_calls
from explorer.runner.training import checkpoint
from explorer.runner.training.batches import Feed, Reader, divided
from explorer.runner.training.catalogue import Catalogue
from explorer.runner.training.optimizing import Updater
from explorer.runner.training.ranks import Ranks
from explorer.runner.training.refusals import Loss, samples_of

Batch = tuple[tuple[Tensor, ...], object]
"""The model's inputs and the targets."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the optimizer; the same on every rank. number: from 1; loss: the mean over its samples; norm: of all
    gradients before they were clipped, None if they are not; learning_rate: of the first group."""

    number: int
    loss: float
    norm: float | None
    learning_rate: float


@dataclass
class Setup:
    """What a training is made of. accumulate: mini-batches of one step; output: which of the model's is trained on."""

    ranks: Ranks
    machine: Machine
    reader: Reader
    catalogue: Catalogue
    updater: Updater
    loss: Loss | None
    output: int
    accumulate: int
    seed: int


class Training:
    """What `explorer.launch` gives. Every rank must do the same with it: take the same steps, save, gather."""

    def __init__(self, setup: Setup, feed: Feed, first: Batch, steps: int) -> None:
        self._setup, self._feed = setup, feed
        self._next: Batch | None = first
        self.number = steps
        """Optimizer steps so far, those before a checkpoint among them."""
        self.mini_batches = feed.taken - 1
        """Mini-batches so far."""
        self._targets: Any = None
        for segment, stage in setup.machine.stages.items():
            stage.weight /= setup.accumulate
            stage.loss_of = self._loss_of(segment)
            if seed_calls(stage.program.module, setup.machine.drawn_apart):
                stage.calling = Drawing(setup.seed, lambda: self.mini_batches, self._first_of(segment))

    @property
    def rank(self) -> int:
        """This process among those of the training; rank 0 usually does the talking."""
        return self._setup.ranks.rank

    def __iter__(self) -> Iterator[Step]:
        return self.steps()

    def steps(self, most: int | None = None) -> Iterator[Step]:
        """Steps until the mini-batches end, or so many."""
        done = 0
        while most is None or done < most:
            step = self.step()
            if step is None:
                return
            done += 1
            yield step

    def step(self) -> Step | None:
        """One step of the optimizer; None, and nothing changed, if there are not enough mini-batches left for it.

        Raises RunError on every rank if a mini-batch is not of the plan's shape."""
        setup = self._setup
        loss = 0.0
        batches: list[Batch] = []
        while len(batches) < setup.accumulate:
            batch = self._draw()
            if batch is None:
                return None
            batches.append(batch)
        for count, (inputs, targets) in enumerate(batches):
            setup.machine.samples, self._targets = inputs, targets
            setup.machine.recorder.start()
            setup.machine.iterate(adding=count > 0)
            loss += setup.machine.loss() if setup.machine.members.member == 0 else 0.0  # all members have it
            self.mini_batches += 1
        setup.machine.samples, self._targets = (), None
        loss, norm, rate = setup.updater.update(loss)
        self.number += 1
        return Step(self.number, loss, norm, rate)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Keeps parameters, buffers, the optimizer, the schedule and how far the training is, in a new folder that all
        ranks see; `explorer.launch(..., resume=folder)` goes on from it, with any plan of the same model.

        Raises RunError on every rank."""
        setup = self._setup
        checkpoint.save(
            Path(folder), setup.catalogue, setup.updater,
            checkpoint.Progress(self.number, self.mini_batches, setup.seed),
        )  # fmt: skip

    def full_state_dict(self) -> dict[str, Tensor]:
        """The whole model's state dict on rank 0, on the CPU, for ``module.load_state_dict``; {} on other ranks."""
        return self._setup.catalogue.whole()

    def close(self) -> None:
        """Ends the process group, if `explorer.launch` began it."""
        if self._setup.ranks.owns_group and dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()

    def __enter__(self) -> Training:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:  # after a failure the others may not come
            self.close()

    def _draw(self) -> Batch | None:
        if self._next is not None:
            batch, self._next = self._next, None
            return batch
        reader, with_targets = self._setup.reader, self._setup.loss is not None
        return self._feed.next(lambda batch: reader.read(*divided(batch, with_targets)))

    def _loss_of(self, segment: int) -> Any:
        setup = self._setup
        share, first_of = setup.machine.script.segments[segment].share, self._first_of(segment)

        def loss_of(micro_batch: int, position: int, output: Tensor) -> Tensor | None:
            if position != setup.output:
                return None
            if setup.loss is None:
                return output
            return setup.loss(output, samples_of(self._targets, first_of(micro_batch), share))

        return loss_of

    def _first_of(self, segment: int) -> Any:
        return lambda micro_batch: self._setup.machine.exchange.first(segment, micro_batch)
