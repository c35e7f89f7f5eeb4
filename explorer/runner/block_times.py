"""What a model's operators and the steps of its parameters take at several numbers of samples: in one go where there is
room for all of it, else block after block, of which one at a time has its parameters here.

A block is a run of operators in the graph's order. What it reads of earlier blocks are the tensors that these gave for
the same samples, kept on the CPU in between; its backward begins at what it gives to later ones, as at an output of the
model.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from explorer.runner.bundles.progress import report
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine.measure import settled_memory
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
from explorer.runner.model.segment_module import Kind, SegmentProgram
from explorer.runner.model.weights import Held, hold
from solvers.errors import RunError
from solvers.formats.plan_json import PlanFile
from solvers.problem.graph import OpGraph, Phase

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
PER_PARAMETER = 4
"""In training: a gradient and two states of Adam, whose step is measured, beside the parameter."""
AT_ONCE = 3
"""Micro-batches whose saved activations are there at the same time."""


def bytes_of(program: Program, graph: OpGraph, samples: int) -> list[float]:
    """What each forward operator takes of memory where it is measured at so many samples: its parameters, what training
    keeps of them, and what its forward saves. Of a parameter that several operators read, the first one has it."""
    captured = program.captured
    size = {names.split(" = ")[0]: captured.values[value].nbytes for value, names in captured.parameters.items()}
    factor = PER_PARAMETER if graph.trains else 1
    nbytes = [AT_ONCE * o.saved_bytes.at(samples) if graph.trains else 0.0 for o in graph.operators]
    nbytes = nbytes[: len(program.folded.groups)]
    for name, readers in program.readers.items():
        nbytes[readers[0]] += factor * size[name]
    return nbytes


def blocks_of(program: Program, sizes: Sequence[float], room_bytes: float) -> tuple[range, ...]:
    """As few runs of operators as hold at most ``room_bytes`` each (`bytes_of`); one that takes more is alone with what
    cannot be parted from it. Raises RunError if the operators do not stand in the order of the graph."""
    count = len(sizes)
    if sum(sizes) <= room_bytes:
        return (range(count),)
    if any(reader <= edge.producer for edge in program.edges for reader in edge.consumers):
        raise RunError(f"{program.reference}: its operators cannot be measured in blocks, which they must be here")
    together = [(min(pair), max(pair)) for pair in ((reader, writer) for reader, writer, _ in program.early_reads)]
    blocks, first, held = [], 0, 0.0
    cut = 0  # the last place where the block could end
    for operator, size in enumerate(sizes):
        if operator > first and not any(low < operator <= high for low, high in together):
            cut = operator
        if held + size > room_bytes and cut > first:
            blocks.append(range(first, cut))
            first, held = cut, sum(sizes[cut:operator])
        held += size
    return (*blocks, range(first, count))


def room_for(sizes: Sequence[float], blocks: int | None, free_bytes: float) -> float:
    """Bytes of a block: an equal share of all where a number of blocks is asked for, else what is free."""
    return free_bytes if blocks is None else math.ceil(sum(sizes) / blocks)


class Boundaries:
    """What blocks gave for later ones, by number of samples and forward tensor."""

    def __init__(self, program: Program, device: torch.device) -> None:
        self.program, self.device = program, device
        self._outputs: dict[tuple[int, int], Tensor] = {}

    def inputs(self, segment: SegmentProgram, samples: int, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Of a block's module, on the device. given: the model's inputs."""
        return tuple(
            self._outputs[samples, one.position].to(self.device).requires_grad_(one.gradient)
            if one.kind is Kind.TENSOR
            else given[one.position]
            for one in segment.inputs
        )

    def store(self, segment: SegmentProgram, samples: int, outputs: Sequence[Tensor]) -> None:
        """What a block gave."""
        for one, value in zip(segment.outputs, outputs, strict=True):
            if one.kind is Kind.TENSOR:
                self._outputs[samples, one.position] = value.detach().to("cpu", copy=True)

    def forget(self, operator: int) -> None:
        """What only operators before this one read."""
        last = {tensor: max(self.program.edges[tensor].consumers) for _, tensor in self._outputs}
        self._outputs = {(n, tensor): value for (n, tensor), value in self._outputs.items() if last[tensor] >= operator}


@dataclass(frozen=True)
class Bench:
    """What is measured, and how. notes: what is to be said of it is added to them."""

    file: PlanFile
    request: RunRequest
    place: Place
    program: Program
    notes: list[str]

    @property
    def graph(self) -> OpGraph:
        return self.file.problem.as_traced.graph

    def now(self) -> Callable[[], float]:
        """The clock that operators are timed by."""
        return timer_of(self.place.device, self.request.threads)[0]

    def in_time(self, began: float, once_s: float) -> bool:
        """Whether the next count is likely to end in time; all ranks say the same."""
        takes = LEAST_REPETITIONS * (IN_FLIGHT + 1) * once_s + (LEAST_ALONE * IN_FLIGHT + 4) * once_s
        return self.place.largest(time.perf_counter() - began + takes) <= self.request.budget_s * OVER_BUDGET


def measure_in_blocks(bench: Bench, counts: tuple[int, ...]) -> tuple[list[Counted], Updates]:
    """Of all operators: in one go where there is room for it, else block after block, of which only one has its
    parameters here. counts: numbers of samples, those that the budget allows."""
    graph, program, request = bench.graph, bench.program, bench.request
    sizes = bytes_of(program, graph, max(counts))
    free = bench.place.least(ROOM * bench.place.memory_bytes())
    blocks = blocks_of(program, sizes, room_for(sizes, request.blocks, free))
    if len(blocks) > 1:
        bench.notes.append(
            f"measured in {len(blocks)} blocks of operators, one after another, of which one had its parameters here"
        )
    boundaries = Boundaries(program, bench.place.device)
    by_block: list[list[Counted]] = []
    updates: Updates = {}
    of_block = replace(bench, request=replace(request, budget_s=request.budget_s / len(blocks)))
    for block in blocks:
        boundaries.forget(block.start)
        gc.collect()  # modules of graphs refer to themselves, and so to the parameters of the block before
        measured, steps = _block(of_block, block, counts, boundaries)
        counts = tuple(each.samples for each in measured)
        by_block.append(measured)
        for name, seconds in steps.items():
            updates.setdefault(name, {}).update(seconds)
    stepped = {o.name for o in graph.operators if o.phase is Phase.UPDATE and o.forward_of is not None}
    whole_steps = {name: seconds for name, seconds in updates.items() if seconds.keys() == stepped}
    return [added([each for of in by_block for each in of if each.samples == n]) for n in counts], whole_steps


def _block(
    bench: Bench, block: range, counts: tuple[int, ...], boundaries: Boundaries
) -> tuple[list[Counted], Updates]:
    """What the operators of a block take, and the steps of its parameters; what it gives to later ones is kept."""
    program, request = bench.program, bench.request
    held = hold(
        bench.file.reference, program.parameters_of(block), seed=request.seed, dtype=program.dtype,
        device=bench.place.device, allow_model=request.allow_model,
    )  # fmt: skip
    held = program.placed.held(held, 0)
    with settled_memory():
        counted, subject = _measure_counts(bench, block, counts, held, boundaries)
    if not subject.graph.trains:
        return counted, {}
    report("measuring updates")
    return counted, _updates(bench, block, subject, held)


def _measure_counts(
    bench: Bench, block: range, counts: tuple[int, ...], held: Held, boundaries: Boundaries
) -> tuple[list[Counted], Subject]:
    """A block at each number of samples that the budget allows, in several rounds; and what it was at the first."""
    place, now = bench.place, bench.now()
    by_count: list[list[Counted]] = []
    subjects: list[Subject] = []
    slot_s = bench.request.budget_s * OPERATORS_SHARE / len(counts)
    began = time.perf_counter()
    for number, samples in enumerate(counts):
        report("measuring", number, len(counts))
        segment, subject = _subject(bench, block, samples, held, boundaries)
        try:
            once = _wall_s(subject)
        except (RuntimeError, ValueError) as error:
            if isinstance(error, torch.OutOfMemoryError) or by_count:
                raise
            bench.notes.append(f"{samples} samples were left out: {(str(error).splitlines() or [''])[0]}"[:300])
            continue
        if len(by_count) >= 2 and not bench.in_time(began, once):
            left_out = ", ".join(map(str, counts[number:]))
            bench.notes.append(
                f"{left_out} samples were left out: the budget of {bench.request.budget_s:g} s was used up"
            )
            break
        by_count.append([measure_count(subject, place, slot_s / ROUNDS, now)])
        subjects.append(subject)
        if block.stop < len(bench.program.folded.groups):
            boundaries.store(segment, samples, subject.run())
    for _ in range(1, ROUNDS):
        for rounds, subject in zip(by_count, subjects, strict=True):
            if len(by_count) >= 2 and bench.in_time(began, _wall_s(subject)):
                rounds.append(measure_count(subject, place, slot_s / ROUNDS, now))
    if len(by_count) < 2:
        raise RunError(
            f"{bench.file.reference}: could be measured at {len(by_count)} of the numbers of samples {list(counts)}; at"
            " least two are needed, ask for others (--samples)"
        )
    return [mean(rounds) for rounds in by_count], subjects[0]


def _subject(
    bench: Bench, block: range, samples: int, held: Held, boundaries: Boundaries
) -> tuple[SegmentProgram, Subject]:
    """A block at a number of samples, ready to run."""
    program, request, device = bench.program, bench.request, bench.place.device
    segment = program.segment(block, samples, held)
    given = make_samples(
        bench.file.reference, samples, seed=request.seed, dtype=program.dtype, device=device,
        allow_model=request.allow_model,
    )  # fmt: skip
    inputs = boundaries.inputs(segment, samples, given)
    return segment, Subject(bench.graph, segment.module, inputs, program.owners(segment.module), samples, device)


def _wall_s(subject: Subject) -> float:
    """What one run of the whole graph costs of the budget."""
    began = time.perf_counter()
    whole(subject)
    return time.perf_counter() - began


def _updates(bench: Bench, block: range, subject: Subject, held: Held) -> Updates:
    """What a step of each optimizer takes for the parameters of a block's operators."""
    of_operator = {
        operator.name: [
            held.parameters[name]
            for name in bench.program.owned_by((operator.forward_of,))
            if held.parameters[name].requires_grad
        ]
        for operator in subject.graph.operators
        if operator.phase is Phase.UPDATE and operator.forward_of is not None and operator.forward_of in block
    }
    updates: Updates = {}
    for name in MEASURED:
        try:
            dist.barrier()
            stepper = partial(OPTIMIZERS[name], lr=0.0)
            seconds = update_times(
                of_operator, stepper, bench.place.device, now=bench.now(), between=lambda: whole(subject)
            )
        except RuntimeError as error:
            bench.notes.append(f"{name} was left out: {(str(error).splitlines() or [''])[0]}"[:300])
            continue
        updates[name] = dict(zip(seconds, bench.place.mean(list(seconds.values())), strict=True)) if seconds else {}
    return updates
