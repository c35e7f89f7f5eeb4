"""The order of devices that run several stages: whatever is ready first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.errors import InvalidPlan
from solvers.evaluation.columns import rows_of
from solvers.plan.plan import Action, Stage
from solvers.problem.problem import Pipeline, Problem
from solvers.schedules.ordering.eager_order_kernel import EagerActions, eager
from solvers.schedules.ordering.stage_actions import actions_per_device, row_seconds

Waits = dict[tuple[str, str], list[set[int]]]
"""(kind of the producer, kind of the reader) -> for each stage those whose tensors it reads."""


def eager_order(problem: Problem, stages: Sequence[Stage], waits: Waits, kinds: Sequence[str]) -> list[list[Action]]:
    """Per device F and B of all its stages, in the order of an event simulation without transfers.

    Whenever a device is free it takes the ready action that could start first; of those the one the
    pipeline prefers: backwards first (with GPIPE forwards), then the earlier micro-batch. A stage never
    has more in flight than it is allowed. kinds: which of F, B and U each stage has. Raises InvalidPlan if
    the stages wait for each other.
    """
    every = [(index, kind) for index in range(len(stages)) for kind in "FB"]
    rows = [row for row, (index, kind) in enumerate(every) if kind in kinds[index]]
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
        row_seconds(problem, stages, every),
        np.array(counts, np.int64),
        np.array([stage.micro_batch_size for stage in stages], np.int64),
        np.array([stage.in_flight for stage in stages], np.int64),
        *rows_of([stage.devices for stage in stages]),
        *rows_of(reads),
    )
    sequence = eager(actions, len(problem.cluster), problem.pipeline is Pipeline.GPIPE)
    if len(sequence) < sum(counts[row // 2] for row in rows):
        raise InvalidPlan("the stages wait for each other, so that no order can run them")
    return actions_per_device(sequence, every, stages, len(problem.cluster))
