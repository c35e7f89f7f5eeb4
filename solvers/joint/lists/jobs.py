"""Jobs: the operators of a pass, some contracted, and the units of them that share a device."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from solvers.coarsening.traffic import Rows
from solvers.joint.lists.jobs_kernel import JobArrays
from solvers.joint.passes.clusters import Clusters, clustered
from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Ints


@dataclass(frozen=True, eq=False)
class Jobs:
    """What a list scheduler places and orders: clusters, and the same for kernels."""

    clusters: Clusters
    arrays: JobArrays

    def __len__(self) -> int:
        return len(self.clusters)


def jobs_of(model: PassModel, unit_of_group: Ints, *, contract: bool) -> Jobs:
    """The jobs of a model whose groups are joined to units, numbered from 0.

    contract: whether operators of one unit become one job where that is safe (see `contracted`).
    """
    unit_of = unit_of_group[model.group_of]
    label = contracted(model, unit_of) if contract else np.arange(model.operators)
    clusters = clustered(model, label, unit_of_group)
    producers, reads, edge_s = _messages(clusters)
    before, after = Rows.of(clusters.predecessors), Rows.of(clusters.successors)
    read, producer = Rows.of(reads), Rows.of(producers)
    edges = [(u, v) for u, targets in enumerate(clusters.successors) for v in targets]
    arrays = JobArrays(
        seconds=clusters.seconds,
        unit_of=clusters.unit_of,
        allowed=clusters.allowed,
        unit_bytes=clusters.held_bytes,
        waits=np.diff(before.start),
        before_start=before.start,
        before=before.items,
        after_start=after.start,
        after=after.items,
        after_s=np.array([edge_s.get(edge, 0.0) for edge in edges]),
        read_start=read.start,
        read=read.items,
        producer_start=producer.start,
        producer=producer.items,
        wiring=model.arrays.wiring,
    )
    return Jobs(clusters, arrays)


def contracted(model: PassModel, unit_of: Ints) -> Ints:
    """The job of every operator after fusing those of one unit that are joined by a tensor.

    An edge (u, v) is contracted unless u has several successors and v several predecessors, when another path
    from u to v could close a cycle (operator fusion of Jeon et al., SoCC 2020, section 4). unit_of: [operators].
    """
    after = [set(targets) for targets in model.successors]
    before = [set(sources) for sources in model.predecessors]
    into = np.arange(model.operators)
    todo = deque((u, v) for u in model.order for v in model.successors[u] if unit_of[u] == unit_of[v])
    while todo:
        u, v = todo.popleft()
        if v not in after[u] or (len(after[u]) > 1 and len(before[v]) > 1):
            continue
        into[v] = u
        after[u].discard(v)
        before[v].discard(u)
        for source in sorted(before[v]):
            after[source].discard(v)
            if u not in after[source]:
                after[source].add(u)
                before[u].add(source)
                if unit_of[source] == unit_of[u]:
                    todo.append((source, u))
        for target in sorted(after[v]):
            before[target].discard(v)
            if target not in after[u]:
                after[u].add(target)
                before[target].add(u)
                if unit_of[target] == unit_of[u]:
                    todo.append((u, target))
        after[v], before[v] = set(), set()
    while (into[into] != into).any():
        into = into[into]
    return into


def _messages(clusters: Clusters) -> tuple[list[list[int]], list[list[int]], dict[tuple[int, int], float]]:
    """(jobs that make every message, messages that every job reads, mean seconds between two jobs); messages
    that take no time or stay inside a job are left out."""
    model, of = clusters.model, clusters.cluster_of
    producers: list[list[int]] = [[] for _ in model.messages]
    reads: list[list[int]] = [[] for _ in clusters.members]
    edge_s: dict[tuple[int, int], float] = {}
    for number, message in enumerate(model.messages):
        if message.tensors == 0:
            continue
        sources = producers[number] = sorted({int(of[o]) for o in message.producers})
        for reader in sorted({int(of[o]) for o in message.readers}):
            if sources == [reader]:
                continue
            reads[reader].append(number)
            for source in sources:
                if source != reader:
                    edge_s[source, reader] = edge_s.get((source, reader), 0.0) + float(model.mean_transfer_s[number])
    return producers, reads, edge_s
