"""Transfers as operators of the integer program of a pass."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from solvers.joint.exact.cluster_schedule import Timed
from solvers.programs.scaled_model import Term

if TYPE_CHECKING:
    from solvers.joint.exact.program import PassProgram


@dataclass(frozen=True, slots=True)
class Send:
    """A transfer of which at most one copy moves, in a solution, over one of several routes.

    number: of the transfer. start: the variable of its time; where nothing moves it is any time after the producers
    and before the readers. delay: terms of how long it takes. uses: link -> variables, one of them 1 if it uses the
    link. moves: link -> (variable, time) of what it moves there. producers, readers: clusters that it waits for, and
    that may wait. head: its earliest start. routes: (source, target, link). maker, taker: the only unit that makes it,
    or reads it; -1 if there are several.
    """

    number: int
    start: int
    delay: list[Term]
    uses: dict[int, list[int]]
    moves: dict[int, list[Term]]
    producers: tuple[int, ...]
    readers: tuple[int, ...]
    head: float
    routes: tuple[tuple[int, int, int], ...]
    maker: int
    taker: int


def take_turns(program: PassProgram, sends: Sequence[Send]) -> None:
    """Of two transfers on one link, one after the other, unless the graph determines their order."""
    for one, other in itertools.combinations(sends, 2):
        program.check()
        shared = sorted(set(one.uses) & set(other.uses))
        if not shared or _ordered(program, one, other) or _ordered(program, other, one):
            continue
        order: int | None = None
        for link in shared:
            if never_both(one, other, link):
                continue
            # 1 where both use the link, 0 or -1 elsewhere
            both = [(v, 1.0) for v in (*one.uses[link], *other.uses[link])], -1.0
            big = program.most - other.head, program.most - one.head
            first, second = ((send.start, (send.moves[link], 0.0)) for send in (one, other))
            order = program.first(first, second, both, big, order)
        if order is not None:

            def fill(
                _: Timed, values: list[float], order: int = order, a: int = one.start, b: int = other.start
            ) -> None:
                values[order] = float(values[a] <= values[b])

            program.on_fill(fill)


def _ordered(program: PassProgram, one: Send, other: Send) -> bool:
    """Whether in the graph all that read the one come before all that make the other."""
    reaches = program.clusters.reaches
    return all(r == p or reaches[r, p] for r in one.readers for p in other.producers)


def never_both(one: Send, other: Send, link: int) -> bool:
    """Whether two transfers cannot both use a link, since some unit would have to be on two devices."""

    def needs(send: Send) -> list[dict[int, int]]:
        return [
            {unit: d for unit, d in ((send.maker, source), (send.taker, target)) if unit >= 0}
            for source, target, used in send.routes
            if used == link
        ]

    return not any(
        all(a.get(unit, d) == d for unit, d in b.items())
        for a, b in itertools.product(needs(one), needs(other))
    )  # fmt: skip


def sends_of(program: PassProgram) -> list[Send]:
    """The variables of all transfers, their routes, and rows that make readers wait.

    What one unit makes and one other reads, or what there are only two devices for, moves at most once: one
    `Send` with a way for every ordered pair of devices. What one unit makes for several: one for every
    destination. Partial sums that several units make: one for every pair.
    """
    clusters = program.clusters
    unit_of, devices = program.unit_of, range(clusters.devices)
    pairs = [(s, d) for s in devices for d in devices if s != d]
    sends = []
    for number, transfer in enumerate(clusters.transfers):
        program.check()
        makers = sorted({unit_of[p] for p in transfer.producers})
        readers = transfer.readers
        if len(makers) == 1:
            readers = tuple(r for r in readers if unit_of[r] != makers[0])
        takers = sorted({unit_of[r] for r in readers})
        if not readers:
            continue
        if len(makers) == 1 and (len(takers) == 1 or clusters.devices == 2):
            batches = [pairs]
        elif len(makers) == 1:
            batches = [[(s, d) for s in devices if s != d] for d in devices]
        else:
            batches = [[pair] for pair in pairs]
        for batch in batches:
            send = _send(program, number, makers, takers, readers, batch)
            if send is not None:
                sends.append(send)
    return sends


def _send(
    program: PassProgram, number: int, makers: Sequence[int], takers: Sequence[int], readers: tuple[int, ...],
    batch: Sequence[tuple[int, int]],
) -> Send | None:  # fmt: skip
    clusters, model = program.clusters, program.model
    transfer = clusters.transfers[number]
    moves = _moves(program, makers, takers, batch)
    delay: list[Term] = []
    uses: dict[int, list[int]] = {}
    by_link: dict[int, list[Term]] = {}
    routes = []
    for (source, target), variable in moves.items():
        units = float(transfer.seconds[source, target]) / program.unit_s
        if units == float("inf"):
            model.upper[variable] = 0.0
        elif units > 0 and model.upper[variable] > 0:
            link = int(clusters.model.arrays.wiring.arrive[source, target])
            delay.append((variable, units))
            uses.setdefault(link, []).append(variable)
            by_link.setdefault(link, []).append((variable, units))
            routes.append((source, target, link))
    if not delay:
        return None
    ends = [program.head[p] + program.least[p] for p in transfer.producers]
    sole = len(makers) == 1
    head = max(ends) if sole else min(ends)
    start = model.variable(min(head, program.most), program.most)
    for p in transfer.producers:
        if sole:
            program.after(start, program.start[p], program.lasts[p])
        else:  # only those on the device that sends
            big, here = program.most - program.rest[p] - head, program.x[program.unit_of[p]][batch[0][0]]
            program.after(start, program.start[p], program.lasts[p], ([(here, max(0.0, big))], -max(0.0, big)))
    for r in readers:
        arrives: list[Term] = []
        if not (sole and len(takers) == 1):
            big = max(0.0, program.most - program.head[r])
            if sole and len(batch) > 1 and len({d for _, d in batch}) > 1:  # two devices: where r's differs
                both = program.pair(makers[0], program.unit_of[r])
                arrives = [(both[s][d], big) for s, d in batch]
            else:
                arrives = [(program.x[program.unit_of[r]][batch[0][1]], big)]
            program.after(program.start[r], start, (delay, 0.0), (arrives, -big))
        else:
            program.after(program.start[r], start, (delay, 0.0))

    def fill(schedule: Timed, values: list[float]) -> None:
        sent = [schedule.sent_s[number, s, d] for s, d in batch if (number, s, d) in schedule.sent_s]
        sources = {s for s, _ in batch}
        ended = [
            schedule.end_s[p] for p in transfer.producers if sole or schedule.place[program.unit_of[p]] in sources
        ]  # fmt: skip
        values[start] = (sent[0] if sent else max(ended, default=0.0)) / program.unit_s
        values[start] = max(values[start], model.lower[start])

    program.on_fill(fill)
    return Send(
        number, start, delay, uses, by_link, transfer.producers, readers, head, tuple(routes),
        makers[0] if sole else -1, takers[0] if len(takers) == 1 else -1,
    )  # fmt: skip


def _moves(
    program: PassProgram, makers: Sequence[int], takers: Sequence[int], batch: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """(source, target) -> a variable that is 1 if some maker is on the one and some taker on the other."""
    ends = [(m, t) for m in makers for t in takers if m != t]
    if len(ends) == 1 and len(makers) == 1:
        both = program.pair(*ends[0])
        return {(s, d): both[s][d] for s, d in batch}
    moves = {}
    for s, d in batch:
        variable = moves[s, d] = program.model.variable()
        for m, t in ends:
            program.model.row([(variable, 1.0), (program.pair(m, t)[s][d], -1.0)], least=0.0)
        if len(makers) == 1:
            program.model.row([(variable, 1.0), (program.x[makers[0]][s], -1.0)], most=0.0)

        def fill(schedule: Timed, values: list[float], variable: int = variable, s: int = s, d: int = d) -> None:
            values[variable] = float(any(schedule.place[m] == s and schedule.place[t] == d for m, t in ends))

        program.on_fill(fill)
    return moves
