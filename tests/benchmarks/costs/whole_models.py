"""Whole models timed as they are, forward and backward, in this process: what predictions are held against."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch

from explorer.question.loading import load
from explorer.runner.measuring.attribution import calm
from explorer.runner.measuring.operator_times import Subject, whole
from explorer.runner.measuring.place import probe
from explorer.runner.model.program import trace_for_run
from explorer.runner.model.samples import make_samples
from explorer.runner.model.weights import hold

LEAST = 7


@dataclass(frozen=True)
class Whole:
    """Forward and backward together at one number of samples: seconds of CPU of one thread. noise: the larger of a
    probe before and one after."""

    samples: int
    median_s: float
    calm_s: float
    repetitions: int
    noise: float


@contextmanager
def one_thread() -> Iterator[None]:
    """This process on one core, with one thread, as a rank of a calibration is."""
    threads, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        torch.set_num_threads(threads)


def time_whole(model: str, counts: Sequence[int], budget_s: float) -> list[Whole]:
    """At each number of samples, for about ``budget_s`` seconds each, in turn through all of them three times."""
    graph, device = load(model).graph, torch.device("cpu")
    program = trace_for_run(model, training=True, dtype=None, graph=graph, samples=tuple(counts), allow_model=True)
    forwards = range(len(program.folded.groups))
    held = hold(model, program.parameters_of(forwards), seed=0, dtype=program.dtype, device=device, allow_model=True)
    subjects = []
    for samples in counts:
        segment = program.segment(forwards, samples, held)
        given = make_samples(model, samples, seed=0, dtype=program.dtype, device=device, allow_model=True)
        inputs = tuple(given[one.position] for one in segment.inputs)
        subjects.append(Subject(graph, segment.module, inputs, {}, samples, device))
    seconds: list[list[float]] = [[] for _ in counts]
    noise = [0.0] * len(counts)
    with one_thread():
        for _ in range(3):
            for at, subject in enumerate(subjects):
                whole(subject, time.thread_time)
                noise[at] = max(noise[at], probe(repeats=10, now=time.thread_time))
                until, taken = time.perf_counter() + budget_s / 3, 0
                while taken < LEAST // 3 + 1 or time.perf_counter() < until:
                    seconds[at].append(sum(whole(subject, time.thread_time)))
                    taken += 1
                noise[at] = max(noise[at], probe(repeats=10, now=time.thread_time))
    return [
        Whole(samples, median(each), calm(each), len(each), noise[at])
        for at, (samples, each) in enumerate(zip(counts, seconds, strict=True))
    ]
