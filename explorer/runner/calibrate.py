"""Measures a model's operators and the links between ranks: ``torchrun ... -m explorer.runner.calibrate BUNDLE``.

Every rank runs the whole model of the bundle's plan, or one block of its operators after another where there is no
room for all of it (`measuring.blocks`), all at the same time, as the ranks of a plan do: what they take from one
another (memory bandwidth, clocks) is in the figures. Rank 0 writes result.json with a `Profile`; how the ranks'
operators are spread over devices in the plan does not matter.
"""

from __future__ import annotations

import platform
import socket
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

from explorer.costs.profile import EngineTimes, OperatorTimes, Profile, WholeTimes
from explorer.costs.roofline import stated_dtype
from explorer.runner import rank as ranks_of_a_run
from explorer.runner.block_times import Bench, measure_in_blocks
from explorer.runner.bundles.outcome import Environment, Outcome, RunStatus
from explorer.runner.bundles.progress import report
from explorer.runner.bundles.request import RunRequest
from explorer.runner.bundles.result_json import write_outcome
from explorer.runner.engine.engine_times import engine_times
from explorer.runner.engine.gather import device_name
from explorer.runner.measuring.collective_times import measure_collectives
from explorer.runner.measuring.counted import Counted
from explorer.runner.measuring.link_times import measure_links
from explorer.runner.measuring.operator_times import step_overhead, timer_of
from explorer.runner.measuring.place import Place, probe
from explorer.runner.model.exchanges.group import Members, join
from explorer.runner.model.program import Program, trace_for_run
from solvers.errors import RunError
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.plan_json import PlanFile
from solvers.problem.graph import OpGraph, Phase

SAMPLES = (1, 2, 4, 8, 16)
"""Numbers of samples, unless others are asked for."""
WORTH_A_REMARK = 0.05
TOO_NOISY = 0.1
"""Beyond it, what dividing the backward costs is not known."""


def run(bundle: Path, rank: int) -> None:
    """Everything one rank does. Raises PlacementError for what a person can mend."""
    file, request, ranks, device, pinned = ranks_of_a_run.begin(bundle)
    place = Place(rank, ranks, device, pinned)
    outcome = calibrate(file, request, place)
    if rank == 0:
        write_outcome(bundle / "result.json", outcome)
    dist.barrier()
    dist.destroy_process_group()  # not after a failure, see `rank.run`
    report("done", 1, 1)


def calibrate(file: PlanFile, request: RunRequest, place: Place) -> Outcome:
    """The outcome, with the same profile on every rank but for links, which rank 0 has."""
    graph = file.problem.as_traced.graph
    memory: list[float] = [0.0] * place.ranks
    names: list[tuple[str, str]] = [("", "")] * place.ranks
    dist.all_gather_object(memory, place.memory_bytes())
    dist.all_gather_object(names, (socket.gethostname(), device_name(place.device)))
    hosts, hardware = tuple(host for host, _ in names), tuple(device for _, device in names)
    with torch.random.fork_rng(devices=[]):
        noise = probe(place.device)
    report("tracing")
    program, counts, notes = _traced(file, request, request.samples or SAMPLES)
    join(*(Members(0, degree) for degree in program.degrees))  # one for itself: what groups exchange is measured apart
    now, clock = timer_of(place.device, request.threads)
    counted, updates = measure_in_blocks(Bench(file, request, place, program, notes), counts)
    overhead_s = place.mean([step_overhead(place.device, now)])[0]
    links = measure_links(place.rank, hosts, place.device, on_pair=lambda done, of: report("measuring links", done, of))
    report("measuring collectives")
    collectives = measure_collectives(place.rank, hosts, place.device)
    report("measuring the engine")
    engine = engine_times(
        place.rank, place.ranks, place.device, own_core=place.pinned and request.threads == 1, training=graph.trains
    )
    with torch.random.fork_rng(devices=[]):
        noise = place.largest(max(noise, probe(place.device)))
    report("gathering")
    notes += _remarks(counted, noise)
    environment = Environment(
        hosts, hardware, str(dist.get_backend()), str(torch.__version__), platform.python_version(), request.threads,
        datetime.now(UTC).isoformat(timespec="seconds"), place.pinned,
    )  # fmt: skip
    profile = Profile(
        reference=file.reference, graph_sha256=graph_hash(graph), training=graph.trains,
        dtype=stated_dtype(graph) or "fp32", hardware=hardware, hosts=hosts, backend=environment.backend,
        torch=environment.torch, python=environment.python, date=environment.date, threads=request.threads,
        pinned=place.pinned, samples=tuple(each.samples for each in counted), operators=_operators(graph, counted),
        updates=updates, wholes=tuple(_whole(graph, each) for each in counted), links=links,
        step_overhead_s=overhead_s, noise=noise, memory_bytes=tuple(memory), notes=tuple(notes), clock=clock,
        engine=with_adding(engine, graph, [each.measured.added_s for each in counted]), collectives=collectives,
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


def _operators(graph: OpGraph, counted: list[Counted]) -> tuple[OperatorTimes, ...]:
    return tuple(
        OperatorTimes(
            operator.name,
            tuple(each.measured.seconds[position] for each in counted),
            tuple(each.measured.spread[position] for each in counted),
        )
        for position, operator in enumerate(graph.operators)
        if operator.phase is not Phase.UPDATE
    )


def _whole(graph: OpGraph, at: Counted) -> WholeTimes:
    of = at.measured
    return WholeTimes(
        at.samples, of.forward_s, of.backward_s, of.total(graph, forward=True), of.total(graph, forward=False),
        at.alone_s,
    )  # fmt: skip


def with_adding(engine: EngineTimes, graph: OpGraph, added_s: Sequence[float]) -> EngineTimes:
    """The engine's costs with that of adding to gradients. added_s: seconds of all parameters, at each number of
    samples, on which they do not depend: the median counts, and never less than nothing."""
    nbytes = sum(operator.trained_bytes for operator in graph.operators)
    each_s = max(0.0, median(added_s)) / nbytes if nbytes > 0 else 0.0
    return replace(engine, costs=replace(engine.costs, added_byte_s=each_s))


def _remarks(counted: list[Counted], noise: float) -> list[str]:
    last = counted[-1].measured
    remarks = []
    if last.split_ratio > 1 + WORTH_A_REMARK and noise < TOO_NOISY:
        remarks.append(
            f"gradients of inputs and of parameters one after the other took {last.split_ratio - 1:.0%} longer than in"
            " one go; plans that compute them apart (zero-bubble) are predicted as if in one go"
        )
    whole_s = last.forward_s + last.backward_s
    if whole_s > 0 and last.unclaimed_s > WORTH_A_REMARK * whole_s:
        remarks.append(
            f"{last.unclaimed_s / whole_s:.0%} of the time went into gradients that no operator of the graph stands for"
        )
    return remarks


if __name__ == "__main__":
    ranks_of_a_run.end(ranks_of_a_run.main(work=run))
