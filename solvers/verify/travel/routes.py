"""What leaves where, slice by slice, and which part of it is needed where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.problem.problem import Problem
from solvers.verify.arrays.ragged import flat, ints, overlaps, ranges, starts, sums
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
        readers = [mine for bundle in bundles for mine in bundle.readers]
        self.bundle = flat([range(len(bundle.readers)) for bundle in bundles])[0]
        self.reader_of, self.reader = flat(readers)
        self.first_reader = ints(mine[0] for mine in readers)
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
        mine, theirs, share = (np.concatenate(columns)[rows] for columns in zip(*tables, strict=True))
        return np.repeat(np.arange(len(cuts)), sizes[which]), mine, theirs, share

    def _device(self, place: Ints, k: Ints) -> Ints:
        """The device that has slice ``k`` at a place."""
        found: Ints = self.devices[self.at_place[place] + k % self.replicas[place]]
        return found

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
        found: Bools = jobs.call[maker] & jobs.call[reader] & alike & (jobs.stage[maker] != jobs.stage[reader])
        return found
