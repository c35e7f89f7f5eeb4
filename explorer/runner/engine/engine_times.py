"""What the engine itself takes, measured on the ranks at hand by scripts of empty segments."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from explorer.costs.least_squares import coefficients
from explorer.costs.profile import EngineTimes
from explorer.runner.engine.empty_segments import WIDTH, Load, runtime_of
from explorer.runner.engine.measure import settled_memory
from explorer.runner.engine.runtime import ScriptRuntime
from explorer.runner.measuring.attribution import calm
from explorer.runner.scripts.duties import duties
from solvers.problem.engine import Duty, EngineCosts

ROUNDS = 15
"""In turn through all loads, after one that is not counted."""
SMALL, MIDDLE, LARGE = 2**12, 2**17, 2**20
"""Bytes of a tensor that is sent."""
ALONE = (Load(False, True, 4), Load(False, True, 8, 4), Load(False, False, 8, 4), Load(False, False, 16, 4))
ACROSS = tuple(
    Load(True, training, micro_batches, tensors=tensors, nbytes=nbytes)
    for training in (True, False)
    for micro_batches, tensors, nbytes in ((8, 1, SMALL), (8, 1, MIDDLE), (4, 1, LARGE), (4, 3, MIDDLE), (16, 1, SMALL))
)


@dataclass(frozen=True, slots=True)
class Ran:
    """One iteration of an empty script on one rank: how many forwards and backwards, what it sent and received in all,
    and the seconds it took."""

    forwards: float
    backwards: float
    messages: Duty
    seconds: float

    @property
    def counts(self) -> tuple[float, ...]:
        """Of everything that `EngineCosts` has a cost of, in its order."""
        sent = self.messages
        return (
            1.0, self.forwards, self.backwards, sent.sent, sent.received, sent.sent_bytes, sent.received_bytes,
        )  # fmt: skip


def fit(runs: Sequence[Ran]) -> tuple[EngineCosts, float]:
    """(costs, root mean square of the relative errors): the least sum of squared relative errors with no cost below
    0. Raises ValueError without runs
    that took any time."""
    if not runs or min(run.seconds for run in runs) <= 0:
        raise ValueError("a fit needs runs that took some time")
    counts, seconds = np.array([run.counts for run in runs]), np.array([run.seconds for run in runs])
    costs = coefficients(counts, seconds, share_alike=True)
    residual = math.sqrt(float(np.mean((counts @ costs / seconds - 1) ** 2)))
    return EngineCosts(*(float(cost) for cost in costs)), residual


def engine_times(
    rank: int, ranks: int, device: torch.device, *, own_core: bool, training: bool, rounds: int = ROUNDS
) -> EngineTimes:
    """Every rank calls it and gets the same. Ranks work in pairs; one without a peer measures steps alone.

    own_core: whether all of a rank is on one core, so that the transport's own thread takes its time too. On GPUs
    only steps are measured, by the clock on the wall: messages move beside the computation there.
    """
    now, clock = _clock(device, own_core)
    peer = rank ^ 1
    paired = peer < ranks and device.type == "cpu"
    loads = [
        (load, runtime_of(load, rank % 2, peer, device) if paired or not load.across else None)
        for load in (*ALONE, *ACROSS)
        if (training or not load.training) and (not load.across or (ranks > 1 and device.type == "cpu"))
    ]
    taken: list[list[float]] = [[] for _ in loads]
    with settled_memory():
        for _ in range(rounds + 1):
            for (_, runtime), times in zip(loads, taken, strict=True):
                dist.barrier()
                if runtime is not None:
                    runtime.recorder.start()
                    before = now()
                    runtime.iterate()
                    runtime.recorder.finish()
                    times.append(now() - before)
    measured = [
        _ran(runtime, rank % 2, calm(times[1:]))
        for (_, runtime), times in zip(loads, taken, strict=True)
        if runtime is not None
    ]
    every: list[Any] = [None] * ranks
    dist.all_gather_object(every, measured)
    runs = [run for of_rank in every for run in of_rank]
    costs, residual = fit(runs)
    return EngineTimes(costs, residual, len(runs), clock)


def _clock(device: torch.device, own_core: bool) -> tuple[Callable[[], float], str]:
    if device.type != "cpu":
        return time.perf_counter, "wall clock"
    if own_core:
        return time.process_time, "CPU time of a rank with its transport"
    return time.thread_time, "CPU time of one thread"


def _ran(runtime: ScriptRuntime, rank: int, seconds: float) -> Ran:
    """rank: of the script's two."""
    total: dict[str, Duty] = {}
    elements = runtime.work.exchange.shapes.tensor_meta(0, 1)[0][0]
    for (_, kind, device), duty in duties(runtime.script, lambda *_: float(WIDTH * elements)).items():
        if device == rank:
            total[kind] = total.get(kind, Duty()) + duty
    forward, backward = total.get("F", Duty()), total.get("B", Duty())
    return Ran(forward.runs, backward.runs, forward + backward, seconds)
