"""Begin a training from a plan, or go on with one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torch import nn

from explorer.runner.engine.machine import assemble, names_held, script_of, shares_of
from explorer.runner.model.construct import Built
from explorer.runner.model.program import Program, trace_built
from explorer.runner.model.weights import Held, held
from explorer.runner.scripts.executable import shares_states
from explorer.runner.scripts.script import Script
from explorer.runner.training import checkpoint
from explorer.runner.training.batches import Batches, Feed, Reader, called_with, checksum, divided
from explorer.runner.training.catalogue import make_catalogue
from explorer.runner.training.models import Source, source_of
from explorer.runner.training.optimizing import Schedule, make_updater
from explorer.runner.training.ranks import Ranks, connected
from explorer.runner.training.refusals import (
    Factory,
    Loss,
    check_autocast,
    check_loss,
    check_optimizer,
    check_plan,
    identity,
    loss_position,
)
from explorer.runner.training.training import Batch, Setup, Training
from solvers.errors import RunError
from solvers.formats.plan_json import PlanFile


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is trained, with what, and how: as `explorer.launch` says."""

    model: object
    optimizer: Factory
    batches: Batches
    loss: Loss | None = None
    schedule: Schedule | None = None
    clip: float | None = None
    accumulate: int = 1
    seed: int = 0
    resume: str | os.PathLike[str] | None = None

    def check(self) -> None:
        """Raises RunError for a number that means nothing."""
        if isinstance(self.accumulate, bool) or not isinstance(self.accumulate, int) or self.accumulate < 1:
            raise RunError(f"accumulate: expected a whole number from 1, found {self.accumulate!r:.50}")
        if self.clip is not None and not 0 < self.clip < float("inf"):
            raise RunError(f"clip: expected a norm above 0, found {self.clip!r:.50}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**31:
            raise RunError(f"seed: expected a whole number from 0 to {2**31 - 1}, found {self.seed!r:.50}")


class Traced(NamedTuple):
    """A model as the plan runs it. output: which of the model's is trained on; first: the first mini-batch."""

    source: Source
    program: Program
    script: Script
    output: int
    reader: Reader
    first: Batch


def launch(file: PlanFile, wanted: Wanted, backend: str = "auto") -> Training:
    """See `explorer.api.launch`."""
    with connected(backend) as ranks:
        return _launched(ranks, file, wanted)


def _launched(ranks: Ranks, file: PlanFile, wanted: Wanted) -> Training:
    def checked() -> str:
        check_plan(file, ranks.count)
        check_autocast()
        wanted.check()
        check_optimizer(wanted.optimizer, file, ranks.device)
        return f"{identity(file)} {wanted.accumulate} {wanted.clip} {wanted.seed} {wanted.resume}"

    _same(ranks, ranks.agreed(checked, "optimizer"), "the plan, accumulate, clip, seed or resume")
    resume, seed = None if wanted.resume is None else Path(wanted.resume), wanted.seed
    progress = None if resume is None else ranks.agreed(lambda: checkpoint.progress_of(resume))
    feed = Feed(wanted.batches, ranks, 0 if progress is None else progress.mini_batches)
    drawn = feed.next(lambda batch: divided(batch, wanted.loss is not None))
    if drawn is None:
        raise RunError(f"batches: there is none after {feed.taken}")
    _same(ranks, checksum(drawn), "the first mini-batch; draw it from a generator with a seed")
    traced = ranks.agreed(lambda: _traced(ranks, file, wanted, drawn), "model")
    source, script = traced.source, traced.script

    def parts() -> tuple[Built, Held, dict[str, nn.Parameter]]:
        names = names_held(script, traced.program, ranks.rank // traced.program.members)
        every = [name for name, _ in source.build((), 0).module.named_parameters()]
        idle = [name for name in every if name not in traced.program.readers] if ranks.rank == 0 else []
        built, dtype = source.build([*names, *idle], seed), traced.program.dtype
        return built, held(built, names, dtype, ranks.device), held(built, idle, dtype, ranks.device).parameters

    built, own, idle = ranks.agreed(parts, "model")
    machine = ranks.agreed(lambda: assemble(script, traced.program, own, (), ranks.rank, ranks.device), "model")
    machine.states_on_host = bool(file.problem.state_links)
    if shares_states(file.problem, file.plan):
        machine.share_out_states()
    catalogue = make_catalogue(machine, ranks, built, dict(idle))
    updater = ranks.agreed(
        lambda: make_updater(machine, ranks, wanted.optimizer, wanted.schedule, wanted.clip), "optimizer or schedule"
    )
    have = ranks.all_of(updater.optimizer is not None)
    if not any(have):
        raise RunError(f"the model {source.name} has no parameters to train")
    updater.first = have.index(True) == ranks.rank
    if resume is not None:
        checkpoint.load(resume, catalogue, updater)
    steps, seed = (0, seed) if progress is None else (progress.steps, progress.seed)
    setup = Setup(
        ranks, machine, traced.reader, catalogue, updater, wanted.loss, traced.output, wanted.accumulate, seed
    )
    return Training(setup, feed, traced.first, steps)


def _traced(ranks: Ranks, file: PlanFile, wanted: Wanted, drawn: tuple[object, object]) -> Traced:
    """The model of the first mini-batch, held against the plan. drawn: (its inputs, its targets)."""
    problem = file.problem
    source = source_of(wanted.model, called_with(drawn[0]))
    built = source.build((), 0)
    program = trace_built(
        built, problem.graph.name, source.name, training=True, dtype=None, graph=problem.as_traced.graph,
        samples=shares_of(problem, file.plan),
    )  # fmt: skip
    script = script_of(problem, file.plan, program)
    output = loss_position(program, wanted.loss, source.name)
    reader = Reader(program, (built.args, built.kwargs), problem.mini_batch, ranks.device)
    first = reader.read(*drawn)
    if wanted.loss is not None:
        check_loss(program, script, output, wanted.loss, first[1], ranks.device)
    return Traced(source, program, script, output, reader, first)


def _same(ranks: Ranks, value: object, what: str) -> None:
    """Raises RunError on every rank if they do not have the same."""
    if len(set(ranks.all_of(value))) > 1:
        raise RunError(f"the ranks differ in {what}")
