"""A run of four ranks, whose memory is limited after the model was traced: ``limited FOLDER WAY``.

Every rank may take LIMIT bytes beside what the process has then. It runs FOLDER/plan.json and compares it; rank 0
writes FOLDER/result.json, the agreement; a rank that cannot go on FOLDER/failure-RANK.json.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from explorer.runner.bundles.outcome import Way
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine.machine import make_machine, trace
from explorer.runner.verifying.verify import verify
from solvers.formats.plan_json import PlanFile, read_plan

RANKS = 4
LAYERS = 6
"""Of a rank. Several: what the comparison makes of one parameter at a time, in double precision, stays small."""
WIDTH = 1536
PART = LAYERS * WIDTH * WIDTH * 4
"""Bytes of a rank's parameters."""
LIMIT = 12 * PART
"""Stage after stage a rank holds some 7 times its part: parameters, where they began and gradients of the run;
parameters, gradients and first gradients of the comparison, and one more while it computes; found enough from 9 on. In
one piece rank 0 has 3 times its part of the former and 12 to 16 of the latter: found too little up to 17. What is
between is for threads, arenas and libraries, which take more on one machine than on another."""
MODEL = "tests.explorer.runner.verifying.limited:deep"


def deep() -> tuple[nn.Module, Tensor]:
    layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS * RANKS)]
    return nn.Sequential(*layers), torch.randn(2, WIDTH)


def main(folder: Path, way: Way, file: PlanFile, rank: int) -> None:
    request = RunRequest(verify=True, verify_by=way, optimizer="sgd", allow_model=True)
    program = trace(file, request)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    _forget_more_than(LIMIT)
    try:
        machine = make_machine(file, request, rank, RANKS, torch.device("cpu"), program)
        shown = asdict(verify(machine, file.reference, file.problem, request))
    except RuntimeError as error:
        shown = {"rank": rank, "error": str(error)}
        (folder / f"failure-{rank}.json").write_text(json.dumps(shown))
        os._exit(1)
    if rank == 0:
        (folder / "result.json").write_text(json.dumps(shown))


def _forget_more_than(more: int) -> None:
    data = re.search(r"^VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert data is not None
    resource.setrlimit(resource.RLIMIT_DATA, (int(data[1]) * 1024 + more,) * 2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    plan = read_plan((place / "plan.json").read_bytes(), "plan.json")
    children = []
    for number in range(RANKS):
        child = os.fork()
        if child == 0:
            main(place, Way(sys.argv[2]), plan, number)
            sys.stdout.flush()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
