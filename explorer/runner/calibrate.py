"""Measures a model's operators and the links between ranks: ``torchrun ... -m explorer.runner.calibrate BUNDLE``.

Every rank runs the whole model of the bundle's plan, or one block of its operators after another where there is no
room for all of it (`measuring.blocks`), all at the same time, as the ranks of a plan do: what they take from one
another (memory bandwidth, clocks) is in the figures. Rank 0 writes result.json with a `Profile`; how the ranks'
operators are spread over devices in the plan does not matter.
"""

from __future__ import annotations

import gc
import os
import platform
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import torch.distributed as dist

from explorer.costs.profile import EngineTimes, LinkTimes, OperatorTimes, Profile, WholeTimes
from explorer.costs.roofline import stated_dtype
from explorer.runner import rank as ranks_of_a_run
from explorer.runner.bundles.outcome import Environment, Outcome, RunStatus
from explorer.runner.bundles.progress import tell
from explorer.runner.bundles.request import RunRequest, read_request
from explorer.runner.bundles.result_json import write_outcome
from explorer.runner.engine.affinity import pin
from explorer.runner.engine.engine_times import engine_times
from explorer.runner.engine.garbage import settled_memory
from explorer.runner.engine.gather import device_name
from explorer.runner.measuring.attribution import calm
from explorer.runner.measuring.blocks import Boundaries, blocks_of, bytes_of, room_for
from explorer.runner.measuring.free_memory import free_bytes
from explorer.runner.measuring.link_times import measure_links
from explorer.runner.measuring.noise import probe
from explorer.runner.measuring.operator_times import (
    IN_FLIGHT,
    LEAST_REPETITIONS,
    Measured,
    Subject,
    as_in_a_run,
    measure,
    step_overhead,
    timer_of,
    update_times,
    whole,
)
from explorer.runner.model.optimizers import MEASURED, OPTIMIZERS
from explorer.runner.model.program import Program, trace_for_run
from explorer.runner.model.samples import make_samples
from explorer.runner.model.weights import Held, hold
from explorer.runner.start.transport import connect
from solvers.errors import RunError
from solvers.formats.json_text import parse_json
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.plan_json import PlanFile, read_plan
from solvers.problem.graph import Phase

SAMPLES = (1, 2, 4, 8, 16)
"""Numbers of samples, unless others are asked for."""
OPERATORS_SHARE = 0.7
"""Of the budget, for operators; alone, updates and links take the rest."""
ALONE_SHARE = 0.15
"""Of the time for one number of samples, in which rank 0 works alone."""
ROUNDS = 3
"""In turn through all numbers of samples: a machine that slows down for a while slows none of them more."""
LEAST_ALONE = 3
ROOM = 0.5
"""Of free memory, for a block; the rest is for what operators hold while they run."""
OVER_BUDGET = 1.5
"""A count that would end later than so many budgets is left out, but never the first two."""
WORTH_TELLING = 0.05
TOO_NOISY = 0.1
"""Beyond it, what dividing the backward costs cannot be told."""


@dataclass(frozen=True)
class Place:
    """This rank among the others."""

    rank: int
    ranks: int
    device: torch.device
    pinned: bool

    def mean(self, values: list[float]) -> list[float]:
        """Of every number, the mean over ranks."""
        return [total / self.ranks for total in self._reduced(values, dist.ReduceOp.SUM)]

    def largest(self, value: float) -> float:
        return self._reduced([value], dist.ReduceOp.MAX)[0]

    def least(self, value: float) -> float:
        return self._reduced([value], dist.ReduceOp.MIN)[0]

    def _reduced(self, values: list[float], how: Any) -> list[float]:
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, how)
        return [float(value) for value in tensor.tolist()]


@dataclass(frozen=True)
class Counted:
    """What was measured at one number of samples, means over ranks."""

    samples: int
    measured: Measured
    alone_s: float | None


def run(bundle: Path, rank: int) -> None:
    """Everything one rank does. Raises PlacementError for what a person can mend."""
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    request = read_request(parse_json((bundle / "request.json").read_bytes(), "request.json"))
    file = read_plan((bundle / "plan.json").read_bytes(), "plan.json")
    tell("connecting")
    device = connect(request.backend, request.time_limit_s)
    pinned = False
    if device.type == "cpu":
        torch.set_num_threads(request.threads)
        pinned = request.pin and pin(int(os.environ.get("LOCAL_RANK", "0")), request.threads)
    place = Place(rank, ranks, device, pinned)
    outcome = calibrate(file, request, place)
    if rank == 0:
        write_outcome(bundle / "result.json", outcome)
    dist.barrier()
    dist.destroy_process_group()  # not after a failure, see `rank.run`
    tell("done", 1, 1)


def calibrate(file: PlanFile, request: RunRequest, place: Place) -> Outcome:
    """The outcome, with the same profile on every rank but for links, which rank 0 has."""
    graph, memory = file.problem.as_traced.graph, _memory_bytes(place.device)
    here: list[Any] = [None] * place.ranks
    mine = {"host": socket.gethostname(), "device": device_name(place.device), "memory": memory}
    dist.all_gather_object(here, mine)
    with torch.random.fork_rng(devices=[]):
        noise = probe(place.device)
    wanted = request.samples or SAMPLES
    tell("tracing")
    program, counts, notes = _traced(file, request, wanted)
    now, clock = timer_of(place.device, request.threads)
    counted, updates = _in_blocks(file, request, place, program, counts, notes)
    overhead_s = place.mean([step_overhead(place.device, now)])[0]
    hosts = tuple(str(each["host"]) for each in here)
    links = measure_links(place.rank, hosts, place.device, on_pair=lambda done, of: tell("measuring links", done, of))
    tell("measuring the engine")
    engine = engine_times(
        place.rank, place.ranks, place.device, own_core=place.pinned and request.threads == 1, training=graph.trains
    )
    with torch.random.fork_rng(devices=[]):
        noise = place.largest(max(noise, probe(place.device)))
    tell("gathering")
    profile = _profile(file, request, place, counted, updates, links, overhead_s, noise, here, notes, clock, engine)
    environment = Environment(
        hosts, profile.hardware, profile.backend, profile.torch, profile.python, profile.threads, profile.date,
        profile.pinned,
    )  # fmt: skip
    return Outcome(
        RunStatus.DONE, environment=environment, noise=noise, notes=tuple(notes), profile=profile,
        rank_devices=tuple(range(place.ranks)),
    )  # fmt: skip


def _traced(file: PlanFile, request: RunRequest, wanted: tuple[int, ...]) -> tuple[Program, tuple[int, ...], list[str]]:
    """The model at as many of the counts as it can be traced for: some cannot take a single sample."""
    notes: list[str] = []

    def trace(counts: tuple[int, ...]) -> Program:
        graph = file.problem.as_traced.graph
        return trace_for_run(
            file.reference, training=graph.trains, dtype=None, graph=graph, samples=counts,
            allow_model=request.allow_model,
        )  # fmt: skip

    try:
        return trace(wanted), wanted, notes
    except RunError as error:
        if wanted[0] != 1 or len(wanted) < 3:
            raise
        notes.append(f"a single sample was left out: {error}"[:300])
        return trace(wanted[1:]), wanted[1:], notes


Updates = dict[str, dict[str, float]]
"""Optimizer -> operator -> seconds of its step."""


def _in_blocks(
    file: PlanFile, request: RunRequest, place: Place, program: Program, counts: tuple[int, ...], notes: list[str]
) -> tuple[list[Counted], Updates]:
    """Of all operators: in one go where there is room for it, else block after block, of which only one has its
    parameters here."""
    graph = file.problem.as_traced.graph
    sizes = bytes_of(program, graph, max(counts))
    free = place.least(ROOM * _memory_bytes(place.device))
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
    return [_added([each for of in found for each in of if each.samples == n]) for n in counts], whole_steps


def _added(blocks: list[Counted]) -> Counted:
    """One number of samples over all blocks."""
    if len(blocks) == 1:
        return blocks[0]
    measured, alone = [each.measured for each in blocks], [each.alone_s for each in blocks]
    backward_s = sum(m.backward_s for m in measured)
    return Counted(
        blocks[0].samples,
        Measured(
            [sum(column) for column in zip(*(m.seconds for m in measured), strict=True)],
            [max(column) for column in zip(*(m.spread for m in measured), strict=True)],
            sum(m.forward_s for m in measured),
            backward_s,
            min(m.repetitions for m in measured),
            sum(m.unclaimed_s for m in measured),
            sum(m.apart * m.backward_s for m in measured) / backward_s if backward_s > 0 else 1.0,
        ),
        None if None in alone else sum(one for one in alone if one is not None),
    )


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
        found.append([_measure_count(subject, place, slot_s / ROUNDS, now)])
        subjects.append(subject)
        if block.stop < len(program.folded.groups):
            kept.keep(segment, samples, subject.run())
    for _ in range(1, ROUNDS):
        for rounds, subject in zip(found, subjects, strict=True):
            if len(found) >= 2 and _in_time(request, place, began, _wall_s(subject)):
                rounds.append(_measure_count(subject, place, slot_s / ROUNDS, now))
    if len(found) < 2:
        raise RunError(
            f"{file.reference}: could be measured at {len(found)} of the numbers of samples {list(counts)}; at least"
            " two are needed, ask for others (--samples)"
        )
    return [_mean(rounds) for rounds in found], subjects[0]


def _mean(rounds: list[Counted]) -> Counted:
    """One number of samples as it was measured at several times."""
    measured = [each.measured for each in rounds]
    alone = [each.alone_s for each in rounds if each.alone_s is not None]
    return Counted(
        rounds[0].samples,
        Measured(
            [fmean(column) for column in zip(*(m.seconds for m in measured), strict=True)],
            [fmean(column) for column in zip(*(m.spread for m in measured), strict=True)],
            fmean(m.forward_s for m in measured),
            fmean(m.backward_s for m in measured),
            sum(m.repetitions for m in measured),
            fmean(m.unclaimed_s for m in measured),
            fmean(m.apart for m in measured),
        ),
        fmean(alone) if alone else None,
    )


def _in_time(request: RunRequest, place: Place, began: float, once_s: float) -> bool:
    """Whether the next count is likely to end in time; all ranks say the same."""
    takes = LEAST_REPETITIONS * (IN_FLIGHT + 1) * once_s + (LEAST_ALONE * IN_FLIGHT + 4) * once_s
    return place.largest(time.perf_counter() - began + takes) <= request.budget_s * OVER_BUDGET


def _wall_s(subject: Subject) -> float:
    """What one run of the whole graph costs of the budget."""
    began = time.perf_counter()
    whole(subject)
    return time.perf_counter() - began


def _measure_count(subject: Subject, place: Place, slot_s: float, now: Callable[[], float]) -> Counted:
    alone_s = None
    if place.ranks > 1:
        dist.barrier()
        alone_s = _alone(subject, ALONE_SHARE * slot_s, now) if place.rank == 0 else 0.0
        alone_s = place.largest(alone_s)  # the others wait here
    dist.barrier()
    mine = measure(subject, slot_s * (1 - ALONE_SHARE), now)
    count = len(subject.graph)
    means = place.mean([*mine.seconds, *mine.spread, mine.forward_s, mine.backward_s, mine.unclaimed_s, mine.apart])
    forward_s, backward_s, unclaimed_s, apart = means[2 * count :]
    measured = Measured(
        means[:count], means[count : 2 * count], forward_s, backward_s, mine.repetitions, unclaimed_s, apart
    )
    return Counted(subject.samples, measured, alone_s)


def _alone(subject: Subject, budget_s: float, now: Callable[[], float]) -> float:
    """The lower quartile of repetitions of the whole graph."""
    found: list[float] = []
    until = time.perf_counter() + budget_s
    while len(found) < LEAST_ALONE or time.perf_counter() < until:
        found.append(sum(as_in_a_run(subject, now)))
    return calm(found)


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


def _profile(
    file: PlanFile,
    request: RunRequest,
    place: Place,
    counted: list[Counted],
    updates: Updates,
    links: tuple[LinkTimes, ...],
    overhead_s: float,
    noise: float,
    here: list[Any],
    notes: list[str],
    clock: str,
    engine: EngineTimes,
) -> Profile:
    graph = file.problem.as_traced.graph
    notes += _remarks(counted, noise)
    return Profile(
        reference=file.reference,
        graph_sha256=graph_hash(graph),
        training=graph.trains,
        dtype=stated_dtype(graph) or "fp32",
        hardware=tuple(str(each["device"]) for each in here),
        hosts=tuple(str(each["host"]) for each in here),
        backend=str(dist.get_backend()),
        torch=str(torch.__version__),
        python=platform.python_version(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        threads=request.threads,
        pinned=place.pinned,
        samples=tuple(each.samples for each in counted),
        operators=tuple(
            OperatorTimes(
                operator.name,
                tuple(each.measured.seconds[position] for each in counted),
                tuple(each.measured.spread[position] for each in counted),
            )
            for position, operator in enumerate(graph.operators)
            if operator.phase is not Phase.UPDATE
        ),
        updates=updates,
        wholes=tuple(
            WholeTimes(
                each.samples,
                each.measured.forward_s,
                each.measured.backward_s,
                each.measured.total(graph, forward=True),
                each.measured.total(graph, forward=False),
                each.alone_s,
            )
            for each in counted
        ),
        links=links,
        step_overhead_s=overhead_s,
        noise=noise,
        memory_bytes=tuple(float(each["memory"]) for each in here),
        notes=tuple(notes),
        clock=clock,
        engine=engine,
    )


def _remarks(counted: list[Counted], noise: float) -> list[str]:
    last = counted[-1].measured
    remarks = []
    if last.apart > 1 + WORTH_TELLING and noise < TOO_NOISY:
        remarks.append(
            f"gradients of inputs and of parameters one after the other took {last.apart - 1:.0%} longer than in one"
            " go; plans that compute them apart (zero-bubble) are predicted as if in one go"
        )
    whole_s = last.forward_s + last.backward_s
    if whole_s > 0 and last.unclaimed_s > WORTH_TELLING * whole_s:
        remarks.append(
            f"{last.unclaimed_s / whole_s:.0%} of the time went into gradients that no operator of the graph stands for"
        )
    return remarks


def _memory_bytes(device: torch.device) -> float:
    """What this rank could use now: what is free on its GPU, or its share of what is on the host."""
    shared_by = 1 if device.type == "cuda" else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return free_bytes(device) / shared_by


if __name__ == "__main__":
    ranks_of_a_run.end(ranks_of_a_run.main(work=run))
