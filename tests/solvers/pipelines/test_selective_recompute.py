"""Devices that run again the cheapest of what does not fit: what that is, and that it fits."""

from __future__ import annotations

import pytest

from solvers.evaluation.evaluate import judge
from solvers.pipelines.planners.selective_recompute import SelectiveRecompute
from solvers.pipelines.selective.line import line_of
from solvers.plan.plan import Plan
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.graph import Amount
from solvers.problem.groups import group_of
from solvers.problem.problem import Objective, Pipeline, Problem
from tests.layered_models import layered

NORMS = {f"model.layers.{layer}.norm": {"saved_bytes": Amount(0.0, 9.0)} for layer in range(6)}
"""Norms save 9 bytes a sample in 0.1 s, all else 1 byte."""


HEAVY = {f"model.layers.{layer}.attention": {"saved_bytes": Amount(0.0, 9.0)} for layer in range(6)}
"""Attention does, in 3 s."""


def tight(memory: float, changed=NORMS, **options: object) -> Problem:
    return layered(6, devices=3, changed=changed, memory=memory, recompute=True, **options)


def run_again(p: Problem, plan: Plan) -> set[str]:
    """Types of the forward operators of stages that run again."""
    names = {p.graph.operators[o].name for stage in plan.stages if stage.recompute for o in stage.operators}
    return {name.rpartition(".")[2] for name in names if not name.endswith("'")}


def test_where_norms_are_enough_no_product_runs_again():
    """Of two layers and three micro-batches in flight norms save 54 bytes of 90 and more."""
    p = tight(160.0)
    result = solve(p, SelectiveRecompute())
    assert result.plan is not None
    assert check(p, result.plan) == ()
    assert run_again(p, result.plan) == {"norm", "add", "add#2"}


def test_beyond_them_the_front_of_a_device_does():
    p = tight(150.0, HEAVY)
    result = solve(p, SelectiveRecompute())
    assert result.plan is not None
    assert check(p, result.plan) == ()
    assert {"norm", "attention"} <= run_again(p, result.plan)


@pytest.mark.parametrize("memory", [130.0, 145.0, 160.0, 180.0])
def test_it_is_ahead_of_stages_that_run_again_as_a_whole(memory):
    """`layer-split` lets whole devices run again, as few as memory asks for."""
    p = tight(memory)
    assert solve(p, SelectiveRecompute()).objective_s <= solve(p, "layer-split").objective_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_what_it_offers_fits_whatever_the_memory(seed):
    p = tight(124.0 + 7.0 * seed, (NORMS, HEAVY)[seed % 2], micro_batches=None)
    result = solve(p, SelectiveRecompute())
    assert result.plan is not None or seed < 2
    if result.plan is not None:
        assert judge(p, result.plan).feasible
        assert judge(p, result.plan).objective_s >= result.bound_s


def test_cheap_groups_come_right_before_what_reads_them_and_sources_first():
    p = tight(110.0)
    line = line_of(p, 8)
    place = {group: at for at, group in enumerate(line.order.tolist())}
    assert sorted(place) == list(range(len(line.order)))
    number = group_of(p.graph)
    forward = range(len(p.graph) // 2)
    for tensor in p.graph.tensors:
        for reader in tensor.consumers:
            if tensor.producer in forward and reader in forward:
                assert place[number[tensor.producer]] < place[number[reader]]
    names = [p.graph.operators[o].name for o in forward]
    cheap = {names[o] for o in forward if line.component[number[o]] >= 0}
    assert cheap == {name for name in names if name.rpartition(".")[2] in ("norm", "add", "add#2")}


def test_nothing_is_offered_where_all_fits():
    assert solve(tight(1e9), SelectiveRecompute()).plan is None


def test_it_refuses_what_it_is_not_for():
    planner = SelectiveRecompute()
    assert "iteration" in (planner.unsupported(layered(4, objective=Objective.MAX_LOAD)) or "")
    assert "run its forward again" in (planner.unsupported(layered(4)) or "")
    assert "1f1b" in (planner.unsupported(tight(1e9, pipeline=Pipeline.GPIPE)) or "")
    assert "pinned" in (planner.unsupported(tight(1e9, pins={0: 0})) or "")
    with pytest.raises(ValueError, match="tries"):
        SelectiveRecompute(tries=0)
