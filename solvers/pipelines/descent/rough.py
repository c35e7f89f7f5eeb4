"""A first look at a draft: what its stages take together, without any simulation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.kernels.arrays import Floats
from solvers.pipelines.costs import SizeCosts, size_costs
from solvers.pipelines.descent.stage_graph import Part, StageGraph, mask_of, masks_of
from solvers.pipelines.seating import Seating
from solvers.problem.problem import Pipeline
from solvers.schedules.ordering.in_flight import in_flight_samples


class Work(NamedTuple):
    """What one replica of a stage does with a micro-batch (seconds), and holds (bytes).

    sync_s: adding up the gradients of all replicas, once. saved_bytes: per micro-batch in flight. busy_s: compute
    of all micro-batches.
    """

    forward_s: float
    backward_s: float
    sync_s: float
    static_bytes: float
    saved_bytes: float
    workspace_bytes: float
    busy_s: float


class Look(NamedTuple):
    """over_bytes: excess over the memory caps, summed over stages. rough_s: seconds of an iteration. Both roughly."""

    over_bytes: float
    rough_s: float


class Rough:
    """Looks at drafts over super-operators of one problem."""

    def __init__(self, condensed: Condensed, graph: StageGraph) -> None:
        problem = condensed.problem
        self.problem, self.condensed, self.graph = problem, condensed, graph
        caps = sorted((problem.cluster.devices[d].memory_bytes for d in problem.cluster.accelerators), reverse=True)
        self.cap_bytes = min(caps, default=float("inf"))
        self._caps = caps if len(set(caps)) > 1 else []
        self._seating = Seating(problem)
        self._sizes: dict[int, SizeCosts] = {}
        self._messages: dict[tuple[int, int], list[list[tuple[int, float, float]]]] = {}
        self._tables: dict[tuple[int, int], tuple[Floats, Floats]] = {}
        self._work: dict[tuple[object, ...], Work] = {}
        self._single_s: dict[tuple[int, bool], list[float]] = {}
        self._runs: dict[tuple[int, int, bool, int], list[int]] = {}
        self._sent: dict[tuple[int, int, int, int], tuple[float, float]] = {}

    @property
    def devices_alike(self) -> bool:
        """Whether accelerators are of one kind and memory, so that this holds for any number of them."""
        return self._seating.uniform

    def work(self, part: Part) -> Work:
        """What a stage takes, on devices of its own."""
        found = self._work.get(part[:4])
        return self._of(part.mask, part.size, part.replicas, part.recompute) if found is None else found

    def _of(self, mask: int, size: int, replicas: int, recompute: bool) -> Work:
        key = (mask, size, replicas, recompute)
        if key not in self._work:
            costs, row = self._costs(size, replicas)
            members = list(self.graph.members(mask))
            summed, workspace = self._columns(size, row)
            forward, backward, params, static, saved = summed[:, members].sum(axis=1).tolist()
            backward += forward if recompute else 0.0
            sync = float(costs.sync_s[row]) + params * float(costs.sync_s_per_byte[row]) if params else 0.0
            busy = (forward + backward) * (self.problem.mini_batch / size)
            self._work[key] = Work(forward, backward, sync, static, saved, float(workspace[members].max()), busy)
        return self._work[key]

    def busy_s(self, part: Part) -> float:
        """Seconds that a device of the stage computes in an iteration, and adds up gradients."""
        work = self.work(part)
        return work.busy_s + work.sync_s

    def alone_s(self, mask: int, like: Part) -> float:
        """Seconds in an iteration of super-operators on one device, with the micro-batches of a stage."""
        return self._of(mask, like.size, 1, like.recompute).busy_s

    def single_s(self, like: Part) -> list[float]:
        """The same of every super-operator by itself."""
        key = like.size, like.recompute
        if key not in self._single_s:
            self._single_s[key] = [self.alone_s(1 << member, like) for member in range(self.graph.count)]
        return self._single_s[key]

    def runs(self, mask: int, like: Part, stages: int) -> list[int]:
        """A set cut, in its order, into at most so many sets of about the same time on one device."""
        key = mask, like.size, like.recompute, stages
        if key not in self._runs:
            members, single_s = self.graph.members(mask), self.single_s(like)
            each = [single_s[member] for member in members]
            passed = list(itertools.accumulate(each))
            whole = passed[-1] or 1.0
            cut: dict[int, int] = {}
            for member, end, own in zip(members, passed, each, strict=True):
                stage = int(stages * (end - own / 2) / whole)
                cut[stage] = cut.get(stage, 0) | 1 << member
            self._runs[key] = list(cut.values())
        return self._runs[key]

    def least_s(self, parts: Sequence[Part]) -> float:
        """Seconds of the busiest device, which no schedule beats."""
        busy = [self.work(part)[6] for part in parts]
        for part, seconds in zip(parts, busy, strict=True):
            if part[6] is not None:
                busy[part[6]] += seconds
        if len(self._seating.kinds) > 1:
            busy = [seconds * slower for seconds, slower in zip(busy, self._slower(parts, busy), strict=True)]
        return max(busy)

    def _slower(self, parts: Sequence[Part], busy_s: Sequence[float]) -> list[float]:
        """How many times as long as on the fastest kind each stage takes where `Seating` puts it, pins aside. busy_s:
        on the fastest kind, guests with their hosts, [stages]."""
        own = [i for i, part in enumerate(parts) if part.host is None]
        free: list[int | None] = [None] * len(own)
        kinds = self._seating.kinds_of([busy_s[i] for i in own], [parts[i].replicas for i in own], free)
        at = dict(zip(own, kinds or [0] * len(own), strict=True))
        return [self._seating.slower[at[i if part.host is None else part.host]] for i, part in enumerate(parts)]

    def look(self, parts: Sequence[Part]) -> Look:
        """See `Look`. The stages must not wait for each other."""
        works = [self.work(part) for part in parts]
        busy = [work.busy_s for work in works]
        for part, work in zip(parts, works, strict=True):
            if part.host is not None:
                busy[part.host] += work.busy_s
        if len(self._seating.kinds) > 1:
            slower = self._slower(parts, busy)
            busy = [seconds * times for seconds, times in zip(busy, slower, strict=True)]
            works = [
                work._replace(forward_s=work.forward_s * times, backward_s=work.backward_s * times)
                for work, times in zip(works, slower, strict=True)
            ]
        after, order = self.graph.rows(masks_of(parts))
        kept = self.kept(parts, after)
        received = [0.0] * len(parts)
        there_s: dict[tuple[int, int], float] = {}
        for a, row in enumerate(after):
            for b in row:
                seconds, nbytes = self._transfer(parts[a], parts[b])
                there_s[a, b] = 2 * seconds  # the gradients come back
                received[b] += nbytes
        over = self._over(parts, works, kept, received)
        starts, ends, rough = [0.0] * len(parts), [0.0] * len(parts), 0.0  # longest round trips before and after
        for a in reversed(order):
            for b in after[a]:
                ends[a] = max(ends[a], ends[b] + works[b].forward_s + works[b].backward_s + there_s[a, b])
        for a in order:
            own = works[a]
            for b in after[a]:
                starts[b] = max(starts[b], starts[a] + own.forward_s + own.backward_s + there_s[a, b])
            more, waits = kept[a] - 1, ends[a]
            if more and self.problem.pipeline is not Pipeline.GPIPE:  # what is in flight fills the round trip
                waits = max(0.0, waits - more * own.forward_s) + max(0.0, waits - more * own.backward_s)
            rough = max(rough, starts[a] + busy[a] + waits + own.sync_s)
        return Look(over, rough)

    def kept(self, parts: Sequence[Part], after: Sequence[list[int]]) -> list[int]:
        """Micro-batches in flight of every stage."""
        mini_batch = self.problem.mini_batch
        counts = [mini_batch // part.size for part in parts]
        if not self.problem.has_backward():
            return [1] * len(parts)
        if self.problem.pipeline is Pipeline.GPIPE:
            return counts
        hosted = {index for index, part in enumerate(parts) if part.host is not None}
        blocks = [min(part.block, count) for part, count in zip(parts, counts, strict=True)]
        samples = in_flight_samples(after, [part.size for part in parts], blocks, mini_batch, hosted)
        return [min(c, s // p.size + p.slack) for p, s, c in zip(parts, samples, counts, strict=True)]

    def _over(
        self, parts: Sequence[Part], works: Sequence[Work], kept: Sequence[int], received: Sequence[float]
    ) -> float:
        """Bytes above the caps: saved and received ones of every micro-batch in flight."""
        held = [0.0] * len(parts)
        for index, (part, work) in enumerate(zip(parts, works, strict=True)):
            place = index if part.host is None else part.host
            saved = work.saved_bytes * (1 if part.recompute else kept[index])
            held[place] += work.static_bytes + saved + work.workspace_bytes + received[index] * kept[index]
        if self._caps:
            needs = sorted((held[i] for i, part in enumerate(parts) if part.host is None for _ in range(part.replicas)))
            return sum(max(0.0, need - cap) for need, cap in zip(reversed(needs), self._caps, strict=False))
        return sum(max(0.0, amount - self.cap_bytes) for amount in held)

    def _transfer(self, source: Part, target: Part) -> tuple[float, float]:
        """Seconds a micro-batch takes from one stage to the other, and its bytes for one replica of the other."""
        key = (source.mask, target.mask, source.size, source.replicas)
        if key not in self._sent:
            sent = self._sent_by(source.size, source.replicas)
            seconds = nbytes = 0.0
            for member in self.graph.members(source.mask):
                if self.graph.after[member] & target.mask:
                    for readers, each_s, each in sent[member]:
                        if readers & target.mask:
                            seconds, nbytes = seconds + each_s, nbytes + each
            self._sent[key] = seconds, nbytes * source.replicas
        seconds, nbytes = self._sent[key]
        return seconds, nbytes / target.replicas

    def _sent_by(self, size: int, replicas: int) -> list[list[tuple[int, float, float]]]:
        """For every super-operator the readers (as bits), seconds and bytes of its messages."""
        key = (size, replicas)
        if key not in self._messages:
            costs, row = self._costs(size, replicas)
            sent: list[list[tuple[int, float, float]]] = [[] for _ in range(self.graph.count)]
            for m, (seconds, nbytes) in enumerate(
                zip(costs.message_s[row].tolist(), costs.message_bytes[row].tolist(), strict=True)
            ):
                if not costs.traffic.backward[m]:
                    readers = mask_of(costs.traffic.readers[m].tolist())
                    for maker in costs.traffic.makers[m].tolist():
                        sent[maker].append((readers, seconds, nbytes))
            self._messages[key] = sent
        return self._messages[key]

    def _columns(self, size: int, row: int) -> tuple[Floats, Floats]:
        """Of every super-operator: forward, backward, parameters, static and saved, [5, super-operators], and
        workspace, [super-operators]."""
        if (size, row) not in self._tables:
            costs = self._sizes[size]
            columns = (costs.forward_s[row], costs.backward_s[row], costs.param_bytes, costs.static_bytes[row])
            self._tables[size, row] = np.stack([*columns, costs.saved_bytes[row]]), costs.workspace_bytes[row]
        return self._tables[size, row]

    def _costs(self, size: int, replicas: int) -> tuple[SizeCosts, int]:
        """The costs at a micro-batch size, and their row for a number of replicas."""
        if size not in self._sizes:
            self._sizes[size] = size_costs(self.condensed, size)
        costs = self._sizes[size]
        return costs, int(np.searchsorted(costs.degrees, replicas))
