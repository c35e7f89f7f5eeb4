"""What runs a second time before its backward, by region of the graph as it was traced: derived from that alone.

Forward operators of one region keep nothing for themselves. What flows into any region is there until the backward,
once; what operators make that do not run again, too. While a gradient of a region is made, all that its operators
would have kept is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.problem.graph import Amount, OpGraph, Phase, per_graph
from solvers.problem.problem import ComputeTable, Problem

GRADIENTS = (Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT)


@dataclass(slots=True)
class Regions:
    """name: of the region of a forward operator. leads: the gradient that an operator's forward runs again before.
    runs: rows (operator that takes the time, operator whose time it is). keeper: of a tensor that is kept for
    regions, the operator that keeps it."""

    name: dict[int, str] = field(default_factory=dict)
    leads: dict[int, int] = field(default_factory=dict)
    runs: list[tuple[int, int]] = field(default_factory=list)
    keeper: dict[int, int] = field(default_factory=dict)


@per_graph
def regions_of(graph: OpGraph) -> Regions:
    """Those with an operator that has a gradient."""
    regions, operators, order = Regions(), graph.operators, graph.topological_order
    gradients: dict[int, list[int]] = {}
    for o in order:
        home = operators[o].forward_of
        if operators[o].phase in GRADIENTS and home is not None:
            gradients.setdefault(home, []).append(o)
    forwards = [
        o for o in order
        if operators[o].phase is Phase.FORWARD and operators[o].checkpoint and not operators[o].replicable
    ]  # fmt: skip
    trained = {operators[o].checkpoint for o in forwards if o in gradients}
    regions.name = {o: operators[o].checkpoint for o in forwards if operators[o].checkpoint in trained}
    for o in regions.name:
        of_inputs = [g for g in gradients.get(o, ()) if operators[g].phase is Phase.BACKWARD_INPUT]
        if o in gradients:
            regions.leads[o] = (of_inputs or gradients[o])[0]
    merged = {
        g: regions.leads[o]
        for o in regions.leads
        for g in gradients[o]
        if operators[g].phase is Phase.BACKWARD_WEIGHT and operators[regions.leads[o]].phase is not operators[g].phase
    }
    regions.runs = [(merged.get(o, o), o) for o in order]
    parts: dict[str, list[int]] = {}
    for o, region in regions.name.items():
        parts.setdefault(region, []).append(o)
    for inside in parts.values():
        for place, o in enumerate(inside):
            if operators[o].cached:
                continue
            nearest = next((x for x in (*inside[place:], *reversed(inside)) if x in regions.leads), o)
            regions.runs.append((regions.leads[nearest], o))
    _keepers(graph, regions)
    return regions


def _keepers(graph: OpGraph, regions: Regions) -> None:
    place = {o: at for at, o in enumerate(graph.topological_order)}
    for t, tensor in enumerate(graph.tensors):
        made_in = regions.name.get(tensor.producer, "")
        read = sorted((o for o in tensor.consumers if graph.operators[o].phase is Phase.FORWARD), key=place.__getitem__)
        new = [o for o in read if regions.name.get(o, made_in) != made_in]
        saved_outside = tensor.saver >= 0 and tensor.saver not in regions.name
        if not read or saved_outside:
            continue
        if made_in and graph.operators[tensor.producer].cached:
            regions.keeper[t] = tensor.producer
        elif new:
            regions.keeper[t] = new[0]
        elif made_in and any(o not in regions.name for o in read):
            near = [tensor.producer, *(o for o in read if o in regions.name)]
            if tensor.saver >= 0 or max(
                graph.operators[o].saved_bytes.at(graph.samples) for o in near
            ) >= tensor.nbytes.at(graph.samples):
                regions.keeper[t] = tensor.producer


def _sum(amounts: list[Amount]) -> Amount:
    return Amount(sum(a.fixed for a in amounts), sum(a.per_sample for a in amounts))


def saved(problem: Problem) -> list[Amount]:
    """[operators] what each keeps from its forward until its backward."""
    if problem.plain is None:
        return [o.saved_bytes for o in problem.graph.operators]
    graph = problem.plain.graph
    regions = regions_of(graph)
    retained: dict[int, list[Amount]] = {}
    for tensor, o in regions.keeper.items():
        retained.setdefault(o, []).append(graph.tensors[tensor].nbytes)
    return [
        _sum([*([] if o in regions.name else [operator.saved_bytes]), *retained.get(o, ())])
        for o, operator in enumerate(graph.operators)
    ]


def workspace(problem: Problem) -> list[Amount]:
    """[operators] what each needs while it runs; a gradient in a region, all that the region lacked, too."""
    if problem.plain is None:
        return [o.workspace_bytes for o in problem.graph.operators]
    graph = problem.plain.graph
    regions, operators = regions_of(graph), graph.operators
    needs = [o.workspace_bytes for o in operators]
    together: dict[int, list[int]] = {}
    for target, source in regions.runs:
        if operators[source].phase in GRADIENTS:
            together.setdefault(target, []).append(source)
    members: dict[str, list[int]] = {}
    for o, name in regions.name.items():
        members.setdefault(name, []).append(o)
    lacked = {name: _sum([operators[o].saved_bytes for o in inside]) for name, inside in members.items()}
    for t in regions.keeper:  # there already
        if name := regions.name.get(graph.tensors[t].saver, ""):
            one, other = lacked[name], graph.tensors[t].nbytes
            lacked[name] = Amount(one.fixed - other.fixed, one.per_sample - other.per_sample)
    lacked = {name: Amount(max(a.fixed, 0.0), max(a.per_sample, 0.0)) for name, a in lacked.items()}
    rerun = {
        name: [operators[o].workspace_bytes for o in inside if not operators[o].cached]
        for name, inside in members.items()
    }
    for g, operator in enumerate(operators):
        home = -1 if operator.forward_of is None else operator.forward_of
        if operator.phase not in GRADIENTS or home not in regions.name:
            continue
        if g not in together:
            needs[g] = Amount()
            continue
        name, own = regions.name[home], _sum([operators[source].workspace_bytes for source in together[g]])
        if regions.leads[home] == g:
            most = [own, *rerun[name]]
            own = Amount(max(a.fixed for a in most), max(a.per_sample for a in most))
        needs[g] = own + lacked[name]
    return needs


def seconds_at(problem: Problem) -> Callable[[str, float], Floats]:
    """Seconds of every operator on a kind of device for so many samples, what it runs again included."""
    if problem.plain is None:
        return problem.compute.at
    runs = np.array(regions_of(problem.plain.graph).runs, np.int64)
    tables = {}
    for kind, table in problem.plain.compute.seconds.items():
        tables[kind] = np.zeros_like(table)
        np.add.at(tables[kind], runs[:, 0], table[runs[:, 1]])
    return ComputeTable(problem.plain.compute.samples, tables).at
