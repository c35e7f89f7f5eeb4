"""The order of devices that run several stages: whatever is ready first."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from solvers.graph import Phase
from solvers.plan import Action, Stage
from solvers.problem import Pipeline, Problem
from solvers.units import PHASES_OF

Waits = dict[tuple[str, str], list[set[int]]]
"""(kind of the producer, kind of the reader) -> for each stage those whose tensors it reads."""


def eager_order(problem: Problem, stages: Sequence[Stage], waits: Waits, kinds: Sequence[str]) -> list[list[Action]]:
    """Per device F and B of all its stages, in the order of an event simulation without transfers.

    Whenever a device is free it takes the ready action that could start first; of those the one the
    pipeline prefers: backwards first (with GPIPE forwards), then the earlier micro-batch. A stage never
    has more in flight than it is allowed. kinds: which of F, B and U each stage has.
    """
    counts = [problem.mini_batch // stage.micro_batch_size for stage in stages]
    seconds = [_durations(problem, stage) for stage in stages]
    readers: dict[tuple[int, str], list[tuple[int, str]]] = {}
    following = {(index, kind): 0 for index in range(len(stages)) for kind in "FB" if kind in kinds[index]}
    reads: dict[tuple[int, str], list[tuple[int, str]]] = {action: [] for action in following}
    for (source_kind, kind), sources_of in waits.items():
        for index, sources in enumerate(sources_of):
            for source in sources:
                readers.setdefault((source, source_kind), []).append((index, kind))
                if (index, kind) in reads and source_kind in "FB":
                    reads[index, kind].append((source, source_kind))
    for index, kind in following:
        if kind == "B" and (index, "F") in following:
            reads[index, kind].append((index, "F"))
    ended_s: dict[tuple[int, str], list[float]] = {action: [] for action in following}
    free_s = [0.0] * len(problem.cluster)
    orders: list[list[Action]] = [[] for _ in free_s]
    backward_first = problem.pipeline is not Pipeline.GPIPE

    def ready_s(index: int, kind: str) -> float | None:
        """When the next micro-batch of an action has its inputs; None if that is not known yet."""
        j = following[index, kind]
        if kind == "F" and (index, "B") in following and j - following[index, "B"] >= stages[index].in_flight:
            return None
        ready = 0.0
        for source in reads[index, kind]:
            ends, last = ended_s[source], j
            if counts[source[0]] != counts[index]:  # the last one that has samples of this micro-batch
                last = -(-(j + 1) * counts[source[0]] // counts[index]) - 1
            if len(ends) <= last:
                return None
            ready = max(ready, ends[last])
        return ready

    # The ready actions, by when they could start. Devices only get busier, so an entry is at most too
    # early: the first one whose time still holds is the next to run.
    heap: list[tuple[float, bool, int, int, str, float]] = []
    waiting = set(following)

    def push(index: int, kind: str, ready: float) -> None:
        start = max(ready, *(free_s[d] for d in stages[index].devices))
        tie = -index if kind == "F" else index
        sample = following[index, kind] * stages[index].micro_batch_size
        heapq.heappush(heap, (start, (kind == "B") != backward_first, sample, tie, kind, ready))

    def look_at(index: int, kind: str) -> None:
        if (index, kind) not in waiting or following[index, kind] == counts[index]:
            return
        ready = ready_s(index, kind)
        if ready is not None:
            waiting.discard((index, kind))
            push(index, kind, ready)

    for index, kind in following:
        look_at(index, kind)
    left = sum(counts[index] for index, _ in following)
    while left:
        start, _, _, tie, kind, ready = heapq.heappop(heap)
        index = -tie if kind == "F" else tie
        if any(free_s[d] > start for d in stages[index].devices):
            push(index, kind, ready)
            continue
        action = Action(index, kind, following[index, kind])
        end = start + seconds[index][kind]
        ended_s[index, kind].append(end)
        for device in stages[index].devices:
            free_s[device] = end
            orders[device].append(action)
        following[index, kind] += 1
        waiting.add((index, kind))
        left -= 1
        for reader in ((index, "F"), (index, "B"), *readers.get((index, kind), ())):
            look_at(*reader)
    return orders


def _durations(problem: Problem, stage: Stage) -> dict[str, float]:
    device = problem.cluster.devices[stage.devices[0]]
    times = problem.compute.at(device.kind, stage.micro_batch_size / len(stage.devices))
    operators = problem.graph.operators
    backward = [o for o in stage.operators if operators[o].phase in PHASES_OF["B"]]
    forward = [o for o in stage.operators if operators[o].phase is Phase.FORWARD]
    again_s = float(times[forward].sum()) if stage.recompute else 0.0
    return {"F": float(times[forward].sum()), "B": float(times[backward].sum()) + again_s}
