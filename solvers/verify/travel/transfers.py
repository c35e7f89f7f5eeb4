"""What leaves where, slice by slice, which part of it is needed where, the spans that messages must have, under each of
the four transfer models, and who waits for them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.problem.problem import Problem, Transfers
from solvers.verify.arrays.ragged import flat, ints, overlaps, ranges, starts, sums
from solvers.verify.travel.reduction import Expected, all_reduces
from solvers.verify.travel.wires import Speeds, Wires
from solvers.verify.work.jobs import Jobs
from solvers.verify.work.messages import Messages


class Sendings(NamedTuple):
    """One bundle leaving the device of one slice of the mini-batch: columns."""

    bundle: Ints
    """[sendings]"""
    slice: Ints
    """[sendings] of the place that makes it"""
    device: Ints
    """[sendings]"""
    samples: Floats
    """[sendings]"""
    made_at: Ints
    """[makings] sending ..."""
    made_by: Ints
    """[makings] ... and a turn that makes some of it"""


class Parts(NamedTuple):
    """What of a sending one slice elsewhere needs: columns."""

    target: Ints
    """[parts] bundle and place that reads it, see `Routes`"""
    sending: Ints
    """[parts]"""
    device: Ints
    """[parts] that reads it"""
    samples: Floats
    """[parts]"""
    read_of: Ints
    """[readings] part ..."""
    read_by: Ints
    """[readings] ... and a turn that reads it"""


class Routes:
    """The bundles of a plan and their targets: the places that read them, bundle by bundle, as columns."""

    def __init__(self, problem: Problem, jobs: Jobs, messages: Messages) -> None:
        self.jobs, self.mini_batch = jobs, problem.mini_batch
        place_of, self.devices = flat([devices for devices, _ in jobs.places])
        self.at_place = starts(np.bincount(place_of, minlength=len(jobs.places)))
        self.replicas = np.diff(self.at_place)
        self.slices = np.zeros(len(jobs.places), np.int64)
        self.slices[jobs.place] = jobs.slices
        bundles = messages.bundles
        self.maker_of, self.maker = flat([bundle.makers for bundle in bundles])
        self.first_maker, self.last_maker = ints(b.makers[0] for b in bundles), ints(b.makers[-1] for b in bundles)
        self.home = jobs.place[self.first_maker]
        readers = [place_readers for bundle in bundles for place_readers in bundle.readers]
        self.bundle = flat([range(len(bundle.readers)) for bundle in bundles])[0]
        self.reader_of, self.reader = flat(readers)
        self.first_reader = ints(place_readers[0] for place_readers in readers)
        self.place = jobs.place[self.first_reader]
        self.begin = starts(self.slices[self.home])
        """[bundles + 1] where the sendings of each begin"""

    def sendings(self) -> Sendings:
        sizes = np.diff(self.begin)
        bundle, k = np.repeat(np.arange(len(sizes)), sizes), ranges(sizes)
        each = sizes[self.maker_of]
        made_at = np.repeat(self.begin[:-1][self.maker_of], each) + ranges(each)
        made_by = np.repeat(self.jobs.first[self.maker], each) + ranges(each)
        return Sendings(
            bundle, k, self._device(self.home[bundle], k), self.mini_batch / sizes[bundle], made_at, made_by
        )

    def parts(self) -> Parts:
        target, here, there, share = self._shared()
        sizes = np.bincount(self.reader_of, minlength=len(self.place))
        width = sizes[target]
        read_of = np.repeat(np.arange(len(target)), width)
        reader = self.reader[np.repeat(starts(sizes)[target], width) + ranges(width)]
        return Parts(
            target,
            self.begin[self.bundle[target]] + here,
            self._device(self.place[target], there),
            share * self.mini_batch,
            read_of,
            self.jobs.first[reader] + there[read_of],
        )

    def _shared(self) -> tuple[Ints, Ints, Ints, Floats]:
        """Which slice is needed by which slice elsewhere: (target, slice here, slice there, part of a mini-batch)."""
        home, there = self.slices[self.home[self.bundle]].tolist(), self.slices[self.place].tolist()
        cuts = list(zip(home, there, strict=True))
        known = {cut: number for number, cut in enumerate(dict.fromkeys(cuts))}
        tables = [overlaps(*cut) for cut in known] or [overlaps(1, 1)]
        sizes = ints(len(table[0]) for table in tables)
        which = ints(known[cut] for cut in cuts)
        rows = np.repeat(starts(sizes)[which], sizes[which]) + ranges(sizes[which])
        own_slice, other_slice, share = (np.concatenate(columns)[rows] for columns in zip(*tables, strict=True))
        return np.repeat(np.arange(len(cuts)), sizes[which]), own_slice, other_slice, share

    def _device(self, place: Ints, k: Ints) -> Ints:
        """The device that has slice ``k`` at a place."""
        devices: Ints = self.devices[self.at_place[place] + k % self.replicas[place]]
        return devices

    def destinations(self, sendings: Sendings, rows: Ints) -> tuple[Ints, Ints]:
        """(sending, device) for some sendings and every device of every place that reads their bundle."""
        each = self.replicas[self.place]
        width = sums(self.bundle, each.astype(np.float64), len(self.home)).astype(np.int64)
        there = self.devices[np.repeat(self.at_place[self.place], each) + ranges(each)]
        wide = width[sendings.bundle[rows]]
        return np.repeat(rows, wide), there[np.repeat(starts(width)[sendings.bundle[rows]], wide) + ranges(wide)]

    def through_host(self) -> Bools:
        """[targets] whether two calls on one device hand tensors over, which they do in the host's memory."""
        jobs, maker, reader = self.jobs, self.first_maker[self.bundle], self.first_reader
        numbers: dict[tuple[int, ...], int] = {}
        where = ints(numbers.setdefault(devices, len(numbers)) for devices, _ in jobs.places)
        alike = where[jobs.place[maker]] == where[jobs.place[reader]]
        through: Bools = jobs.call[maker] & jobs.call[reader] & alike & (jobs.stage[maker] != jobs.stage[reader])
        return through


class Moves(NamedTuple):
    """All that must travel, and the spans that it must have."""

    sendings: Sendings
    parts: Parts
    kept_bytes: Floats
    """[sendings] B that the sender keeps until all of it has gone"""
    sends: Bools
    """[sendings] whether the sender's half has a span, a row of ``departures``"""
    arrives: Bools
    """[parts] whether there is a span, a row of ``arrivals``"""
    direct: Bools
    """[parts] nothing is sent: the samples are there already, or it is an order without bytes"""
    departures: Expected
    arrivals: Expected
    reduces: Expected
    folded_s: Floats
    """[turns] s that calls fetch and send themselves"""
    resources: tuple[str, ...]
    rings: tuple[tuple[int, ...], ...]
    """the devices of every stage, all its replicas, of which the turns are those of the first or of all"""


def transfers_of(problem: Problem, jobs: Jobs, messages: Messages, rings: tuple[tuple[int, ...], ...]) -> Moves:
    """What must travel between the turns of ``jobs``, and what these send for gradients; rings: see `Moves`.

    LINKS: everything is one span on its link. The others: a sender's half, and a receiver's for each destination;
    CPUs pay for neither; under BLOCKING calls fetch and send themselves, also what stays on their device (Tarnawski
    et al. 2020, section 6).
    """
    routes, speeds, wires = Routes(problem, jobs, messages), Speeds(problem, messages.bundles), Wires(problem)
    sendings, parts = routes.sendings(), routes.parts()
    src, sender, call = sendings.device, parts.sending, routes.first_maker[sendings.bundle]
    links, blocking = problem.transfers is Transfers.LINKS, problem.transfers is Transfers.BLOCKING
    is_cpu = np.array([device.is_cpu for device in problem.cluster.devices])
    free = speeds.tensors[sendings.bundle] == 0
    departs = ~free & ~is_cpu[src] & (not links)  # [sendings] whether the sender is busy, in its call or apart
    within_call = departs & jobs.call[call] & blocking
    stays = src[sender] == parts.device
    if blocking:
        stays &= ~routes.through_host()[parts.target]
    direct = free[sender] | stays
    costs = ~direct & (links | ~is_cpu[parts.device])
    fetches = costs & jobs.call[routes.first_reader[parts.target]] & blocking  # [parts] whether the calls that read do
    arrives = costs & ~fetches
    farthest = _farthest(routes, speeds, sendings, departs)
    seconds = speeds.seconds(sendings.bundle[sender], parts.samples, src[sender], parts.device)

    folded = np.zeros(len(jobs.job))  # the first of the calls that make a bundle sends it, every reader fetches it
    k = sendings.slice
    np.add.at(folded, (jobs.first[call] + k)[within_call], farthest[within_call])
    fetched = fetches[parts.read_of]
    np.add.at(folded, parts.read_by[fetched], seconds[parts.read_of[fetched]])

    made = routes.last_maker[sendings.bundle]
    row = (jobs.stage[made], jobs.kind[made], k // jobs.replicas[made], src)
    nbytes = speeds.nbytes(sendings.bundle, sendings.samples)
    received = speeds.nbytes(sendings.bundle[sender], parts.samples)
    last, first = _priorities(jobs, sendings, parts)
    departures = (*row, src, wires.of("out", src, src), nbytes, farthest, last)
    there = wires.of("in", src[sender], parts.device)
    arrivals = (*(column[sender] for column in row), parts.device, there, received, seconds, first)
    sends = departs & ~within_call
    return Moves(
        sendings,
        parts,
        nbytes,
        sends,
        arrives,
        direct,
        Expected._make(column[sends] for column in departures),
        Expected._make(column[arrives] for column in arrivals),
        all_reduces(problem, jobs, wires, rings),
        folded,
        wires.known(),
        rings,
    )


def _farthest(routes: Routes, speeds: Speeds, sendings: Sendings, departs: Bools) -> Floats:
    """[sendings] Seconds of the sender's half: to the slowest of all devices of all places that read the bundle,
    whether this slice of it goes there or not."""
    slowest = np.zeros(len(departs))
    row, dst = routes.destinations(sendings, np.flatnonzero(departs))
    seconds = speeds.seconds(sendings.bundle[row], sendings.samples[row], sendings.device[row], dst)
    np.maximum.at(slowest, row, seconds)
    return slowest


def _priorities(jobs: Jobs, sendings: Sendings, parts: Parts) -> tuple[Floats, Floats]:
    """What goes first where several could, the least first: ([sendings], [parts]). A turn has its position in its
    device's order; what leaves comes just after the last turn that makes it, what arrives just before the first that
    reads it."""
    position = jobs.position.astype(np.float64)
    last = np.zeros(len(sendings.bundle))
    np.maximum.at(last, sendings.made_at, position[sendings.made_by])
    first = np.full(len(parts.sending), np.inf)
    np.minimum.at(first, parts.read_of, position[parts.read_by])
    return last + 0.25, first - 0.25
