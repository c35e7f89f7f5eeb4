"""Regions of a graph whose forward runs again before its backward: full and selective activation checkpointing.

Of a region (`Operator.checkpoint`) only what comes in is kept for every micro-batch, and what its cached operators
make; its backward runs the forward of the others again first, and has room for all that the region saves while it
runs (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; torch.utils.checkpoint). That is modelled by
what every planner knows, operator by operator (`recomputing`): what it saves, how long it takes, and what it
needs while it runs. So a region that a plan cuts is counted as a whole on every device that has a part of it, which
is never less than what each of its parts needs as a region of its own.

A region's backward is done at once, as a forward that ran again is walked once: the times and the workspace of
gradients of parameters are those of the gradients of inputs, where an operator has both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from solvers.problem.graph import BACKWARD_PHASES, NOTHING, Amount, OpGraph, Phase, per_graph
from solvers.problem.problem import ComputeTable, Objective, Plain, Problem


@dataclass(frozen=True, slots=True)
class Regions:
    """members: the forward operators of every region that has a backward, in the order in which they run. of: the
    name of the region of each of these. first: of an operator in a region that has a backward, the backward operator
    that is counted with what runs again. moved: gradients of parameters that are made with those of inputs, and where.
    """

    members: Mapping[str, tuple[int, ...]]
    of: Mapping[int, str]
    first: Mapping[int, int]
    moved: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Reading:
    """An operator of a region reads a tensor. counted: the operator whose saved bytes it is among, -1 for one that
    is handed on inside a region and is there again when that has run."""

    tensor: int
    producer: int
    reader: int
    counted: int


@per_graph
def regions_of(graph: OpGraph) -> Regions:
    """Replicable operators, which are computed again anywhere, are in no region."""
    rank = {operator: position for position, operator in enumerate(graph.topological_order)}
    mirrors: dict[int, list[int]] = defaultdict(list)
    for position in graph.topological_order:
        operator = graph.operators[position]
        if operator.phase in BACKWARD_PHASES and operator.forward_of is not None:
            mirrors[operator.forward_of].append(position)
    named: dict[str, list[int]] = defaultdict(list)
    for position in graph.topological_order:
        operator = graph.operators[position]
        if operator.checkpoint and operator.phase is Phase.FORWARD and not operator.replicable:
            named[operator.checkpoint].append(position)
    members = {name: tuple(positions) for name, positions in named.items() if any(o in mirrors for o in positions)}
    of = {o: name for name, positions in members.items() for o in positions}
    first: dict[int, int] = {}
    moved: dict[int, int] = {}
    for o in of:
        back = sorted(mirrors.get(o, ()), key=lambda b: (graph.operators[b].phase is Phase.BACKWARD_WEIGHT, rank[b]))
        if back:
            first[o] = back[0]
        if back and graph.operators[back[0]].phase is Phase.BACKWARD_INPUT:
            moved |= {b: back[0] for b in back if graph.operators[b].phase is Phase.BACKWARD_WEIGHT}
    return Regions(members, of, first, moved)


def in_regions(graph: OpGraph, region_of: Mapping[int, tuple[str, bool]]) -> OpGraph:
    """The graph with forward operators in the regions given, all others in none; itself where they are.

    region_of: operator -> the name of its region, and whether it caches what it makes.
    """
    changed = False
    operators = []
    for o, operator in enumerate(graph.operators):
        region = region_of.get(o, ("", False)) if operator.phase is Phase.FORWARD else ("", False)
        if region != (operator.checkpoint, operator.cached):
            operator, changed = replace(operator, checkpoint=region[0], cached=region[1]), True
        operators.append(operator)
    return replace(graph, operators=tuple(operators)) if changed else graph


def recomputing(problem: Problem) -> Problem:
    """The problem with the regions of its graph run again; itself where there are none, in inference, where sizes are
    stated, and for one unsplit pass, in which nothing waits for its backward while another micro-batch runs."""
    regions = regions_of(problem.graph)
    if (
        not regions.members or not problem.training or problem.objective is Objective.MAKESPAN
        or problem.stated_bytes is not None or problem.plain is not None
    ):  # fmt: skip
        return problem
    return replace(
        problem,
        graph=_graph(problem.graph, regions),
        compute=_times(problem.graph, problem.compute, regions),
        plain=Plain(problem.graph, problem.compute),
    )


def _graph(graph: OpGraph, regions: Regions) -> OpGraph:
    """With what operators save and need while they run."""
    operators = list(graph.operators)
    saved: dict[int, Amount] = defaultdict(Amount)
    for tensor, keeper in _savers(graph).items():
        saved[keeper] += graph.tensors[tensor].nbytes
    for o, operator in enumerate(graph.operators):
        if o in regions.of or o in saved:
            operators[o] = replace(
                operator, saved_bytes=(NOTHING if o in regions.of else operator.saved_bytes) + saved[o]
            )
    room = {name: _room(graph, members) for name, members in regions.members.items()}
    again = {name: _most(graph, members) for name, members in regions.members.items()}
    needs = {b: o.workspace_bytes for b, o in enumerate(graph.operators) if o.phase in BACKWARD_PHASES}
    for late, into in regions.moved.items():
        needs[into] += needs.pop(late)
        operators[late] = replace(operators[late], workspace_bytes=NOTHING)
    for b, own in needs.items():
        home = operators[b].forward_of
        if home is None or home not in regions.of:
            continue
        name = regions.of[home]
        own = _larger(own, again[name]) if b == regions.first[home] else own
        operators[b] = replace(operators[b], workspace_bytes=room[name] + own)
    return replace(graph, operators=tuple(operators))


def _room(graph: OpGraph, members: tuple[int, ...]) -> Amount:
    """All that the operators of a region save, but for what is kept all the time."""
    inside = set(members)
    saved = [graph.operators[o].saved_bytes for o in members]
    retained = [graph.tensors[t].nbytes for t in _savers(graph) if graph.tensors[t].saver in inside]
    return Amount(
        max(0.0, sum(a.fixed for a in saved) - sum(a.fixed for a in retained)),
        max(0.0, sum(a.per_sample for a in saved) - sum(a.per_sample for a in retained)),
    )


def _most(graph: OpGraph, members: tuple[int, ...]) -> Amount:
    """At most the workspace of what of a region runs again."""
    most = NOTHING
    for o in members:
        most = most if graph.operators[o].cached else _larger(most, graph.operators[o].workspace_bytes)
    return most


def _larger(a: Amount, b: Amount) -> Amount:
    return Amount(max(a.fixed, b.fixed), max(a.per_sample, b.per_sample))


@per_graph
def _savers(graph: OpGraph) -> Mapping[int, int]:
    """Tensor -> the operator whose saved bytes it is among, for what regions keep of every micro-batch.

    What an operator in no region saves is none of it. What comes into regions is kept once, with the operator of a
    region that reads it first; what a cached operator makes, with that. What leaves a region for operators in none,
    with its maker, where one of a region saves it; where nobody says (`Tensor.saver`), if they may keep it and an
    operator of the region was the first to: its saved bytes, which are dropped, are then no less than the tensor.
    """
    regions, rank = regions_of(graph), {o: position for position, o in enumerate(graph.topological_order)}
    savers: dict[int, int] = {}
    for t, tensor in enumerate(graph.tensors):
        p = tensor.producer
        readers = [c for c in tensor.consumers if graph.operators[c].phase is Phase.FORWARD]
        home = regions.of.get(p)
        inside = [c for c in readers if c in regions.of]
        entering = [c for c in inside if regions.of[c] != home]
        if not readers or (tensor.saver >= 0 and tensor.saver not in regions.of):
            continue
        if home is not None and graph.operators[p].cached:
            savers[t] = p
        elif entering:
            savers[t] = min(entering, key=rank.__getitem__)
        elif home is not None and len(inside) < len(readers) and tensor.saver >= 0:
            savers[t] = p
        elif home is not None and len(inside) < len(readers):
            least = tensor.nbytes.at(graph.samples)
            if any(graph.operators[o].saved_bytes.at(graph.samples) >= least for o in (p, *inside)):
                savers[t] = p
    return savers


def _times(graph: OpGraph, compute: ComputeTable, regions: Regions) -> ComputeTable:
    """With what runs again before its backward, and gradients of parameters with those of inputs."""
    into: list[tuple[int, int]] = [(target, late) for late, target in regions.moved.items()]
    for members in regions.members.values():
        following = [regions.first[o] for o in members if o in regions.first]
        seen = 0
        for o in members:  # what has no backward runs again with the next one that has
            if not graph.operators[o].cached:
                into.append((regions.first.get(o, following[min(seen, len(following) - 1)]), o))
            seen += o in regions.first
    targets, sources = np.array(into, np.int64).reshape(-1, 2).T
    late = list(regions.moved)
    tables: dict[str, NDArray[np.float64]] = {}
    for kind, table in compute.seconds.items():
        times = np.array(table)
        np.add.at(times, targets, table[sources])
        times[late] = np.where(np.isinf(table[late]), np.inf, 0.0)
        tables[kind] = times
    origins = {kind: np.array(table) for kind, table in compute.origins.items()}
    for kind, known in compute.origins.items():  # a sum is as well known as the least known of its parts
        np.maximum.at(origins[kind], targets, known[sources])
    return ComputeTable(compute.samples, tables, origins)


@per_graph
def readings(graph: OpGraph) -> tuple[Reading, ...]:
    """Of all tensors that regions read those that are not among what their maker saves. A plan that cuts a region
    keeps some of them where they are read: see `solvers.evaluation.unit_bytes`."""
    regions, savers = regions_of(graph), _savers(graph)
    unsaved = []
    for t, tensor in enumerate(graph.tensors):
        among = savers.get(t, -1 if tensor.saver in regions.of else tensor.saver)
        if among == tensor.producer:
            continue
        for reader in tensor.consumers:
            if reader in regions.of:
                inside = regions.of[reader] == regions.of.get(tensor.producer)
                unsaved.append(Reading(t, tensor.producer, reader, -1 if inside else among))
    return tuple(unsaved)
