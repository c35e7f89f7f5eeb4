"""The order in which links serve messages, where the plan states it."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Ints
from solvers.plan.plan import ACTION_KINDS, Action, Message, Plan
from solvers.plan.schedule import Schedule
from solvers.verify.arrays.alike import INSTANT
from solvers.verify.travel.transfers import Moves


def stated_positions(plan: Plan, moves: Moves) -> tuple[Ints, list[str]]:
    """([arrivals] their position in the row of ``plan.messages`` for their link, -1 where none is stated; what the
    rows lack or have too much).

    A row names all that its link carries but all-reduces. Messages of one name are numbered as they stand in
    ``moves``: by bundle, sender's slice and reader's slice.
    """
    e = moves.arrivals
    position, found = np.full(len(e.stage), -1, np.int64), []
    for link, row in plan.messages:
        at = {message: place for place, message in enumerate(row)}
        here = np.flatnonzero(e.resource == moves.resources.index(link)) if link in moves.resources else ()
        count: dict[tuple[Action, int], int] = {}
        for arrival in map(int, here):
            kind = ACTION_KINDS[int(e.kind[arrival])]
            key = Action(int(e.stage[arrival]), kind, int(e.micro_batch[arrival])), int(e.to_device[arrival])
            message = Message(*key, count.setdefault(key, 0))
            count[key] += 1
            if message not in at:
                found.append(f"{link} carries {message}, which its stated order lacks")
            position[arrival] = at.pop(message, -1)
        found += [f"{link} does not carry {message}, which its stated order names" for message in list(at)[:1]]
    return position, found


def stated_turns(position: Ints, moves: Moves, arrivals: Ints, schedule: Schedule) -> tuple[Ints, list[str]]:
    """([spans] the span whose end each waits for on its link, -1 for none; spans that go before their turn).

    position: see `stated_positions`. arrivals: the span of each.
    """
    c, instant = schedule.columns, INSTANT * schedule.makespan_s
    before = np.full(len(c.start_s), -1, np.int64)
    stated = np.flatnonzero(position >= 0)
    order = stated[np.lexsort((position[stated], moves.arrivals.resource[stated]))]
    same = moves.arrivals.resource[order[1:]] == moves.arrivals.resource[order[:-1]]
    earlier, later = arrivals[order[:-1]][same], arrivals[order[1:]][same]
    before[later] = earlier
    found = [
        f"{schedule.resources[c.resource[b]]}: {schedule.action(int(b))} starts at {c.start_s[b]} s, before"
        f" {schedule.action(int(a))}, which the stated order has first, ends at {c.end_s[a]} s"
        for a, b in zip(earlier, later, strict=True)
        if c.start_s[b] < c.end_s[a] - instant
    ]
    return before, found
