"""Which operators of a plan the calls in a rank's trace are, by their names and their order."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from typing import NamedTuple

from explorer.costs.times.trace_events import OPTIMIZER, STEP, Mark, Seen, Trace
from explorer.measured.traces.alignment import aligned
from solvers.errors import InvalidProblem
from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem

LEAST_MATCHED = 0.5
"""Of the calls that a rank's stages make in an iteration, the share that must be in the trace, in order."""


class Place(NamedTuple):
    """An operator of a plan in one micro-batch: a call of its forward."""

    stage: int
    micro_batch: int
    operator: int


@dataclass(frozen=True, slots=True)
class Iteration:
    """calls: what each call that was found is; optimizers: spans of its optimizer's steps."""

    calls: tuple[tuple[Place, Seen], ...]
    optimizers: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """The iterations of a rank that are whole, by their numbers. share: of the calls that the plan has in these, how
    many were found; missing: names of operators' kinds of which some were not, with how many in all iterations; torn:
    iterations that were left out, because less than half was found, or nothing of some forward."""

    iterations: Mapping[int, Iteration]
    share: float
    missing: tuple[tuple[str, int], ...]
    torn: int


def expected_calls(problem: Problem, plan: Plan, device: int) -> list[tuple[str, Place]]:
    """The calls of an iteration on a device as the plan orders them, with their names as a trace has them."""
    operators = problem.graph.operators
    forwards = {
        stage: [o for o in held.operators if operators[o].phase is Phase.FORWARD]
        for stage, held in enumerate(plan.stages)
        if device in held.devices
    }
    return [
        (_plain(operators[o].op_type.replace(".", "::", 1)), Place(action.stage, action.micro_batch, o))
        for action in plan.order[device]
        if action.kind == "F"
        for o in forwards[action.stage]
    ]


def matched(problem: Problem, plan: Plan, device: int, trace: Trace, where: str) -> Matched:
    """A trace laid beside what the plan says of ``device``. Raises InvalidProblem where they do not go together."""
    expected = expected_calls(problem, plan, device)
    if not expected:
        raise InvalidProblem(f"{where}: the plan has no forward on device {device}, so nothing can be found in it")
    count = len(expected)
    wanted = [name for name, _ in expected]
    iterations: dict[int, Iteration] = {}
    missing: Counter[str] = Counter()
    best = seen = torn = 0
    for window in _windows(trace, set(wanted), count):
        pairs = aligned(wanted * window.times, [_plain(call.forward.name) for call in window.calls]) or []
        for at in range(window.times):
            here = [(i - at * count, j) for i, j in pairs if i // count == at]
            best = max(best, len(here))
            placed = tuple((expected[i][1], window.calls[j]) for i, j in here)
            if len(here) < LEAST_MATCHED * count or not _whole(expected, placed):
                torn += 1
                continue
            iterations[window.number + at] = Iteration(placed, window.optimizers)
            seen += len(here)
            missing.update(Counter(wanted) - Counter(wanted[i] for i, _ in here))
    if not iterations:
        raise InvalidProblem(
            f"{where}: of the {count:,} calls that the plan has on device {device} in an iteration, {best:,} are in an"
            " iteration of the trace in this order; is it of this rank, this plan and as many micro-batches, and of a"
            " model that runs operator by operator?"
        )
    return Matched(iterations, seen / (count * len(iterations)), tuple(missing.most_common()), torn)


def _plain(name: str) -> str:
    """Without what says that an operator works in place."""
    return name.rstrip("_")


def _whole(expected: Sequence[tuple[str, Place]], placed: Sequence[tuple[Place, Seen]]) -> bool:
    """Whether something was found of every forward."""
    wanted = {(place.stage, place.micro_batch) for _, place in expected}
    return wanted == {(place.stage, place.micro_batch) for place, _ in placed}


class _Window(NamedTuple):
    """Calls of ``times`` iterations, the first of which has this number, and steps of their optimizer."""

    number: int
    times: int
    calls: list[Seen]
    optimizers: tuple[Mark, ...]


def _windows(trace: Trace, names: set[str], count: int) -> list[_Window]:
    """An iteration each: a step of the profiler, else what a step of the optimizer ends. Without either all of the
    trace, for as many iterations as it has times ``count`` calls with one of ``names``."""
    optimizers = [mark for mark in trace.marks if mark.name.startswith(OPTIMIZER)]
    steps = [mark for mark in trace.marks if mark.name.startswith(STEP)]
    starts = [mark.start_us for mark in optimizers]
    calls = []
    for seen in trace.calls:
        at = bisect_right(starts, seen.forward.start_us) - 1
        if _plain(seen.forward.name) in names and not (at >= 0 and seen.forward.start_us < optimizers[at].end_us):
            calls.append(seen)
    times = [seen.forward.start_us for seen in calls]
    if steps:
        edges = [(_number(mark, at), mark.start_us, mark.end_us) for at, mark in enumerate(steps)]
    elif optimizers:
        edges = list(zip(count_from(0), [-math.inf, *_ends(optimizers, times)], _ends(optimizers, times), strict=False))
    else:
        return [_Window(0, max(1, round(len(calls) / count)), calls, ())] if calls else []
    windows = []
    for number, start, end in edges:
        inside = calls[bisect_left(times, start) : bisect_left(times, end)]
        stepped = optimizers[bisect_left(starts, start) : bisect_left(starts, end)]
        if inside:
            windows.append(_Window(number, 1, inside, tuple(stepped)))
    return windows


def _number(mark: Mark, position: int) -> int:
    """ "ProfilerStep#7" -> 7."""
    digits = mark.name.removeprefix(STEP)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else position


def _ends(optimizers: Sequence[Mark], times: Sequence[float]) -> list[float]:
    """Where iterations end: with the last of the optimizer's steps that no call lies between."""
    ends: list[float] = []
    for mark in optimizers:
        if ends and bisect_left(times, ends[-1]) == bisect_left(times, mark.start_us):
            ends.pop()
        ends.append(mark.end_us)
    return ends
