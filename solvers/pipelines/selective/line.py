"""The co-location groups of a problem in a row, what each takes and saves, and which are cheap to run again.

A group is *cheap* that saves much for the time that it takes (norms, activations): running it again costs little
(Korthikanti et al., 2022, section 5). Cheap groups that follow one another are a *component*, which runs again as one,
from what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solvers.coarsening.pieces import group_order
from solvers.evaluation.columns import best_of_links
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.contiguity import forward_edges
from solvers.problem.graph import Phase
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Problem

CHEAP = 0.3
"""A group is cheap whose seconds a saved byte are at most this share of those of the whole model."""
PLACES = 40
"""Cuts a device, about, that are looked at."""


@dataclass(frozen=True)
class Line:
    """What comes before every place to cut at, for a forward and a backward of one micro-batch, [places] each.

    The first place has all groups behind it, the last one none.
    """

    problem: Problem
    samples: int
    """of a micro-batch"""
    order: Ints
    """[groups] as they run"""
    component: Ints
    """[groups] the cheap component that each is of; -1: none"""
    places: Ints
    """how many groups of the order come before"""
    forward_s: Floats
    both_s: Floats
    """forward and backward"""
    cheap_s: Floats
    """forward, of cheap groups"""
    saved_bytes: Floats
    lean_bytes: Floats
    """saved where cheap groups run again, what these read among it"""
    static_bytes: Floats
    crossing_bytes: Floats
    """of forward tensors that a cut there sends; not a sum"""
    workspace_bytes: float
    """the most of any operator"""
    byte_s: float
    """what a byte that crosses a cut is taken to cost, in seconds of a micro-batch on one device: its way there and
    back, which is paid once, and the memory of a micro-batch in flight, which other bytes run again for"""

    @property
    def count(self) -> int:
        """Micro-batches."""
        return self.problem.mini_batch // self.samples


def line_of(problem: Problem, count: int) -> Line:
    """The line of a problem with accelerators of one kind; count: micro-batches."""
    graph, samples = problem.graph, problem.mini_batch // count
    number, groups, devices = group_of(graph), len(together(graph)), problem.cluster.accelerators
    seconds = problem.compute.at(problem.cluster.devices[devices[0]].kind, samples)
    forward = np.array([operator.phase is Phase.FORWARD for operator in graph.operators])
    update = np.array([operator.phase is Phase.UPDATE for operator in graph.operators])

    def of_groups(values: Floats) -> Floats:
        return np.bincount(number, values, groups).astype(np.float64)

    forward_s = of_groups(np.where(forward, seconds, 0.0))
    saved = of_groups(np.where(forward, [o.saved_bytes.at(samples) for o in graph.operators], 0.0))
    cheap = (saved > 0) & (forward_s * float(saved.sum()) <= CHEAP * float(forward_s.sum()) * saved)
    order = _cheap_late(problem, cheap)
    component, freed = _components(problem, order, cheap, saved, samples)
    crossing = _crossing_bytes(problem, order, samples)
    places = _places(np.cumsum(forward_s[order]), crossing, PLACES * len(devices))
    places = places[~_inside(component[order])[places]]

    def before(values: Floats) -> Floats:
        return np.concatenate([[0.0], np.cumsum(values[order])])[places]

    _, bandwidth = best_of_links(problem.cluster)
    way_s = 2.0 / bandwidth * len(devices) / count
    return Line(
        problem=problem,
        samples=samples,
        order=order,
        component=component,
        places=places,
        forward_s=before(forward_s),
        both_s=before(of_groups(np.where(update, 0.0, seconds))),
        cheap_s=before(np.where(component >= 0, forward_s, 0.0)),
        saved_bytes=before(saved),
        lean_bytes=before(saved - freed),
        static_bytes=before(of_groups(problem.static_bytes())),
        crossing_bytes=crossing[places],
        workspace_bytes=max(operator.workspace_bytes.at(samples) for operator in graph.operators),
        byte_s=way_s + float(forward_s.sum()) / max(float(saved.sum()), 1.0),
    )


def _components(problem: Problem, order: Ints, cheap: Bools, saved: Floats, samples: int) -> tuple[Ints, Floats]:
    """The component of each group, or -1, and the bytes that running a component again frees, at the first of its
    groups, [groups] each: cheap groups that are neighbours in the order, unless they read as much as they save."""
    tensors, number = problem.graph.tensors, group_of(problem.graph)
    begins = cheap[order] & ~np.concatenate([[False], cheap[order][:-1]])
    component = np.empty(len(order), np.int64)
    component[order] = np.where(cheap[order], np.cumsum(begins) - 1, -1)
    freed: Floats = np.bincount(component[cheap], saved[cheap], int(begins.sum())).astype(np.float64)
    for position, (producer, readers) in _forward_tensors(problem):
        for reading in {int(component[number[reader]]) for reader in readers} - {-1, int(component[number[producer]])}:
            freed[reading] -= tensors[position].nbytes.at(samples)
    component[(component >= 0) & np.append(freed <= 0, False)[component]] = -1
    at_first = np.zeros(len(order))
    at_first[order[begins]] = np.maximum(freed, 0.0)
    return component, at_first


def _forward_tensors(problem: Problem) -> Iterator[tuple[int, tuple[int, list[int]]]]:
    """Position, producer and readers of every tensor among forward operators; not of copies."""
    operators = problem.graph.operators
    for position, tensor in enumerate(problem.graph.tensors):
        producer = operators[tensor.producer]
        readers = [reader for reader in tensor.consumers if operators[reader].phase is Phase.FORWARD]
        if producer.phase is Phase.FORWARD and readers and not producer.replicable:
            yield position, (tensor.producer, readers)


def _cheap_late(problem: Problem, cheap: Bools) -> Ints:
    """The groups as they run, cheap ones as late as others allow: those that read one another are neighbours."""
    number = group_of(problem.graph)
    sources: list[list[int]] = [[] for _ in cheap]
    for u, v in forward_edges(problem.graph):
        if number[u] != number[v]:
            sources[number[v]].append(int(number[u]))
    done = np.zeros(len(cheap), np.bool_)
    order: list[int] = []
    for wanted in sorted(group_order(problem), key=cheap.__getitem__):
        stack = [(wanted, False)]
        while stack:  # cheap groups that it reads go before it
            group, ready = stack.pop()
            if ready:
                order.append(group)
            elif not done[group]:
                done[group] = True
                stack.append((group, True))
                stack += [(source, False) for source in sources[group] if cheap[source]]
    return np.array(order, np.int64)


def _inside(component: Ints) -> Bools:
    """Whether a cut before each group of an order, or after the last, divides a component, [groups + 1]."""
    depth = np.zeros(len(component) + 1, np.int64)
    for one in np.unique(component[component >= 0]).tolist():
        members = np.flatnonzero(component == one)
        depth[members[0] + 1 : members[-1] + 1] += 1
    return depth > 0


def _crossing_bytes(problem: Problem, order: Ints, samples: int) -> Floats:
    """Bytes of forward tensors that a cut before each group of an order, or after the last, crosses, [groups + 1]."""
    tensors, number = problem.graph.tensors, group_of(problem.graph)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    change = np.zeros(len(order) + 1)
    for position, (producer, readers) in _forward_tensors(problem):
        nbytes = tensors[position].nbytes.at(samples)
        change[rank[number[producer]] + 1] += nbytes
        change[max(rank[number[reader]] for reader in readers) + 1] -= nbytes
    return np.maximum(np.cumsum(change), 0.0)


def _places(load_s: Floats, crossing: Floats, most: int) -> Ints:
    """The ends, and of ``most`` stretches of equal load the cuts that fewest bytes cross. load_s: up to each group, it
    included, [groups]."""
    stretch = np.minimum((load_s / max(float(load_s[-1]), 1e-300) * most).astype(np.int64), most - 1)
    chosen = {0, len(load_s)}
    for inside in np.split(np.arange(len(load_s)), np.flatnonzero(np.diff(stretch)) + 1):
        chosen.add(int(inside[crossing[inside + 1].argmin()]) + 1)
    return np.array(sorted(chosen), np.int64)
