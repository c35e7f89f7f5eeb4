"""What must wait for what on a device, and what must travel between places."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from solvers.kernels.arrays import Ints
from solvers.problem.graph import OpGraph, per_graph
from solvers.problem.problem import Problem, Transfers
from solvers.verify.work.jobs import BACKWARD, BACKWARDS, FORWARD, INPUTS, UPDATE, WEIGHTS, Jobs


@dataclass(slots=True)
class Bundle:
    """Tensors that leave the same jobs of one place for the same jobs elsewhere: they travel together.

    makers, and of every place that reads them the readers: jobs, ascending. tensors: how many pay a latency;
    those of a sum group are one. stated_s: seconds per sample, where the problem states them.
    """

    makers: tuple[int, ...]
    readers: tuple[tuple[int, ...], ...]
    tensors: int = 0
    fixed: float = 0.0
    per_sample: float = 0.0
    stated_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Messages:
    """earlier, later: [pairs] jobs of one stage or device list, of which the later waits for the earlier on
    every device. bundles: what travels."""

    earlier: Ints
    later: Ints
    bundles: tuple[Bundle, ...]


@per_graph
def _operators(graph: OpGraph) -> list[tuple[tuple[int, ...], ...]]:
    """Of every message all operators that make it, and all that read it, ascending."""
    return [
        (tuple(sorted(graph.tensors[t].producer for t in group)), tuple(sorted(graph.tensors[group[0]].consumers)))
        for group in graph.messages
    ]


def messages_of(problem: Problem, jobs: Jobs) -> Messages:
    """All waits and messages of a plan's jobs."""
    graph = problem.graph
    of_operator = jobs.of_operators(len(graph))
    pairs = {*_inside_stages(jobs), *_mirrors(graph, jobs, of_operator)}
    travel = _Travel(problem, jobs, of_operator, pairs)
    for message in range(len(graph.messages)):
        travel.add(message)
    both = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return Messages(both[:, 0], both[:, 1], tuple(travel.bundles.values()))


def _inside_stages(jobs: Jobs) -> list[tuple[int, int]]:
    """A stage runs a micro-batch forward before it runs it backward, and updates after all that. Gradients of
    inputs hold nothing up but what reads them, unless they come with what the stage runs again."""
    of_stage: dict[int, list[int]] = defaultdict(list)
    for job in np.flatnonzero(jobs.operator < 0).tolist():
        of_stage[int(jobs.stage[job])].append(job)
    after = {FORWARD: (*BACKWARDS, UPDATE), BACKWARD: (UPDATE,), WEIGHTS: (UPDATE,), INPUTS: (), UPDATE: ()}
    kind = jobs.kind.tolist()
    return [
        (a, b)
        for members in of_stage.values()
        for a in members
        for b in members
        if kind[b] in ((WEIGHTS, UPDATE) if kind[a] == INPUTS and jobs.again[a] else after[kind[a]])
    ]


def _mirrors(graph: OpGraph, jobs: Jobs, of_operator: list[tuple[int, ...]]) -> list[tuple[int, int]]:
    """A single operator runs after the forward operator that it mirrors."""
    pairs, devices = [], _devices(jobs)
    for job, operator in enumerate(jobs.operator.tolist()):
        forward = graph.operators[operator].forward_of if operator >= 0 else None
        if forward is not None:
            pairs += [(other, job) for other in of_operator[forward] if devices[other] == devices[job]]
    return pairs


def _devices(jobs: Jobs) -> list[tuple[int, ...]]:
    """[jobs] the devices of each."""
    return [jobs.places[place][0] for place in jobs.place.tolist()]


_Ends = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""Makers, and readers by place."""
_Key = tuple[*_Ends, tuple[tuple[int, ...], ...]]
"""The same and, where operators run one by one, all operators that make and read."""


class _Travel:
    """Routes messages one after the other: what waits on a device, what is added to which bundle."""

    def __init__(
        self, problem: Problem, jobs: Jobs, of_operator: list[tuple[int, ...]], pairs: set[tuple[int, int]]
    ) -> None:
        self.problem, self.jobs, self.of_operator, self.pairs = problem, jobs, of_operator, pairs
        self.bundles: dict[_Key, Bundle] = {}
        self.routes: dict[tuple[tuple[tuple[int, ...], ...], tuple[int, ...]], list[_Ends]] = {}
        self.devices, self.place, self.stage = _devices(jobs), jobs.place.tolist(), jobs.stage.tolist()
        self.updates = (jobs.kind == UPDATE).tolist()
        self.fetches = (jobs.call & (problem.transfers is Transfers.BLOCKING)).tolist()
        self.one_by_one = bool((jobs.operator >= 0).any())

    def add(self, message: int) -> None:
        """One message: from where its tensors are made (of copies, the first) to all who read them elsewhere."""
        graph = self.problem.graph
        group = graph.messages[message]
        first = group[0]  # of a sum, all of it is as large as one part
        tensor, stated_s = graph.tensors[first], self.problem.transfer_s
        copies = tuple(self.of_operator[graph.tensors[t].producer] for t in group)
        readers = tuple(sorted({job for o in tensor.consumers for job in self.of_operator[o]}))
        if (copies, readers) not in self.routes:  # most messages go where others go
            self.routes[copies, readers] = self._route(copies, readers)
        for makers, there in self.routes[copies, readers]:
            ends = _operators(graph)[message] if self.one_by_one else ()
            bundle = self.bundles.setdefault((makers, there, ends), Bundle(makers, there))
            bundle.fixed += tensor.nbytes.fixed
            bundle.per_sample += tensor.nbytes.per_sample
            bundle.stated_s += 0.0 if stated_s is None else stated_s[first]
            bundle.tensors += stated_s is not None or bool(tensor.nbytes.fixed or tensor.nbytes.per_sample)

    def _route(self, copies: tuple[tuple[int, ...], ...], readers: tuple[int, ...]) -> list[_Ends]:
        """The makers of what is sent and its readers elsewhere, by place. copies: the jobs that make each tensor."""
        devices, at = self.devices, self.place
        sources: dict[int, set[int]] = defaultdict(set)
        for copy in copies:
            sources[at[copy[0]]].add(copy[0])
        elsewhere: dict[tuple[int, tuple[int, ...]], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for reader in readers:
            where = devices[reader]
            near = [job for copy in copies for job in copy if devices[job] == where]
            everything = all(any(devices[job] == where for job in copy) for copy in copies)
            for place, makers in sources.items():
                home = self.jobs.places[place][0] == where
                fetched = [maker for maker in makers if self._through_host(maker, reader)]  # the rest is its own
                if fetched or self._cut_anew(place, reader):
                    elsewhere[place, tuple(sorted(fetched or makers))][at[reader]].append(reader)
                elif home or everything:
                    self.pairs.update((maker, reader) for maker in near if maker != reader)
                else:
                    elsewhere[place, tuple(sorted(makers))][at[reader]].append(reader)
        by_place = self.jobs.places.__getitem__
        return [
            (makers, tuple(tuple(targets[p]) for p in sorted(targets, key=by_place)))
            for (_, makers), targets in sorted(elsewhere.items(), key=lambda item: (by_place(item[0][0]), item[0][1]))
        ]

    def _through_host(self, maker: int, reader: int) -> bool:
        """Whether two calls on one device hand tensors over in the host's memory (Tarnawski et al. 2020,
        section 6)."""
        calls = self.fetches[maker] and self.fetches[reader]
        return calls and self.devices[maker] == self.devices[reader] and self.stage[maker] != self.stage[reader]

    def _cut_anew(self, place: int, reader: int) -> bool:
        """Whether the replicas of a place share the mini-batch in another way in order to read."""
        devices, size = self.jobs.places[place]
        there, other = self.jobs.places[self.place[reader]]
        return len(devices) > 1 and devices == there and size != other and not self.updates[reader]
