"""The iterations of a run: some to warm up, then those that are measured."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist

from explorer.runner.bundles.progress import tell
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine.garbage import settled_memory
from explorer.runner.engine.machine import Machine
from explorer.runner.engine.peak_memory import peak_of_an_iteration
from explorer.runner.engine.recording import clock_offsets, start_together


@dataclass
class Measured:
    """One rank's records: of each measured iteration its length, records (`Recorder.iteration`) and loss, and
    the bytes held at most. offset: seconds to add to this rank's clock to get that of rank 0. not_finite: the first
    (iteration from 0, those of the warm-up counted, micro-batch, loss) that is no finite number."""

    lengths_s: list[float] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    peak_bytes: float = 0.0
    offset_s: float = 0.0
    not_finite: tuple[int, int, float] | None = None

    def look(self, machine: Machine, iteration: int) -> None:
        """Note a loss of the last iteration that is no finite number, if it is the first."""
        if self.not_finite is None and (found := machine.first_not_finite()) is not None:
            self.not_finite = (iteration, *found)


def measure(machine: Machine, request: RunRequest, floor_bytes: float = 0.0) -> Measured:
    """Runs warm-up and measured iterations, and one that only counts bytes. Every rank calls it. floor_bytes: see
    `peak_of_an_iteration`."""
    measured = Measured()
    measured.offset_s = clock_offsets(machine.ranks, machine.rank, machine.device)
    with settled_memory():
        for count in range(request.warmup):
            tell("warming up", count, request.warmup, waits=True)
            dist.barrier()
            machine.recorder.start()
            machine.iterate()
            measured.look(machine, count)
        for count in range(request.steps):
            tell("measuring", count, request.steps, waits=True)
            start = start_together(machine.rank, measured.offset_s, machine.device)
            machine.recorder.start()
            machine.iterate()
            machine.recorder.finish()
            measured.lengths_s.append(time.perf_counter() - start)
            measured.records.append(machine.recorder.iteration(start))
            measured.losses.append(machine.loss())
            measured.look(machine, request.warmup + count)
    tell("measuring", request.steps, request.steps)
    tell("measuring memory")
    measured.peak_bytes = peak_of_an_iteration(machine, floor_bytes)
    return measured
