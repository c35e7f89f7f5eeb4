"""A problem as a plan has it, where plans say which operators run again before their backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile

from solvers.plan.plan import Plan, Region
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Problem
from solvers.problem.regions import in_regions, recomputing

MOST_PROBLEMS = 8
"""Problems as plans have them that are cached: a plan is judged, simulated and verified in turn."""


def with_regions(problem: Problem, plan: Plan) -> Problem:
    """The problem in whose graph the regions of the plan's stages run again; itself where it has them already, and
    where plans do not say that."""
    if not problem.recompute_operators:
        return problem
    regions = tuple(region for stage in plan.stages for region in stage.regions)
    marked = problem.graph if problem.plain is None else problem.plain.graph
    region_of = _region_of(marked, regions)
    same = all(
        (operator.checkpoint, operator.cached) == region_of.get(o, ("", False))
        for o, operator in enumerate(marked.operators)
    )
    return problem if same and (problem.plain is not None or not regions) else rerunning(problem, regions)


def without_regions(problem: Problem) -> Problem:
    """What was asked, of a problem as a plan has it; itself where plans do not say what runs again."""
    return rerunning(problem, ()) if problem.recompute_operators and problem.plain is not None else problem


@lru_cache(MOST_PROBLEMS)
def rerunning(problem: Problem, regions: tuple[Region, ...]) -> Problem:
    """The problem with these regions, and no others, run again."""
    traced = problem.as_traced
    graph = in_regions(traced.graph, _region_of(traced.graph, regions))
    return recomputing(replace(problem, graph=graph, compute=traced.compute, plain=None))


def _region_of(graph: OpGraph, regions: tuple[Region, ...]) -> Mapping[int, tuple[str, bool]]:
    """Operator -> the name of its region, and whether it caches what it makes. A region is called by the module that
    its operators share, and its number where that is taken."""
    region_of: dict[int, tuple[str, bool]] = {}
    taken: set[str] = set()
    for number, region in enumerate(regions):
        paths = [graph.operators[o].module_path.split(".") for o in region.operators]
        shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
        name = ".".join(parts[0] for parts in shared) or graph.name
        name = f"{name} #{number}" if name in taken or not name else name
        taken.add(name)
        cached = frozenset(region.cached)
        region_of |= {o: (name, o in cached) for o in region.operators}
    return region_of
