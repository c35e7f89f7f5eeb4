"""The order of devices that run several stages: whatever is ready first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidPlan
from solvers.kernels.arrays import Ints
from solvers.plan.plan import PHASES_OF, Action, Stage
from solvers.problem.graph import Phase
from solvers.problem.problem import Pipeline, Problem
from solvers.schedules.ordering.eager_order_kernel import EagerActions, eager

Waits = dict[tuple[str, str], list[set[int]]]
"""(kind of the producer, kind of the reader) -> for each stage those whose tensors it reads."""


def eager_order(problem: Problem, stages: Sequence[Stage], waits: Waits, kinds: Sequence[str]) -> list[list[Action]]:
    """Per device F and B of all its stages, in the order of an event simulation without transfers.

    Whenever a device is free it takes the ready action that could start first; of those the one the
    pipeline prefers: backwards first (with GPIPE forwards), then the earlier micro-batch. A stage never
    has more in flight than it is allowed. kinds: which of F, B and U each stage has. Raises InvalidPlan if
    the stages wait for each other.
    """
    rows = [2 * index + k for index in range(len(stages)) for k, kind in enumerate("FB") if kind in kinds[index]]
    has = np.zeros(2 * len(stages), np.bool_)
    has[rows] = True
    reads: list[list[int]] = [[] for _ in has]
    for row in rows:
        if row % 2 == 1 and has[row - 1]:
            reads[row].append(row - 1)
    for (source_kind, kind), sources_of in waits.items():
        if source_kind in "FB" and kind in "FB":
            for index, sources in enumerate(sources_of):
                reads[2 * index + "FB".index(kind)] += [2 * source + "FB".index(source_kind) for source in sources]
    counts = [problem.mini_batch // stage.micro_batch_size for stage in stages]
    actions = EagerActions(
        has,
        _seconds(problem, stages),
        np.array(counts, np.int64),
        np.array([stage.micro_batch_size for stage in stages], np.int64),
        np.array([stage.in_flight for stage in stages], np.int64),
        *_lists([stage.devices for stage in stages]),
        *_lists(reads),
    )
    sequence = eager(actions, len(problem.cluster), problem.pipeline is Pipeline.GPIPE)
    if len(sequence) < sum(counts[row // 2] for row in rows):
        raise InvalidPlan("the stages wait for each other, so that no order can run them")
    orders: list[list[Action]] = [[] for _ in problem.cluster.devices]
    done = [0] * len(has)
    for row in sequence.tolist():
        action = Action(row // 2, "FB"[row % 2], done[row])
        done[row] += 1
        for device in stages[row // 2].devices:
            orders[device].append(action)
    return orders


def _lists(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=start[1:])
    return start, np.array([item for row in rows for item in row], np.int64)


def _seconds(problem: Problem, stages: Sequence[Stage]) -> NDArray[np.float64]:
    """Of one micro-batch: forward and backward of every stage in turn."""
    operators = problem.graph.operators
    known: dict[tuple[str, float], NDArray[np.float64]] = {}
    told: list[float] = []
    for stage in stages:
        kind, samples = problem.cluster.devices[stage.devices[0]].kind, stage.micro_batch_size / len(stage.devices)
        if (kind, samples) not in known:
            known[kind, samples] = problem.compute.at(kind, samples)
        times = known[kind, samples]
        backward = [o for o in stage.operators if operators[o].phase in PHASES_OF["B"]]
        forward = [o for o in stage.operators if operators[o].phase is Phase.FORWARD]
        forward_s = float(times[forward].sum())
        told += [forward_s, float(times[backward].sum()) + (forward_s if stage.recompute else 0.0)]
    return np.array(told, np.float64)
