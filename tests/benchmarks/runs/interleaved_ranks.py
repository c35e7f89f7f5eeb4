"""Calibrations and runs of several plans of one model in turn, in the same processes:
``torchrun --nproc-per-node 2 -m tests.benchmarks.runs.interleaved_ranks FOLDER``.

FOLDER has calibration.json (a plan that names the model), plan-0.json, plan-1.json, ..., and request.json: rounds,
steps, budget_s and samples of a calibration. Rank 0 writes measured.json: profiles, one a round, and of every plan what
each of its runs found: lengths_s of iterations, cpu_s [rank][iteration] of everything in a rank's process, and the
noise before and after.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from explorer.costs.profile_json import profile_object
from explorer.runner.bundles.request import RunRequest
from explorer.runner.calibrate import calibrate
from explorer.runner.engine.machine import Machine, make_machine
from explorer.runner.engine.measure import settled_memory
from explorer.runner.engine.recording import start_together
from explorer.runner.measuring.place import Place, probe
from explorer.runner.rank import end, pin
from solvers.formats.plan_json import read_plan

CPU = torch.device("cpu")


def main(folder: Path) -> None:
    content = json.loads((folder / "request.json").read_text())
    torch.set_num_threads(1)
    pinned = pin(int(os.environ["LOCAL_RANK"]), 1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=600))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    files = [read_plan(path.read_bytes()) for path in sorted(folder.glob("plan-*.json"))]
    request = RunRequest(optimizer="adam", budget_s=content["budget_s"], samples=tuple(content["samples"]))
    machines = [make_machine(file, request, rank, ranks, CPU) for file in files]
    whole = read_plan((folder / "calibration.json").read_bytes())
    profiles: list[Any] = []
    runs: list[list[dict[str, Any]]] = [[] for _ in files]
    for _ in range(content["rounds"]):
        outcome = calibrate(whole, request, Place(rank, ranks, CPU, pinned))
        assert outcome.profile is not None
        profiles.append(profile_object(outcome.profile))
        for machine, series in zip(machines, runs, strict=True):
            series.append(_run(machine, content["steps"]))
    if rank == 0:
        (folder / "measured.json").write_text(json.dumps({"profiles": profiles, "runs": runs}))
    dist.barrier()
    dist.destroy_process_group()


def _run(machine: Machine, steps: int) -> dict[str, Any]:
    noise = [_noise()]
    lengths, cpu = [], []
    with settled_memory():
        for _ in range(2):  # to warm up
            dist.barrier()
            machine.iterate()
        for _ in range(steps):
            start = start_together(machine.rank, 0.0, CPU)
            machine.recorder.start()
            before = time.process_time()
            machine.iterate()
            lengths.append(time.perf_counter() - start)
            cpu.append(time.process_time() - before)
            machine.recorder.finish()
    noise.append(_noise())
    every: list[Any] = [None] * machine.ranks
    dist.all_gather_object(every, (lengths, cpu))
    return {
        "lengths_s": [max(each) for each in zip(*(expected[0] for expected in every), strict=True)],
        "cpu_s": [expected[1] for expected in every],
        "noise": noise,
    }


def _noise() -> float:
    """The largest over ranks, all at once."""
    dist.barrier()
    worst = torch.tensor([probe(CPU, repeats=12)], dtype=torch.float64)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return float(worst)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    end(0)
