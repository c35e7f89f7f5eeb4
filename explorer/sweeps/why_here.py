"""Why an operator is where it is: what it would cost to have it elsewhere, or which rule forbids that."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypedDict

from explorer.sweeps.edges import edge_moves
from explorer.sweeps.moved import Place, company, moved_plans, places
from explorer.view.plan_view import devices
from explorer.words import text
from explorer.words.tables import aligned
from solvers.errors import PlacementError
from solvers.evaluation.evaluate import Metrics, evaluate, judge
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem
from solvers.search.monitor import never

LEAST_SHARE = 0.005
"""Of a device's busy time or memory: less is not worth a word."""
MOST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Move:
    """Operators at another place. delta_s: what the objective changes by (0 where they are already), None if a rule
    forbids the move, which ``reason`` names. changes: what else becomes different, in a few words each. plan: the plan
    that was evaluated, None where there is none."""

    place: Place
    name: str
    delta_s: float | None
    changes: tuple[str, ...] = ()
    reason: str = ""
    here: bool = False
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class WhyHere:
    """operators: what was asked for, with all that must be where it is. along: how many came along. moves: one a place,
    those that are allowed first, the least delta first. edges: those of the edges of their stage, see `edge_moves`."""

    operators: tuple[int, ...]
    along: int
    objective_s: float
    moves: tuple[Move, ...]
    edges: tuple[Move, ...] = ()

    def __str__(self) -> str:
        """A table: place, change of the objective, and what changes or forbids it."""
        rows = [(move.name, delta_words(move), "; ".join(move.changes) or move.reason) for move in self.moves]
        rows += [
            (f"edge: {move.name}", delta_words(move), "; ".join(move.changes) or move.reason) for move in self.edges
        ]
        head = f"{text.plural(len(self.operators), 'operator')}, {text.seconds(self.objective_s)} where they are"
        return "\n".join([head, *aligned(rows, {1})])


def why_here(
    problem: Problem, plan: Plan, operators: Collection[int], *, should_stop: Callable[[], bool] = never
) -> WhyHere:
    """A move to every place, each really evaluated. Raises InvalidPlan if the plan itself cannot be."""
    moving = company(problem, operators)
    judged = judge(problem, plan)
    ranked = sorted(moves(problem, plan, operators, should_stop=should_stop), key=rank)
    along = len(moving) - len(set(operators))
    moved = tuple(edges(problem, plan, operators, should_stop=should_stop))
    return WhyHere(tuple(sorted(moving)), along, judged.objective_s, tuple(ranked), moved)


def moves(
    problem: Problem, plan: Plan, operators: Collection[int], *, should_stop: Callable[[], bool] = never
) -> Iterator[Move]:
    """The move to each of `places`, one after the other."""
    moving = company(problem, operators)
    where = plan.placement()
    before_s = judge(problem, plan).objective_s
    before = evaluate(problem, plan)
    names = [device["name"] for device in devices(problem)]
    for place in places(problem, plan):
        if should_stop():
            return
        name = place_name(place, names)
        if all(where[operator] == place for operator in moving):
            yield Move(place, name, 0.0, here=True, plan=plan)
            continue
        yield _move(problem, plan, moving, place, name, before_s, before, names)


def edges(
    problem: Problem, plan: Plan, operators: Collection[int], *, should_stop: Callable[[], bool] = never
) -> Iterator[Move]:
    """What moving the edges of their stage costs, a module each way (`edge_moves`). The name says what goes where."""
    names = [device["name"] for device in devices(problem)]
    before_s, before = judge(problem, plan).objective_s, evaluate(problem, plan)
    for one in edge_moves(problem, plan, operators):
        if should_stop():
            return
        name = f"{one.module} to {place_name(one.to, names)}"
        yield _move(problem, plan, one.operators, one.to, name, before_s, before, names)


class MoveRow(TypedDict):
    """A move as plain data. delta: in words; edge: whether it moves one of the stage's edges."""

    device: int
    name: str
    delta_s: float | None
    delta: str
    changes: list[str]
    reason: str
    here: bool
    edge: bool


def move_rows(
    problem: Problem, plan: Plan, operators: Collection[int], *, should_stop: Callable[[], bool] = never
) -> Iterator[MoveRow]:
    """The moves, then those of edges, one after the other."""
    alternatives = chain(
        ((False, move) for move in moves(problem, plan, operators, should_stop=should_stop)),
        ((True, move) for move in edges(problem, plan, operators, should_stop=should_stop)),
    )
    for edge, move in alternatives:
        yield {
            "device": move.place[0], "name": move.name, "delta_s": move.delta_s, "delta": delta_words(move),
            "changes": list(move.changes), "reason": move.reason, "here": move.here, "edge": edge,
        }  # fmt: skip


def rank(move: Move) -> tuple[bool, float, Place]:
    """Where a move stands in the table."""
    return move.delta_s is None, move.delta_s or 0.0, move.place


def delta_words(move: Move) -> str:
    """ "+3.1 ms", "−2 µs", "here", "not allowed"."""
    if move.here:
        return "here"
    if move.delta_s is None:
        return "not allowed"
    if move.delta_s == 0:
        return "±0"
    return text.signed(move.delta_s, text.seconds)


def place_name(place: Sequence[int], names: Sequence[str]) -> str:
    """ "GPU 2", "GPU 2, GPU 3"."""
    return text.listing([names[device] for device in place], 4)


def _move(
    problem: Problem, plan: Plan, moving: Collection[int], place: Place, name: str, before_s: float, before: Metrics,
    names: Sequence[str],
) -> Move:  # fmt: skip
    """The fastest of the plans that put them there; where none is allowed, what stands against the one that is closest
    to it: over a cap by least, else that which changes least."""
    best: tuple[float, Plan, Metrics] | None = None
    against: list[tuple[float, str]] = []
    for moved in moved_plans(problem, plan, moving, place):
        try:
            judged = judge(problem, moved)
            if judged.feasible and math.isfinite(judged.objective_s):
                if best is None or judged.objective_s < best[0]:
                    best = judged.objective_s, moved, evaluate(problem, moved)
            elif math.isfinite(judged.objective_s):
                against.append(_over_cap(problem, moved, names))
            else:
                against.append((math.inf, judged.violation or "it cannot run there"))
        except PlacementError as error:
            against.append((math.inf, str(error)))
    if best is None:
        reason = min(against, key=lambda pair: pair[0])[1] if against else "stages would wait for one another"
        return Move(place, name, None, reason=_named(reason, names))
    return Move(place, name, best[0] - before_s, _changes(before, best[2], names), plan=best[1])


def _named(reason: str, names: Sequence[str]) -> str:
    """What a rule says of devices by their numbers, by their names."""

    def name(match: re.Match[str]) -> str:
        return place_name([int(number) for number in re.findall(r"\d+", match[0])], names)

    return re.sub(r"\bdevice \d+\b|(the devices )?\[\d+(?:, \d+)*\]", name, reason).replace(" -> ", " → ")


def _over_cap(problem: Problem, plan: Plan, names: Sequence[str]) -> tuple[float, str]:
    """By how many bytes the device is over its cap that is by most, and "GPU 2 would hold 17.2 GiB, 1.2 GiB over its
    cap"."""
    peaks = evaluate(problem, plan).peak_memory_bytes
    over = [peak - device.memory_bytes for peak, device in zip(peaks, problem.cluster.devices, strict=True)]
    most = max(range(len(over)), key=lambda i: over[i])
    return over[most], f"{names[most]} would hold {text.nbytes(peaks[most])}, {text.nbytes(over[most])} over its cap"


def _changes(before: Metrics, after: Metrics, names: Sequence[str]) -> tuple[str, ...]:
    """What a move makes different, the largest shares first: work and memory of devices, bytes between them."""
    changes: list[tuple[float, str]] = []

    def add(
        was: float, now: float, words: Callable[[str], str], unit: Callable[[float | None], str], of: float
    ) -> None:
        share = abs(now - was) / of if of > 0 else 0.0
        if share >= LEAST_SHARE:
            changes.append((share, words(text.signed(now - was, unit))))

    busiest, fullest = max(before.busy_s), max(before.peak_memory_bytes)
    for device, name in enumerate(names):
        add(before.busy_s[device], after.busy_s[device], lambda d, n=name: f"{n}: {d} of work", text.seconds, busiest)  # type: ignore[misc]
        add(before.peak_memory_bytes[device], after.peak_memory_bytes[device],
            lambda d, n=name: f"{n}: peak {d}", text.nbytes, fullest)  # type: ignore[misc]  # fmt: skip
    add(before.cut_bytes, after.cut_bytes, lambda d: f"{d} between devices", text.nbytes,
        max(before.cut_bytes, after.cut_bytes))  # fmt: skip
    changes.sort(key=lambda pair: -pair[0])
    return tuple(words for _, words in changes[:MOST_WORDS])
