"""A launch that runs many plans: ``many FOLDER PROCESSES``. Torch is imported and every model traced once; then
the process divides, and every part of it is a rank.

FOLDER/cases.json lists cases [name, ranks, plan file, request, whether to
spoil a gradient]; they are run one after the other, each on
processes 0 to ranks - 1, and process 0 writes FOLDER/results.json: name -> the agreement, or the error.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from explorer.runner.bundles.request import RunRequest, read_request
from explorer.runner.bundles.result_json import outcome_text
from explorer.runner.engine import machine as machines
from explorer.runner.engine.gather import gather
from explorer.runner.engine.machine import make_machine
from explorer.runner.engine.measure import measure
from explorer.runner.engine.reference import verify
from explorer.runner.engine.segment_times import operator_seconds
from explorer.runner.model.program import Program
from explorer.tracing.captured import Value
from solvers.formats.plan_json import PlanFile, read_plan

DEVICE = torch.device("cpu")


def main(folder: Path, cases: list[Any], process: int) -> None:
    results: dict[str, Any] = {}
    for number, (name, ranks, plan, request, spoil) in enumerate(cases):
        if process >= ranks:
            continue
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet{number}", rank=process, world_size=ranks)
        results[name] = run(folder / plan, request, process, ranks, spoil)
        dist.destroy_process_group()
    if process == 0:
        (folder / "results.json").write_text(json.dumps(results))


def run(plan: Path, given: dict[str, Any], rank: int, ranks: int, spoil: bool) -> dict[str, Any]:
    request = read_request(given)
    file = read_plan(plan.read_bytes(), str(plan))
    machine = make_machine(file, request, rank, ranks, DEVICE)
    if spoil:
        flowing_back = machine.exchange.flowing_back
        machine.exchange.flowing_back = lambda c, p: tuple(1.001 * t for t in flowing_back(c, p))  # type: ignore[method-assign]
    held: list[Any] = [None] * ranks
    dist.all_gather_object(held, sum(p.numel() * p.element_size() for p in machine.held.parameters.values()))
    sizes = {name: value.nbytes for name, value in whole_sizes(machine).items()}
    found = {"segments": len(machine.script.segments), "bytes": held, "whole_bytes": sum(sizes.values())}
    if request.operators:
        measured = measure(machine, request)
        times = operator_seconds(machine, file.problem.graph)
        outcome = gather(machine, request, measured, None, [], False, times)
        found["outcome"] = outcome_text(outcome) if outcome is not None else ""
        machine = make_machine(file, request, rank, ranks, DEVICE)
    return found | asdict(verify(machine, file.reference, file.problem, request))


def whole_sizes(machine: machines.Machine) -> dict[str, Value]:
    captured = next(iter(machine.program.sized.values()))[0]
    return {name: captured.values[value] for value, name in captured.parameters.items()}


def trace_all(folder: Path, cases: list[Any]) -> None:
    """From here on `make_machine` finds the models traced."""
    known: dict[tuple[Any, ...], Program] = {}

    def key_of(file: PlanFile, request: RunRequest) -> tuple[Any, ...]:
        shares = machines.shares_of(file.problem, file.plan)
        return file.reference, file.problem.graph.trains, file.problem.graph.samples, request.dtype, shares

    for _, _, plan, given, _ in cases:
        file, request = read_plan((folder / plan).read_bytes(), plan), read_request(given)
        key = key_of(file, request)
        if key not in known:
            known[key] = machines.trace(file, request)
    machines.trace = lambda file, request: known[key_of(file, request)]


def divide(processes: int) -> int:
    """Forks; returns which process this is. The first one waits for the others when it ends."""
    for process in range(1, processes):
        if os.fork() == 0:
            return process
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    listed = json.loads((place / "cases.json").read_text())
    trace_all(place, listed)
    main(place, listed, divide(int(sys.argv[2])))
