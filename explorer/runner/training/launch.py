"""Begin a training from a plan, or go on with one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from explorer.runner.engine.machine import assemble, names_held, script_of, shares_of
from explorer.runner.model.program import trace_built
from explorer.runner.model.weights import held
from explorer.runner.training import checkpoint
from explorer.runner.training.batches import Batches, Feed, Reader, called_with, checksum, divided
from explorer.runner.training.catalogue import make_catalogue
from explorer.runner.training.models import source_of
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
from explorer.runner.training.training import Setup, Training
from solvers.errors import RunError
from solvers.formats.plan_json import PlanFile


def launch(
    file: PlanFile,
    *,
    model: object,
    optimizer: Factory,
    batches: Batches,
    loss: Loss | None = None,
    schedule: Schedule | None = None,
    clip: float | None = None,
    accumulate: int = 1,
    seed: int = 0,
    resume: str | os.PathLike[str] | None = None,
    backend: str = "auto",
) -> Training:
    """See `explorer.api.launch`."""
    with connected(backend) as ranks:
        return _launched(
            ranks, file, model, optimizer, batches, loss, schedule, clip, accumulate, seed,
            None if resume is None else Path(resume),
        )  # fmt: skip


def _launched(
    ranks: Ranks, file: PlanFile, model: object, optimizer: Factory, batches: Batches, loss: Loss | None,
    schedule: Schedule | None, clip: float | None, accumulate: int, seed: int, resume: Path | None,
) -> Training:  # fmt: skip
    problem, plan = file.problem, file.plan

    def asked() -> str:
        check_plan(file, ranks.count)
        check_autocast()
        if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
            raise RunError(f"accumulate: expected a whole number from 1, found {accumulate!r:.50}")
        if clip is not None and not 0 < clip < float("inf"):
            raise RunError(f"clip: expected a norm above 0, found {clip!r:.50}")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
            raise RunError(f"seed: expected a whole number from 0 to {2**31 - 1}, found {seed!r:.50}")
        check_optimizer(optimizer, problem, ranks.device)
        return f"{identity(file)} {accumulate} {clip} {seed} {resume}"

    _same(ranks, ranks.agreed(asked, "optimizer"), "the plan, accumulate, clip, seed or resume")
    progress = None if resume is None else ranks.agreed(lambda: checkpoint.progress_of(resume))
    feed = Feed(batches, ranks, 0 if progress is None else progress.mini_batches)
    drawn = feed.next(lambda batch: divided(batch, loss is not None))
    if drawn is None:
        raise RunError(f"batches: there is none after {feed.taken}")
    _same(ranks, checksum(drawn), "the first mini-batch; draw it from a generator with a seed")

    def traced() -> Any:
        source = source_of(model, called_with(drawn[0]))
        built = source.build((), 0)
        program = trace_built(
            built, problem.graph.name, source.name, training=True, dtype=None, graph=problem.as_traced.graph,
            samples=shares_of(problem, plan),
        )  # fmt: skip
        script = script_of(problem, plan, program)
        position = loss_position(program, loss, source.name)
        reader = Reader(program, (built.args, built.kwargs), problem.mini_batch, ranks.device)
        first = reader.read(*drawn)
        if loss is not None:
            check_loss(program, script, position, loss, first[1], ranks.device)
        return source, program, script, position, reader, first

    source, program, script, position, reader, first = ranks.agreed(traced, "model")

    def parts() -> Any:
        names = names_held(script, program, ranks.rank)
        every = [name for name, _ in source.build((), 0).module.named_parameters()]
        idle = [name for name in every if name not in program.readers] if ranks.rank == 0 else []
        built = source.build([*names, *idle], seed)
        unread = held(built, idle, program.dtype, ranks.device).parameters
        return built, held(built, names, program.dtype, ranks.device), unread

    built, mine, idle = ranks.agreed(parts, "model")
    machine = ranks.agreed(lambda: assemble(script, program, mine, (), ranks.rank, ranks.device), "model")
    catalogue = make_catalogue(machine, ranks, built, dict(idle))
    updater = ranks.agreed(lambda: make_updater(machine, ranks, optimizer, schedule, clip), "optimizer or schedule")
    have = ranks.all_of(updater.optimizer is not None)
    if not any(have):
        raise RunError(f"the model {source.name} has no parameters to train")
    updater.first = have.index(True) == ranks.rank
    if resume is not None:
        checkpoint.load(resume, catalogue, updater)
    steps, seed = (0, seed) if progress is None else (progress.steps, progress.seed)
    setup = Setup(ranks, machine, reader, catalogue, updater, loss, position, accumulate, seed)
    return Training(setup, feed, first, steps)


def _same(ranks: Ranks, value: Any, what: str) -> None:
    """Raises RunError on every rank if they do not have the same."""
    if len(set(ranks.all_of(value))) > 1:
        raise RunError(f"the ranks differ in {what}")
