"""One process of a launch that runs many plans, so that torch is imported once: ``many FOLDER PROCESS``.

FOLDER/cases.json lists cases [name, ranks, plan file, request, whether to
spoil a gradient]; they are run one after the other, each on
processes 0 to ranks - 1, and process 0 writes FOLDER/results.json: name -> the agreement, or the error.
"""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from explorer.runner import machine as machines
from explorer.runner.machine import make_machine
from explorer.runner.program import Program, trace_for_run
from explorer.runner.reference import verify
from explorer.runner.request import read_request
from explorer.tracing.captured import Value
from solvers.formats.plan_json import read_plan

DEVICE = torch.device("cpu")


def main(folder: Path, process: int) -> None:
    torch.set_num_threads(1)
    _trace_once()
    results: dict[str, Any] = {}
    cases = json.loads((folder / "cases.json").read_text())
    for number, (name, ranks, plan, request, spoil) in enumerate(cases):
        if process >= ranks:
            continue
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet{number}", rank=process, world_size=ranks)
        try:
            results[name] = run(folder / plan, request, process, ranks, spoil)
        except Exception as error:
            traceback.print_exc()
            results[name] = {"error": f"{type(error).__name__}: {error}"}
            if process == 0:
                (folder / "results.json").write_text(json.dumps(results))
            raise
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
    return found | asdict(verify(machine, file.reference, file.problem, request))


def whole_sizes(machine: machines.Machine) -> dict[str, Value]:
    captured = next(iter(machine.program.sized.values()))[0]
    return {name: captured.values[value] for value, name in captured.parameters.items()}


def _trace_once() -> None:
    """The same model at the same sizes is traced once for all cases."""

    @cache
    def traced(key: tuple[Any, ...]) -> list[Program]:
        return []

    def trace(reference: str, **how: Any) -> Program:
        graph = how["graph"]
        key = (reference, *(value for name, value in sorted(how.items()) if name != "graph"), graph.samples)
        known = traced(key)
        if not known:
            known.append(trace_for_run(reference, **how))
        return known[0]

    machines.trace_for_run = trace  # type: ignore[assignment]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
