"""What a model's operators and the steps of its parameters take at several numbers of samples: in one go where there is
room for all of it, else block after block, of which one at a time has its parameters here."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.distributed as dist

from explorer.runner.bundles.progress import tell
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine.garbage import settled_memory
from explorer.runner.measuring.blocks import Boundaries, blocks_of, bytes_of, room_for
from explorer.runner.measuring.counted import LEAST_ALONE, Counted, added, mean, measure_count
from explorer.runner.measuring.operator_times import (
    IN_FLIGHT,
    LEAST_REPETITIONS,
    Subject,
    timer_of,
    update_times,
    whole,
)
from explorer.runner.measuring.place import Place
from explorer.runner.model.optimizers import MEASURED, OPTIMIZERS
from explorer.runner.model.program import Program
from explorer.runner.model.samples import make_samples
from explorer.runner.model.weights import Held, hold
from solvers.errors import RunError
from solvers.formats.plan_json import PlanFile
from solvers.problem.graph import Phase

OPERATORS_SHARE = 0.7
"""Of the budget, for operators; alone, updates and links take the rest."""
ROUNDS = 3
"""In turn through all numbers of samples: a machine that slows down for a while slows none of them more."""
ROOM = 0.5
"""Of free memory, for a block; the rest is for what operators hold while they run."""
OVER_BUDGET = 1.5
"""A count that would end later than so many budgets is left out, but never the first two."""

Updates = dict[str, dict[str, float]]
"""Optimizer -> operator -> seconds of its step."""


def measure_in_blocks(
    file: PlanFile, request: RunRequest, place: Place, program: Program, counts: tuple[int, ...], notes: list[str]
) -> tuple[list[Counted], Updates]:
    """Of all operators: in one go where there is room for it, else block after block, of which only one has its
    parameters here."""
    graph = file.problem.as_traced.graph
    sizes = bytes_of(program, graph, max(counts))
    free = place.least(ROOM * place.memory_bytes())
    blocks = blocks_of(program, sizes, room_for(sizes, request.blocks, free))
    if len(blocks) > 1:
        notes.append(
            f"measured in {len(blocks)} blocks of operators, one after another, of which one had its parameters here"
        )
    kept = Boundaries(program, place.device)
    found: list[list[Counted]] = []
    updates: Updates = {}
    for block in blocks:
        kept.forget(block.start)
        gc.collect()  # modules of graphs refer to themselves, and so to the parameters of the block before
        measured, steps = _block(file, replace(request, budget_s=request.budget_s / len(blocks)), place, program,
                                 block, counts, kept, notes)  # fmt: skip
        counts = tuple(each.samples for each in measured)
        found.append(measured)
        for name, seconds in steps.items():
            updates.setdefault(name, {}).update(seconds)
    stepped = {o.name for o in graph.operators if o.phase is Phase.UPDATE and o.forward_of is not None}
    whole_steps = {name: seconds for name, seconds in updates.items() if seconds.keys() == stepped}
    return [added([each for of in found for each in of if each.samples == n]) for n in counts], whole_steps


def _block(
    file: PlanFile,
    request: RunRequest,
    place: Place,
    program: Program,
    block: range,
    counts: tuple[int, ...],
    kept: Boundaries,
    notes: list[str],
) -> tuple[list[Counted], Updates]:
    """What the operators of a block take, and the steps of its parameters; what it gives to later ones is kept."""
    held = hold(
        file.reference, program.parameters_of(block), seed=request.seed, dtype=program.dtype, device=place.device,
        allow_model=request.allow_model,
    )  # fmt: skip
    with settled_memory():
        counted, subject = _measure_counts(file, request, place, program, held, counts, notes, block, kept)
    if not subject.graph.trains:
        return counted, {}
    tell("measuring updates")
    now, _ = timer_of(place.device, request.threads)
    return counted, _updates(subject, program, held, place, notes, now, block)


def _measure_counts(
    file: PlanFile,
    request: RunRequest,
    place: Place,
    program: Program,
    held: Held,
    counts: tuple[int, ...],
    notes: list[str],
    block: range,
    kept: Boundaries,
) -> tuple[list[Counted], Subject]:
    graph = file.problem.as_traced.graph
    group_of = {
        program.captured.nodes[member].name: group
        for group, members in enumerate(program.folded.groups)
        for member in members
    }
    now, _ = timer_of(place.device, request.threads)
    found: list[list[Counted]] = []
    subjects: list[Subject] = []
    slot_s = request.budget_s * OPERATORS_SHARE / len(counts)
    began = time.perf_counter()
    for number, samples in enumerate(counts):
        tell("measuring", number, len(counts))
        segment = program.segment(block, samples, held)
        given = make_samples(
            file.reference, samples, seed=request.seed, dtype=program.dtype, device=place.device,
            allow_model=request.allow_model,
        )  # fmt: skip
        subject = Subject(
            graph=graph,
            module=segment.module,
            inputs=kept.inputs(segment, samples, given),
            owner={
                node.name: group_of[node.meta["call"]]
                for node in segment.module.graph.nodes
                if node.meta.get("call") in group_of
            },
            samples=samples,
            device=place.device,
        )
        try:
            once = _wall_s(subject)
        except (RuntimeError, ValueError) as error:
            if isinstance(error, torch.OutOfMemoryError) or found:
                raise
            notes.append(f"{samples} samples were left out: {(str(error).splitlines() or [''])[0]}"[:300])
            continue
        if len(found) >= 2 and not _in_time(request, place, began, once):
            left_out = ", ".join(map(str, counts[number:]))
            notes.append(f"{left_out} samples were left out: the budget of {request.budget_s:g} s was used up")
            break
        found.append([measure_count(subject, place, slot_s / ROUNDS, now)])
        subjects.append(subject)
        if block.stop < len(program.folded.groups):
            kept.keep(segment, samples, subject.run())
    for _ in range(1, ROUNDS):
        for rounds, subject in zip(found, subjects, strict=True):
            if len(found) >= 2 and _in_time(request, place, began, _wall_s(subject)):
                rounds.append(measure_count(subject, place, slot_s / ROUNDS, now))
    if len(found) < 2:
        raise RunError(
            f"{file.reference}: could be measured at {len(found)} of the numbers of samples {list(counts)}; at least"
            " two are needed, ask for others (--samples)"
        )
    return [mean(rounds) for rounds in found], subjects[0]


def _in_time(request: RunRequest, place: Place, began: float, once_s: float) -> bool:
    """Whether the next count is likely to end in time; all ranks say the same."""
    takes = LEAST_REPETITIONS * (IN_FLIGHT + 1) * once_s + (LEAST_ALONE * IN_FLIGHT + 4) * once_s
    return place.largest(time.perf_counter() - began + takes) <= request.budget_s * OVER_BUDGET


def _wall_s(subject: Subject) -> float:
    """What one run of the whole graph costs of the budget."""
    began = time.perf_counter()
    whole(subject)
    return time.perf_counter() - began


def _updates(
    subject: Subject, program: Program, held: Held, place: Place, notes: list[str], now: Callable[[], float],
    block: range,
) -> Updates:  # fmt: skip
    of_operator = {
        operator.name: [
            held.parameters[name]
            for name in program.owned_by((operator.forward_of,))
            if held.parameters[name].requires_grad
        ]
        for operator in subject.graph.operators
        if operator.phase is Phase.UPDATE and operator.forward_of is not None and operator.forward_of in block
    }
    found: Updates = {}
    for name in MEASURED:
        try:
            dist.barrier()
            stepper = partial(OPTIMIZERS[name], lr=0.0)
            seconds = update_times(of_operator, stepper, place.device, now=now, between=lambda: whole(subject))
        except RuntimeError as error:
            notes.append(f"{name} was left out: {(str(error).splitlines() or [''])[0]}"[:300])
            continue
        found[name] = dict(zip(seconds, place.mean(list(seconds.values())), strict=True)) if seconds else {}
    return found
