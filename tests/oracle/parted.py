"""What is held between the parts of a backward: found by looking at the paths of autograd's graph, one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem
from tests.oracle import regions
from tests.oracle.units import Unit

BACK = (Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT)


def held_between_parts(problem: Problem, plan: Plan, units: Sequence[Unit]) -> dict[tuple[int, str], float]:
    """(stage, F) -> B of what its forward saves that I frees; (stage, I) -> B of gradients that I leaves for W."""
    graph, held = problem.graph, dict[tuple[int, str], float]()
    operators = graph.operators
    by_stage: dict[int, dict[str, Unit]] = defaultdict(dict)
    for unit in units:
        if unit.operator < 0:
            by_stage[unit.stage][unit.kind] = unit
    traced = () if problem.plain is None else regions.regions(problem.plain.graph)
    runs_again = {o for region in traced for o in region.forward}
    for number, parts in by_stage.items():
        stage = plan.stages[number]
        if not {"F", "I", "W"} <= parts.keys() or stage.recompute or runs_again & set(stage.operators):
            continue
        forward, inputs, weights = (set(parts[kind].operators) for kind in "FIW")
        own = forward | inputs | weights
        edges = [
            (t, graph.tensors[t].producer, c) for t in range(len(graph.tensors)) for c in graph.tensors[t].consumers
        ]
        heavy = [(t, p, c) for t, p, c in edges if graph.tensors[t].nbytes.at(1) > 0]
        away = {p for _, p, c in heavy if p in inputs and c not in own and operators[c].phase in BACK}
        away = _closed(away, [(c, p) for _, p, c in heavy if p in inputs and c in inputs])
        late = weights | (inputs - away)
        sums = {}
        for t, p, c in heavy:
            if p in away and c in late:
                group = graph.tensors[t].sum_group
                sums["tensor", t] = t
                if group is not None:
                    del sums["tensor", t]
                    sums["sum", group] = t
        samples = stage.micro_batch_size / len(stage.devices)
        held[number, "I"] = sum(graph.tensors[t].nbytes.at(samples) for t in sums.values())
        mirrors = {f: [o for o in inputs | weights if operators[o].forward_of == f] for f in forward}
        begins = {f for f in forward if any(o in late for o in mirrors[f])}
        entirely = {f for f in forward if mirrors[f] and all(o in late for o in mirrors[f])}
        inside = [(p, c) for _, p, c in edges if p in forward and c in forward]
        begins |= {c for p, c in inside if p in entirely}
        until_w = _closed(begins, [(c, p) for p, c in inside])
        held[number, "F"] = sum(regions.saved(problem, o, samples) for o in forward - until_w)
    return held


def _closed(begins: set[int], steps: list[tuple[int, int]]) -> set[int]:
    """All that steps lead to from somewhere."""
    reached = set(begins)
    while more := {b for a, b in steps if a in reached} - reached:
        reached |= more
    return reached
