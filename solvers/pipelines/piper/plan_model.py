"""Piper on its own model: the best stages for a workload that states every way to run its layers."""

from __future__ import annotations

from dataclasses import replace

from solvers.contiguous.downsets import Check, enumerate_downsets, order_of
from solvers.errors import UnsupportedProblem
from solvers.pipelines.piper.dp import LIMIT, NOTHING, PiperSearch, least_bottleneck
from solvers.pipelines.piper.model import RECOMPUTED, PiperModel
from solvers.pipelines.piper.options import costed, faster_ways, options_of


def plan_model(model: PiperModel, check: Check, *, recompute: bool = True, limit: int = LIMIT) -> PiperSearch:
    """The chain of stages with the least bottleneck, in seconds per sample.

    An option of a stage is a position in `options_of`. recompute: whether layers may be recomputed. Calls
    ``check`` often. Raises UnsupportedProblem if there are more than ``limit`` downsets.
    """
    if not options_of(model):
        return NOTHING
    downsets = enumerate_downsets(order_of([(v, u) for u, v in model.edges], len(model)), limit, check)
    if downsets is None:
        raise UnsupportedProblem(too_many(limit))
    found = least_bottleneck(downsets, costed(model, recompute=recompute), check)
    pairs, fast = options_of(model), faster_ways(model, recompute=recompute)
    stages = []
    for stage in found.stages:
        by_default = {v for v in stage.nodes if fast[pairs[stage.option][0], v] == RECOMPUTED}
        stages.append(replace(stage, recomputed=tuple(sorted(by_default ^ set(stage.recomputed)))))
    return replace(found, stages=tuple(stages))


def too_many(limit: int) -> str:
    """Why Piper gives up."""
    return f"piper gives up on graphs with more than {limit:,} downsets, as its published program does"
