"""The actions of stages, with their seconds and what they wait for, as the event simulation takes them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from solvers.errors import NoLink
from solvers.evaluation.columns import PHASES, graph_columns, rows_of
from solvers.kernels.arrays import Floats, Ints
from solvers.plan.plan import PHASES_OF, Action, Stage
from solvers.problem.graph import OpGraph, Phase, per_graph
from solvers.problem.problem import Problem
from solvers.schedules.ordering.stage_actions_kernel import Actions, event_order, replay_order

T = TypeVar("T")

LOOKS = 1.5e6
"""Looks at an action that the event simulation takes in about a tenth of a second."""
PARTS = "FIW"
"""What an operator of a stage takes part in, by phase."""


@per_graph
def splits(graph: OpGraph) -> bool:
    """Whether gradients of parameters can wait: there are operators for them, and nothing of a forward
    pass or of the gradients of inputs reads what they make."""
    operators = graph.operators
    weights = {i for i, o in enumerate(operators) if o.phase is Phase.BACKWARD_WEIGHT}
    free = {Phase.BACKWARD_WEIGHT, Phase.UPDATE}
    reads = (operators[r].phase for t in graph.tensors if t.producer in weights for r in t.consumers)
    return bool(weights) and all(phase in free for phase in reads)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """An event simulation: rows of `StageActions` as their micro-batches start in turn, and when the last ended."""

    sequence: Ints
    length_s: float


def shortest_first(runs: Iterable[Run | None]) -> list[Run]:
    """Those there are, without repetitions; of runs of one length the earlier first."""
    distinct: dict[bytes, Run] = {}
    for run in runs:
        if run is not None:
            distinct.setdefault(run.sequence.tobytes(), run)
    least_s = min((run.length_s for run in distinct.values()), default=0.0)
    return sorted(distinct.values(), key=lambda run: round(run.length_s / least_s, 9) if least_s > 0 else 0.0)


@dataclass(frozen=True, eq=False)
class StageActions:
    """F and B (or I and W) of every stage, for `run`. received_bytes: of a micro-batch, from other
    devices; waiting_bytes: of a micro-batch, at most, of what I leaves for W, [stages]."""

    stages: tuple[Stage, ...]
    rows: tuple[tuple[int, str], ...]
    arrays: Actions
    devices: int
    received_bytes: Floats
    waiting_bytes: Floats

    def affordable(self, starts: Sequence[T]) -> Sequence[T]:
        """As many of ``starts``, evenly spread, as calls of `run` take a tenth of a second: each looks at all
        actions for every task. The first alone if one takes up to five times as long, else none."""
        looks = int(self.arrays.counts.sum()) * len(self.rows)
        if looks > 5 * LOOKS:
            return starts[:0]
        return starts[:: max(1, -(-len(starts) * looks // int(LOOKS)))]

    def run(
        self,
        order: str,
        limits: Sequence[int],
        *,
        ahead: Sequence[int] | None = None,
        weights: Floats | None = None,
        budgets: Floats | None = None,
        patience: float = 0.0,
    ) -> Run | None:
        """What devices do if they take the ready action that is first in ``order`` ("IFW": input gradients,
        forwards, gradients of parameters); None if the limits leave nothing to do.

        limits: most micro-batches a stage has forwarded whose last backward part is not done; ahead: whose
        first is not (the limits, if None); [stages].
        weights, budgets: see `event_order`. patience: W waits for an action that can start within this
        share of its seconds.
        """
        rank = np.array([order.index(kind) for _, kind in self.rows], np.int64)
        weight = np.zeros(len(self.stages)) if weights is None else weights
        budget = np.full(self.devices, np.inf) if budgets is None else budgets
        fills = np.array([kind == "W" for _, kind in self.rows], np.bool_)
        allowed = np.asarray(limits, np.int64)
        begun = allowed if ahead is None else np.asarray(ahead, np.int64)
        sequence, ended, count = event_order(self.arrays, rank, begun, allowed, weight, budget, fills, patience)
        if count < len(sequence):
            return None
        return Run(sequence, float(ended.max(initial=0.0)))

    def follow(self, orders: Sequence[Sequence[Action]]) -> Run | None:
        """What happens if devices follow these orders; None if they deadlock. Micro-batches must ascend."""
        row_of = {row: number for number, row in enumerate(self.rows)}
        start, items = rows_of([[row_of[action.stage, action.kind] for action in actions] for actions in orders])
        sequence, ended, count = replay_order(self.arrays, start, items)
        return Run(sequence, float(ended.max(initial=0.0))) if count == len(sequence) else None

    def per_device(self, run: Run) -> list[list[Action]]:
        """What every device does, in order."""
        return actions_per_device(run.sequence, self.rows, self.stages, self.devices)


def actions_per_device(
    sequence: Ints, rows: Sequence[tuple[int, str]], stages: Sequence[Stage], devices: int
) -> list[list[Action]]:
    """What every device does, in order. sequence: rows, (stage, kind) each, whose micro-batches start in turn."""
    orders: list[list[Action]] = [[] for _ in range(devices)]
    done = [0] * len(rows)
    for row in sequence.tolist():
        stage, kind = rows[row]
        action = Action(stage, kind, done[row])
        done[row] += 1
        for device in stages[stage].devices:
            orders[device].append(action)
    return orders


def stage_actions(problem: Problem, stages: Sequence[Stage], *, split: bool) -> StageActions:
    """The actions of ``stages``. split: I and W in place of B; the graph must allow it, see `splits`.

    Transfers are on their way as long as all that one action sends to one stage takes on their link;
    links that other transfers keep busy are left out.
    """
    graph = problem.graph
    has = [
        {part for part in PARTS if any(graph.operators[o].phase in PHASES_OF[part] for o in stage.operators)}
        for stage in stages
    ]
    rows: list[tuple[int, str]] = []
    row_of: dict[tuple[int, str], int] = {}
    for index, parts in enumerate(has):
        for kind in PARTS if split else "FB":
            present = parts & ({"I", "W"} if kind == "B" else {kind})
            if present:
                row_of.update({(index, part): len(rows) for part in present})
                rows.append((index, kind))
    reads: list[dict[int, float]] = [{} for _ in rows]
    crossings = _crossings(problem, stages)
    for (a, p, b, q), seconds in crossings.seconds.items():
        source, reader = row_of[a, PARTS[p]], row_of[b, PARTS[q]]
        reads[reader][source] = max(reads[reader].get(source, 0.0), seconds)
    last: list[int] = []
    for index, parts in enumerate(has):
        own = [row_of[index, part] for part in PARTS if part in parts]
        for earlier, later in itertools.pairwise(own):
            if earlier != later:
                reads[later].setdefault(earlier, 0.0)
        last.append(own[-1] if own else -1)
    return StageActions(
        tuple(stages),
        tuple(rows),
        _arrays(problem, stages, rows, reads, last),
        len(problem.cluster),
        crossings.received_bytes,
        crossings.waiting_bytes * split,
    )


def _arrays(
    problem: Problem,
    stages: Sequence[Stage],
    rows: Sequence[tuple[int, str]],
    reads: Sequence[dict[int, float]],
    last: Sequence[int],
) -> Actions:
    readers: list[set[int]] = [set() for _ in rows]
    for row, sources in enumerate(reads):
        for source in sources:
            readers[source].add(row)
    turn = {index: row for row, (index, kind) in reversed(list(enumerate(rows))) if kind != "F"}
    trains = [kind != "F" for _, kind in rows]
    both = {stage for (stage, kind) in rows if kind == "F"} & {
        s for (s, _), back in zip(rows, trains, strict=True) if back
    }
    sizes = [stages[index].micro_batch_size for index, _ in rows]
    at_start, at = rows_of([stages[index].devices for index, _ in rows])
    reads_start, read = rows_of([list(each) for each in reads])
    readers_start, lookers = rows_of([sorted(each) for each in readers])
    return Actions(
        row_seconds(problem, stages, rows),
        np.array([problem.mini_batch // size for size in sizes], np.int64),
        np.array(sizes, np.int64),
        np.array([index for index, _ in rows], np.int64),
        np.array([kind == "F" and index in both for index, kind in rows], np.bool_),
        np.array([index in both and row == turn[index] for row, (index, _) in enumerate(rows)], np.bool_),
        np.array([row == last[index] and index in both for row, (index, _) in enumerate(rows)], np.bool_),
        at_start,
        at,
        reads_start,
        read,
        np.array([seconds for each in reads for seconds in each.values()], np.float64),
        readers_start,
        lookers,
    )  # fmt: skip


def row_seconds(problem: Problem, stages: Sequence[Stage], rows: Sequence[tuple[int, str]]) -> Floats:
    """Of one micro-batch of every row, a (stage, kind); the first part of a backward runs the forward again if its
    stage recomputes."""
    operators = problem.graph.operators
    times_of: dict[tuple[str, float], Floats] = {}
    seconds = np.zeros(len(rows))
    forward_s: dict[int, float] = {}
    for row, (index, kind) in enumerate(rows):
        stage = stages[index]
        key = problem.cluster.devices[stage.devices[0]].kind, stage.micro_batch_size / len(stage.devices)
        if key not in times_of:
            times_of[key] = problem.compute.at(*key)
        own = [o for o in stage.operators if operators[o].phase in PHASES_OF[kind]]
        seconds[row] = times_of[key][own].sum()
        if kind == "F" and stage.recompute:
            forward_s[index] = seconds[row]
        elif kind != "F":
            seconds[row] += forward_s.pop(index, 0.0)
    return seconds


@per_graph
def _messages(graph: OpGraph) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Of every (maker, reader) of every message, without updates: both operators, both parts, the message's first
    tensor."""
    columns = graph_columns(graph)
    part_of_phase = np.array([next((i for i, kind in enumerate(PARTS) if p in PHASES_OF[kind]), -1) for p in PHASES])
    part = part_of_phase[columns.phase]
    pairs = [
        (maker, reader, tensor)
        for m, tensor in enumerate(columns.message_tensor.tolist())
        for maker in columns.maker[columns.maker_start[m] : columns.maker_start[m + 1]].tolist()
        for reader in columns.reader[columns.reader_start[m] : columns.reader_start[m + 1]].tolist()
        if part[maker] >= 0 and part[reader] >= 0
    ]
    maker, reader, tensor = np.array(pairs, np.int64).reshape(-1, 3).T
    return maker, reader, part[maker], part[reader], tensor


@dataclass(frozen=True, slots=True)
class _Crossings:
    """seconds: (stage, part, reading stage, its part) -> how long what a micro-batch sends that way is on
    its way. received_bytes, waiting_bytes: see `StageActions`."""

    seconds: dict[tuple[int, int, int, int], float]
    received_bytes: Floats
    waiting_bytes: Floats


def _crossings(problem: Problem, stages: Sequence[Stage]) -> _Crossings:
    stage_of = np.full(len(problem.graph), -1, np.int64)
    for number, stage in enumerate(stages):
        stage_of[list(stage.operators)] = number
    maker, reader, p, q, tensor = _messages(problem.graph)
    fixed, per_sample = graph_columns(problem.graph).tensor_bytes[tensor].T
    a, b = stage_of[maker], stage_of[reader]
    rows = np.flatnonzero(a != b)
    columns = [column[rows].tolist() for column in (a, p, b, q, tensor, fixed, per_sample)]
    seconds: dict[tuple[int, int, int, int], float] = {}
    received = np.zeros(len(stages))
    seen: set[tuple[int, int, int, int, int]] = set()
    arrived: set[tuple[int, int, int]] = set()
    for s, sp, r, rp, t, fixed_bytes, sample_bytes in zip(*columns, strict=True):
        if (s, sp, r, rp, t) in seen:
            continue
        seen.add((s, sp, r, rp, t))
        src, dst = stages[s].devices, stages[r].devices
        took_s = 0.0
        if src != dst:
            took_s = _transfer_s(problem, t, stages[s].micro_batch_size / len(src), src[0], dst[0])
            if (s, r, t) not in arrived:
                received[r] += fixed_bytes + sample_bytes * stages[r].micro_batch_size / len(dst)
                arrived.add((s, r, t))
        seconds[s, sp, r, rp] = seconds.get((s, sp, r, rp), 0.0) + took_s
    own = np.flatnonzero((a == b) & (a >= 0) & (p == PARTS.index("I")) & (q == PARTS.index("W")))
    own = own[np.unique(tensor[own], return_index=True)[1]]
    share = np.array([stage.micro_batch_size / len(stage.devices) for stage in stages])[a[own]]
    waiting = np.zeros(len(stages))
    np.add.at(waiting, a[own], fixed[own] + per_sample[own] * share)
    return _Crossings(seconds, received, waiting)


def _transfer_s(problem: Problem, tensor: int, samples: float, src: int, dst: int) -> float:
    """Without a link no time at all: that there is none is for the judge."""
    try:
        return problem.tensor_s(tensor, samples, src, dst)
    except NoLink:
        return 0.0
