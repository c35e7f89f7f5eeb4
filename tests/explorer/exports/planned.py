"""Plans of demo models, cut where a test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import explorer
from solvers.formats.plan_json import PlanFile, read_plan
from solvers.problem.problem import Pipeline
from solvers.schedules.assemble import assemble


@cache
def on_one_device(model: str, devices: int, training: bool) -> PlanFile:
    """The question, with all of the model on one device."""
    traced = explorer.trace(model, training=training)
    whole = devices * traced.graph.tensor_parallel
    result = explorer.plan(traced, devices=whole, planner="single", micro_batches=4)
    return read_plan(explorer.export(result, "plan"))


def planned(
    model: str,
    firsts: Sequence[str],
    *,
    devices: Sequence[int | tuple[int, ...]] | None = None,
    pipeline: str = "1f1b",
    training: bool = True,
    **changes: Any,
) -> PlanFile:
    """The demo with a stage that begins at every one of these operators, in the order of the forward. devices: of the
    stages (default: one after the other). changes: of the problem."""
    places = [each if isinstance(each, tuple) else (each,) for each in devices or range(len(firsts) + 1)]
    file = on_one_device(model, 1 + max(max(place) for place in places), training)
    problem = replace(file.problem, pipeline=Pipeline(pipeline), **changes)
    graph = problem.graph
    names = graph.index_of()
    begins = [names[first] for first in firsts]
    placement = []
    for i, operator in enumerate(graph.operators):
        at = i if operator.forward_of is None else operator.forward_of
        placement.append(places[sum(at >= begin for begin in begins)])
    return PlanFile(problem, assemble(problem, placement, problem.micro_batches or 4), None, model)
