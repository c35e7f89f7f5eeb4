"""What it costs to move the edge between two stages: the last module of the one to the other, or the first back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from explorer.sweeps.moved import Place, company
from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem

MOST_EDGES = 4
"""Neighbours of a stage whose edges are tried."""


class EdgeMove(NamedTuple):
    """operators: what changes sides. module: what they are called. to: where they go."""

    operators: frozenset[int]
    module: str
    to: Place


def edge_moves(problem: Problem, plan: Plan, chosen: Collection[int]) -> Iterator[EdgeMove]:
    """Of the stages that hold what is asked for, every edge with a stage elsewhere, moved by a module both ways.

    A module is an element of a list of modules ("blocks.7"), or what stands beside these; of one that the edge cuts,
    the part on that side. Where a stage has one module only, it stays.
    """
    homes = {i for i, stage in enumerate(plan.stages) if not set(stage.operators).isdisjoint(chosen)}
    if len(homes) != 1:
        return
    (own,) = homes
    modules = [_modules(problem, stage.operators) for stage in plan.stages]
    before, after = _neighbours(problem, plan, own)
    edges: list[tuple[int, int]] = []
    edges += [(stage, own) for stage in before] + [(own, stage) for stage in after]
    for first, second in edges[:MOST_EDGES]:
        if plan.stages[first].devices == plan.stages[second].devices:
            continue
        for side, other, at in ((first, second, -1), (second, first, 0)):
            if len(modules[side]) > 1:
                name, operators = modules[side][at]
                yield EdgeMove(company(problem, operators), name, plan.stages[other].devices)


def _modules(problem: Problem, operators: Sequence[int]) -> list[tuple[str, list[int]]]:
    """The forward operators of a stage by module, in the order in which these begin."""
    rank = {operator: at for at, operator in enumerate(problem.graph.topological_order)}
    modules: dict[str, list[int]] = {}
    for o in sorted(operators, key=rank.__getitem__):
        if problem.graph.operators[o].phase is Phase.FORWARD:
            modules.setdefault(module_name(problem.graph.operators[o].module_path), []).append(o)
    return list(modules.items())


def module_name(path: str) -> str:
    """ "blocks.7.attn.qkv" -> "blocks.7"; "head" -> "head"."""
    parts = path.split(".")
    for depth, part in enumerate(parts, 1):
        if part.isdigit():
            return ".".join(parts[:depth])
    return parts[0]


def _neighbours(problem: Problem, plan: Plan, own: int) -> tuple[list[int], list[int]]:
    """Stages whose forward the stage reads, and those that read its own."""
    stage_of = {o: i for i, stage in enumerate(plan.stages) for o in stage.operators}
    operators = problem.graph.operators
    before: dict[int, None] = {}
    after: dict[int, None] = {}
    for tensor in problem.graph.tensors:
        if operators[tensor.producer].phase is not Phase.FORWARD:
            continue
        made = stage_of[tensor.producer]
        readers = {stage_of[c] for c in tensor.consumers if operators[c].phase is Phase.FORWARD}
        if made == own:
            after.update(dict.fromkeys(sorted(readers - {own})))
        elif own in readers:
            before[made] = None
    return list(before), list(after)
