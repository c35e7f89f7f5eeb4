"""The engine's CPU an action with each of the things that make it cheaper left out, in turn in the same processes:
``torchrun --nproc-per-node 2 -m tests.benchmarks.runs.engine_ranks FILE``. Rank 0 writes FILE: way -> load -> [rank] ->
seconds of an iteration, the lower quartile, and how many actions that is."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from explorer.runner.engine import runtime
from explorer.runner.engine.empty_segments import Load, runtime_of
from explorer.runner.engine.measure import settled_memory
from explorer.runner.measuring.attribution import calm
from explorer.runner.rank import end, pin
from explorer.runner.scripts import duties

ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "40"))
LOADS = {
    "steps alone": Load(False, True, 8, 4),
    "a small tensor there and back": Load(True, True, 8, nbytes=2**12),
    "three small tensors": Load(True, True, 8, tensors=3, nbytes=2**12),
    "a tensor of 1 MiB": Load(True, True, 4, nbytes=2**20),
}


@contextmanager
def named() -> Iterator[None]:
    """Every action has a name for torch's profiler."""
    before, runtime._unnamed = runtime._unnamed, nullcontext  # type: ignore[assignment]
    try:
        yield
    finally:
        runtime._unnamed = before


@contextmanager
def unpacked() -> Iterator[None]:
    """Every tensor is a message."""
    before, duties.PACKED_BYTES = duties.PACKED_BYTES, 0
    try:
        yield
    finally:
        duties.PACKED_BYTES = before


WAYS: dict[str, tuple[Callable[[], Any], ...]] = {
    "before": (named, unpacked),
    "garbage left alone": (settled_memory, named, unpacked),
    "and actions unnamed": (settled_memory, unpacked),
    "and small tensors together": (settled_memory,),
}


def main(file: Path) -> None:
    torch.set_num_threads(1)
    pin(int(os.environ["LOCAL_RANK"]), 1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    runtimes = {name: runtime_of(load, rank, 1 - rank, torch.device("cpu")) for name, load in LOADS.items()}
    taken: dict[str, dict[str, list[float]]] = {way: {name: [] for name in LOADS} for way in WAYS}
    for _ in range(ROUNDS):
        for way, contexts in WAYS.items():
            with ExitStack() as stack:
                for context in contexts:
                    stack.enter_context(context())
                for name, one in runtimes.items():
                    dist.barrier()
                    one.recorder.start()
                    before = time.process_time()
                    one.iterate()
                    taken[way][name].append(time.process_time() - before)
                    one.recorder.finish()
    actions = {name: sum(step.do.value in "FB" for step in one.script.steps[rank]) for name, one in runtimes.items()}
    own = {way: {name: (calm(times), actions[name]) for name, times in of.items()} for way, of in taken.items()}
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, own)
    if rank == 0:
        fields = {way: {name: [each[way][name] for each in every] for name in LOADS} for way in WAYS}
        file.write_text(json.dumps(fields))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    end(0)
