"""The spans that messages must have, under each of the four transfer models, and who waits for them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from solvers.problem import Problem, Transfers
from solvers.verify.jobs import Jobs
from solvers.verify.messages import Messages
from solvers.verify.ragged import Flags, Floats, Ints, flat, ints, ranges, starts
from solvers.verify.reduction import all_reduces
from solvers.verify.seconds import Speeds
from solvers.verify.sharing import overlaps


@dataclass(frozen=True, eq=False)
class Expected:
    """Spans of transfers that must be there: columns, as in `SpanColumns`."""

    stage: Ints
    kind: Ints
    micro_batch: Ints
    device: Ints
    to_device: Ints
    resource: Ints
    """position in ``Transfers.resources``"""
    nbytes: Floats
    seconds: Floats
    priority: Floats


@dataclass(frozen=True, eq=False)
class Crossings:
    """Every slice that is sent, and every part of one that is received.

    A sending is one bundle leaving one slice's device; an arrival is what of it one slice elsewhere needs.
    """

    bundle: Ints
    """[sendings]"""
    device: Ints
    """[sendings]"""
    made_at: Ints
    """[makings] sending ..."""
    made_by: Ints
    """[makings] ... and a turn that makes some of it"""
    nbytes: Floats
    """[sendings] B that the sender keeps for it"""
    sends: Flags
    """[sendings] whether there is a span of the sender's half: row of ``departures`` in order"""
    sending: Ints
    """[arrivals]"""
    to_device: Ints
    """[arrivals]"""
    arrives: Flags
    """[arrivals] whether there is a span: row of ``arrivals`` in order"""
    direct: Flags
    """[arrivals] nothing is sent: the samples are there, or no bytes"""
    read_of: Ints
    """[readings] arrival ..."""
    read_by: Ints
    """[readings] ... and a turn that reads it"""


@dataclass(frozen=True, eq=False)
class Moves:
    """All that must travel. departures, arrivals, reduces: the spans expected; folded_s: seconds that calls
    fetch and send themselves, [turns]; reduced: stages of the rows of ``reduces``."""

    crossings: Crossings
    departures: Expected
    arrivals: Expected
    reduces: Expected
    folded_s: Floats
    resources: tuple[str, ...]


def transfers_of(problem: Problem, jobs: Jobs, messages: Messages) -> Moves:
    """What must travel between the turns of ``jobs``."""
    return _Rules(problem, jobs, messages).moves()


class _Rules:
    def __init__(self, problem: Problem, jobs: Jobs, messages: Messages) -> None:
        self.problem, self.jobs, self.bundles = problem, jobs, messages.bundles
        self.speeds = Speeds(problem, messages.bundles)
        self.mode = problem.transfers
        self.is_cpu = np.array([device.is_cpu for device in problem.cluster.devices])
        place_of, devices = flat([devices for devices, _ in jobs.places])
        self.devices, self.at_place = devices, starts(np.bincount(place_of, minlength=len(jobs.places)))
        self.replicas = np.diff(self.at_place)
        self.slices = np.zeros(len(jobs.places), np.int64)
        self.slices[jobs.place] = jobs.slices
        # [bundles]: who makes it, where
        self.maker_of, self.maker = flat([bundle.makers for bundle in self.bundles])
        self.home = ints(jobs.place[bundle.makers[0]] for bundle in self.bundles)
        # [targets]: bundles times the places that read them
        self.target_bundle, _ = flat([[0] * len(bundle.readers) for bundle in self.bundles])
        readers = [mine for bundle in self.bundles for mine in bundle.readers]
        self.reader_of, self.reader = flat(readers)
        self.target_place = ints(jobs.place[mine[0]] for mine in readers)
        self.first_reader = ints(mine[0] for mine in readers)

    def moves(self) -> Moves:
        jobs, blocking = self.jobs, self.mode is Transfers.BLOCKING
        parts = self.slices[self.home]
        begin = starts(parts)
        bundle, k = np.repeat(np.arange(len(parts)), parts), ranges(parts)
        src = self._device(self.home[bundle], k)
        share = self.problem.mini_batch / parts[bundle]
        free = self.speeds.tensors[bundle] == 0
        call = jobs.call[ints(b.makers[0] for b in self.bundles)][bundle] if len(self.bundles) else free
        departs = ~free & ~self.is_cpu[src] & (self.mode is not Transfers.LINKS)
        sends = departs & ~(call & blocking)
        farthest = self._farthest(bundle, src, share, departs)

        target, here, there, part = self._parts()
        sending = begin[self.target_bundle[target]] + here
        dst = self._device(self.target_place[target], there)
        through = self._through_host()[target]
        direct = free[sending] | ((src[sending] == dst) & ~through)
        nothing = direct | (self.is_cpu[dst] & (self.mode is not Transfers.LINKS))
        folds = ~nothing & jobs.call[self.first_reader[target]] & blocking
        arrives = ~nothing & ~folds
        samples = part * self.problem.mini_batch
        seconds = self.speeds.seconds(bundle[sending], samples, src[sending], dst)
        sizes = np.bincount(self.reader_of, minlength=len(self.target_place))
        width = sizes[target]
        read_of = np.repeat(np.arange(len(target)), width)
        reader = self.reader[np.repeat(starts(sizes)[target], width) + ranges(width)]
        read_by = jobs.first[reader] + there[read_of]

        made_at, made_by = self._makings(begin, parts)
        folded = np.zeros(len(jobs.job))
        leaves = departs & call & blocking
        first_maker = ints(b.makers[0] for b in self.bundles)[bundle[leaves]]
        np.add.at(folded, jobs.first[first_maker] + k[leaves], farthest[leaves])
        fetched = folds[read_of]
        np.add.at(folded, read_by[fetched], seconds[read_of[fetched]])

        last, first = self._priorities(made_at, made_by, read_of, read_by, len(bundle), len(target))
        names = _Names(self.problem)
        maker = ints(b.makers[-1] for b in self.bundles)[bundle]
        amount = self.speeds.nbytes(bundle, share)
        out = names.of("out", src, src)
        within = names.of("in", src[sending], dst)
        row = (jobs.stage[maker], jobs.kind[maker], k // self.replicas[self.home[bundle]], src)
        departures = Expected(*(c[sends] for c in (*row, src, out, amount, farthest, last)))
        columns = (
            *(c[sending] for c in row),
            dst,
            within,
            self.speeds.nbytes(bundle[sending], samples),
            seconds,
            first,
        )
        arrivals = Expected(*(column[arrives] for column in columns))
        reduces = Expected(*all_reduces(self.problem, jobs, names.of))
        crossings = Crossings(
            bundle, src, made_at, made_by, amount, sends, sending, dst, arrives, direct, read_of, read_by
        )
        return Moves(crossings, departures, arrivals, reduces, folded, names.known())

    def _device(self, place: Ints, k: Ints) -> Ints:
        """The device that has slice ``k`` at a place."""
        found: Ints = self.devices[self.at_place[place] + k % self.replicas[place]]
        return found

    def _parts(self) -> tuple[Ints, Ints, Ints, Floats]:
        """Which slice is needed by which slice elsewhere: (target, slice here, slice there, part of a mini-batch)."""
        cuts = list(
            zip(
                self.slices[self.home[self.target_bundle]].tolist(),
                self.slices[self.target_place].tolist(),
                strict=True,
            )
        )
        known = {cut: number for number, cut in enumerate(dict.fromkeys(cuts))}
        tables = [overlaps(*cut) for cut in known]
        if not tables:
            return ints(()), ints(()), ints(()), np.zeros(0)
        sizes = ints(len(table[0]) for table in tables)
        which = ints(known[cut] for cut in cuts)
        rows = np.repeat(starts(sizes)[which], sizes[which]) + ranges(sizes[which])
        here, there, part = (np.concatenate(columns)[rows] for columns in zip(*tables, strict=True))
        return np.repeat(np.arange(len(cuts)), sizes[which]), here, there, part

    def _through_host(self) -> Flags:
        """[targets] whether two calls on one device hand tensors over in the host's memory, which costs what
        sending and fetching do (Tarnawski et al. 2020, section 6)."""
        jobs = self.jobs
        if self.mode is not Transfers.BLOCKING or not jobs.call.any():
            return np.zeros(len(self.target_place), bool)
        maker = ints(self.bundles[b].makers[0] for b in self.target_bundle)
        reader = self.first_reader
        numbers: dict[tuple[int, ...], int] = {}
        where = ints(numbers.setdefault(devices, len(numbers)) for devices, _ in jobs.places)
        alike = where[jobs.place[maker]] == where[jobs.place[reader]]
        found: Flags = jobs.call[maker] & jobs.call[reader] & alike & (jobs.stage[maker] != jobs.stage[reader])
        return found

    def _farthest(self, bundle: Ints, src: Ints, share: Floats, departs: Flags) -> Floats:
        """[sendings] Seconds to the slowest of all devices of all places that read the bundle."""
        slowest = np.zeros(len(bundle))
        if not departs.any():
            return slowest
        targets = starts(np.bincount(self.target_bundle, minlength=len(self.bundles)))
        # one row for each sending and device that any of its places has
        width = ints(self.replicas[self.target_place[a:b]].sum() for a, b in pairwise(targets))
        there = np.concatenate([self.devices[self.at_place[p] : self.at_place[p + 1]] for p in self.target_place])
        rows = np.flatnonzero(departs)
        wide = width[bundle[rows]]
        row = np.repeat(rows, wide)
        dst = there[np.repeat(starts(width)[:-1][bundle[rows]], wide) + ranges(wide)]
        np.maximum.at(slowest, row, self.speeds.seconds(bundle[row], share[row], src[row], dst))
        return slowest

    def _makings(self, begin: Ints, parts: Ints) -> tuple[Ints, Ints]:
        """Which turns make what a sending carries: (sending, turn)."""
        sizes = parts[self.maker_of]
        made_at = np.repeat(begin[:-1][self.maker_of], sizes) + ranges(sizes)
        return made_at, np.repeat(self.jobs.first[self.maker], sizes) + ranges(sizes)

    def _priorities(
        self, made_at: Ints, made_by: Ints, read_of: Ints, read_by: Ints, sendings: int, arrivals: int
    ) -> tuple[Floats, Floats]:
        """What goes first where several could, the least first: a turn has its position in its device's order,
        what arrives comes just before the first turn that reads it, what leaves just after the last that makes it.
        """
        position = self.jobs.position.astype(float)
        last = np.zeros(sendings)
        np.maximum.at(last, made_at, position[made_by])
        first = np.full(arrivals, np.inf)
        np.minimum.at(first, read_of, position[read_by])
        return last + 0.25, first - 0.25


class _Names:
    """Resources as numbers, in the order in which they are met."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.numbers: dict[str, int] = {}

    def of(self, way: str, src: Ints, dst: Ints, mode: Transfers | None = None) -> Ints:
        """What a transfer from ``src`` to ``dst`` occupies on its way "out" of a device or "in" to another."""
        mode = mode or self.problem.transfers
        pairs, which = np.unique(src * len(self.problem.cluster) + dst, return_inverse=True)
        numbers = []
        for pair in pairs.tolist():
            a, b = divmod(pair, len(self.problem.cluster))
            if mode is Transfers.LINKS:
                link = self.problem.cluster.link(a, b)
                name = link.resource if link is not None and link.resource else f"{a}->{b}"
            else:
                what = {Transfers.BLOCKING: "device", Transfers.LANE: "lane", Transfers.DUPLEX: way}[mode]
                name = f"{what} {a if way == 'out' else b}"
            numbers.append(self.numbers.setdefault(name, len(self.numbers)))
        return ints(numbers)[which]

    def known(self) -> tuple[str, ...]:
        return tuple(self.numbers)
