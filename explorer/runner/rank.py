"""One rank of a run: ``torchrun --nproc-per-node N -m explorer.runner.rank BUNDLE``.

Every rank reads the bundle, traces the model, makes its own part of it and runs the script; rank 0 gathers
what all measured and writes result.json. A rank that fails writes failure-<rank>.json and ends at once: the
launcher then ends the others.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

import torch
import torch.distributed as dist

from explorer.files import NotWritten, write_file
from explorer.runner.bundles import heartbeats
from explorer.runner.bundles.bundle import read_bundle
from explorer.runner.bundles.outcome import RunStatus, judged
from explorer.runner.bundles.progress import by_hand, report
from explorer.runner.bundles.reproduce import summary
from explorer.runner.bundles.request import RunRequest
from explorer.runner.bundles.result_json import write_outcome
from explorer.runner.engine.gather import gather
from explorer.runner.engine.machine import make_machine
from explorer.runner.engine.measure import allocated_bytes, dump, measure, operator_seconds
from explorer.runner.measuring.place import probe
from explorer.runner.start import contract
from explorer.runner.start.transport import connect
from explorer.runner.targets.processes import die_with_parent
from explorer.runner.verifying.verify import verify
from explorer.words.text import first_line
from solvers.errors import PlacementError
from solvers.formats.plan_json import PlanFile, read_plan

FAILED = 1
"""Exit status of a rank that failed."""


def main(argv: list[str] | None = None, work: Callable[[Path, int], bool | None] | None = None) -> int:
    """Runs the bundle that the command line names (``work``: does something else with it). Returns the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print("usage: torchrun --nproc-per-node N -m explorer.runner.rank BUNDLE", file=sys.stderr)
        return 2
    die_with_parent(signal.SIGKILL)
    bundle = Path(arguments[0])
    rank = int(os.environ.get("RANK", "0"))
    if not by_hand():
        heartbeats.begin(bundle, rank)
    try:
        well = (run if work is None else work)(bundle, rank)
    except BaseException as error:
        _fail(bundle, rank, error)
        end(FAILED)
    return FAILED if well is False else 0


def end(status: int) -> NoReturn:
    """Ends this process at once: a thread of a model or a library must not keep the rank, and with it the others,
    alive, as it would after sys.exit."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class Begun(NamedTuple):
    """What a rank begins with. pinned: whether it keeps to its own cores."""

    file: PlanFile
    request: RunRequest
    ranks: int
    device: torch.device
    pinned: bool


def begin(bundle: Path) -> Begun:
    """Reads what is to be run, and meets the other ranks. Raises PlacementError for what a person can mend."""
    text, request = read_bundle(bundle)
    file = read_plan(text, "plan.json")
    report("connecting", waits=True)
    device = connect(request.backend, request.time_limit_s)
    pinned = False
    if device.type == "cpu":
        torch.set_num_threads(request.threads)
        pinned = request.pin and pin(int(os.environ.get("LOCAL_RANK", "0")), request.threads)
    return Begun(file, request, int(os.environ.get("WORLD_SIZE", "1")), device, pinned)


def run(bundle: Path, rank: int) -> bool:
    """Everything one rank does; whether whoever started it by hand may take it for right. Raises PlacementError for
    what a person can mend."""
    file, request, ranks, device, pinned = begin(bundle)
    with torch.random.fork_rng(devices=[]):
        noise = [probe(device)]
    floor_bytes = allocated_bytes(device)
    machine = make_machine(file, request, rank, ranks, device)
    measured = measure(machine, request, floor_bytes)
    times = operator_seconds(machine, file.problem.graph) if request.operators else {}
    agreement = None
    if request.verify:  # afterwards, and from the start: what it is compared with is no memory of the plan
        program = machine.program
        del machine  # there need not be room for both
        machine = make_machine(file, request, rank, ranks, device, program)
        agreement = verify(machine, file.reference, file.problem, request)
    if request.dump:
        program = machine.program
        del machine
        machine = make_machine(file, request, rank, ranks, device, program)
        dump(machine, bundle)
    noise.append(probe(device))
    unknown = tuple(filter(None, [contract.note()]))
    outcome = gather(machine, request, measured, agreement, noise, pinned, times, unknown)
    if outcome is not None:
        outcome = judged(outcome)
        write_outcome(bundle / "result.json", outcome)
    dist.barrier()
    # Not after a failure: NCCL would wait for messages that never come, before anybody learns why.
    dist.destroy_process_group()
    if outcome is None or not by_hand():
        report("done", 1, 1)
        return True  # a target reads result.json
    print(summary(outcome), flush=True)
    return outcome.status is RunStatus.DONE


def _fail(bundle: Path, rank: int, error: BaseException) -> None:
    traceback.print_exc()
    root = error.__cause__ or error
    message, cause = first_line(error), first_line(root)
    if cause not in message:  # torch wraps what a backward raised
        message = f"{message.removesuffix(':')}: {cause}"
    failure = {
        "rank": rank,
        "type": type(error).__name__,
        "message": message[:500],
        "step": str(getattr(error, "step", ""))[:50],
        "out_of_memory": any(isinstance(e, (MemoryError, torch.OutOfMemoryError)) for e in (error, root))
        or "can't allocate memory" in str(error) or "can't allocate memory" in str(root),
        "expected": isinstance(error, PlacementError),
    }  # fmt: skip
    try:
        write_file(bundle / f"failure-{rank}.json", json.dumps(failure), "saving why the rank failed")
    except NotWritten as problem:
        print(f"rank {rank}: {problem}", file=sys.stderr)


def pin(local_rank: int, threads: int) -> bool:
    """Keep this process to ``threads`` cores of its own. False where there are too few, or no such call."""
    if not hasattr(os, "sched_getaffinity"):
        return False
    cores = sorted(os.sched_getaffinity(0))
    assigned = cores[local_rank * threads : (local_rank + 1) * threads]
    if len(assigned) < threads:
        return False
    os.sched_setaffinity(0, assigned)
    return True


if __name__ == "__main__":
    end(main())
