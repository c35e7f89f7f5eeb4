"""Regions that run again, derived from the graph as it was traced, region by region."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.problem.graph import Amount, OpGraph, Phase
from solvers.problem.problem import Problem


class Region(NamedTuple):
    """forward: its operators in order. again: those that run again. gradients: the backward operators of each."""

    forward: tuple[int, ...]
    again: tuple[int, ...]
    gradients: dict[int, tuple[int, ...]]


@lru_cache(maxsize=64)
def regions(graph: OpGraph) -> tuple[Region, ...]:
    names = dict.fromkeys(o.checkpoint for o in graph.operators if o.checkpoint and not o.replicable)
    return tuple(region for name in names if (region := _region(graph, name)).gradients)


def _region(graph: OpGraph, name: str) -> Region:
    def is_mine(o: int) -> bool:
        operator = graph.operators[o]
        return operator.checkpoint == name and operator.phase is Phase.FORWARD and not operator.replicable

    forward = tuple(o for o in graph.topological_order if is_mine(o))
    mirrors = {
        o: tuple(
            b for phase in (Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT) for b in graph.topological_order
            if graph.operators[b].forward_of == o and graph.operators[b].phase is phase
        )
        for o in forward
    }  # fmt: skip
    return Region(
        forward, tuple(o for o in forward if not graph.operators[o].cached), {o: b for o, b in mirrors.items() if b}
    )


def seconds(problem: Problem, kind: str, samples: float) -> Floats:
    """[operators] of one turn, with the forward that runs again where its first gradient is made."""
    if problem.plain is None:
        return problem.compute.at(kind, samples)
    graph, table = problem.plain.graph, problem.plain.compute
    shown = np.array(table.at(kind, samples))
    alone = shown.copy()
    for region in regions(graph):
        for first, *others in region.gradients.values():
            if graph.operators[first].phase is Phase.BACKWARD_INPUT:
                for b in others:
                    if graph.operators[b].phase is Phase.BACKWARD_WEIGHT:
                        shown[first] += alone[b]
                        shown[b] = 0.0
        for o in region.again:
            after = [x for x in region.forward[region.forward.index(o) :] if x in region.gradients]
            home = after[0] if after else [x for x in region.forward if x in region.gradients][-1]
            shown[region.gradients[home][0]] += alone[o]
    return shown


def saved(problem: Problem, operator: int, samples: float) -> float:
    graph = problem.as_traced.graph
    if problem.plain is None:
        return graph.operators[operator].saved_bytes.at(samples)
    inside = any(operator in region.forward for region in regions(graph))
    own = 0.0 if inside else graph.operators[operator].saved_bytes.at(samples)
    return own + sum(graph.tensors[t].nbytes.at(samples) for t, o in keepers(graph).items() if o == operator)


def workspace(problem: Problem, operator: int, samples: float) -> float:
    graph = problem.as_traced.graph
    own = graph.operators[operator].workspace_bytes
    if problem.plain is None:
        return own.at(samples)
    for region in regions(graph):
        for first, *others in region.gradients.values():
            if operator not in (first, *others):
                continue
            late = [b for b in others if graph.operators[b].phase is not graph.operators[first].phase]
            if operator in late:
                return 0.0
            if operator == first:
                for b in late:
                    own += graph.operators[b].workspace_bytes
                needs = [own, *(graph.operators[o].workspace_bytes for o in region.again)]
                own = Amount(max(a.fixed for a in needs), max(a.per_sample for a in needs))
            there = [
                graph.tensors[t].nbytes.at(samples) for t in keepers(graph) if graph.tensors[t].saver in region.forward
            ]
            room = sum(graph.operators[o].saved_bytes.at(samples) for o in region.forward) - sum(there)
            return own.at(samples) + max(0.0, room)
    return own.at(samples)


@lru_cache(maxsize=64)
def keepers(graph: OpGraph) -> dict[int, int]:
    """Tensor -> who keeps it for the regions: of what comes in the first that reads it, of what is cached its maker,
    and of what leaves for operators without a region its maker, if one of the region had saved it."""
    keeper: dict[int, int] = {}
    for t, tensor in enumerate(graph.tensors):
        home = next((region for region in regions(graph) if tensor.producer in region.forward), None)
        forward = {o for o in tensor.consumers if graph.operators[o].phase is Phase.FORWARD}
        if tensor.saver >= 0 and not any(tensor.saver in region.forward for region in regions(graph)):
            continue
        if home is not None and tensor.producer not in home.again and forward:
            keeper[t] = tensor.producer
            continue
        coming = [o for region in regions(graph) if region is not home for o in region.forward if o in forward]
        if coming:
            keeper[t] = min(coming, key=graph.topological_order.index)
        elif home is not None and forward - set(home.forward):
            near = {tensor.producer} | (forward & set(home.forward))
            nbytes = tensor.nbytes.at(graph.samples)
            saves = any(graph.operators[o].saved_bytes.at(graph.samples) >= nbytes for o in near)
            if saves or tensor.saver >= 0:
                keeper[t] = tensor.producer
    return keeper


def kept_of_cut(problem: Problem, operators: tuple[int, ...], stage: set[int], here: set[int]) -> Iterator[int]:
    """Tensors that ``operators`` of a stage need to run again, made on its devices (by ``here``), which nobody of the
    stage keeps and none of its own parts of regions makes again. Each once."""
    if problem.plain is None:
        return
    graph = problem.plain.graph
    shown: set[int] = set()
    for region in regions(graph):
        part = stage & set(region.forward)
        for o in part & set(operators):
            for t in graph.inputs[o]:
                producer, keeper = graph.tensors[t].producer, keepers(graph).get(t)
                saver = graph.tensors[t].saver
                if keeper is None and not any(saver in other.forward for other in regions(graph)):
                    keeper = saver
                inside = producer in region.forward
                elsewhere = producer not in part if inside else keeper not in stage
                if producer in here and keeper != producer and elsewhere:
                    shown.add(t)
    yield from sorted(shown)
