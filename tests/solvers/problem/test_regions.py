"""Regions that run again: what they keep, take and need, as a person reckons it."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.errors import PlacementError
from solvers.evaluation.evaluate import evaluate, judge
from solvers.evaluation.simulation import simulate
from solvers.formats.op_graph_json import graph_hash
from solvers.plan.plan import Plan
from solvers.problem.graph import Amount, Operator, OpGraph, Phase
from solvers.problem.problem import Contiguity, Objective, Origin, Pipeline, Problem
from solvers.problem.regions import _savers, recomputing, regions_of
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.instances import GPU, problem, training_graph
from tests.random_problems import random_placement, random_problem, with_random_regions

CHAIN = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
LAYERS = ("", "layer 0", "layer 0", "layer 1", "layer 1", "")
"""Of embedding, two operators a layer, head."""
SAVED = (0.0, 10.0, 2.0, 10.0, 2.0, 4.0)


def model(regions: tuple[str, ...] = LAYERS, cached: tuple[int, ...] = ()) -> OpGraph:
    """Six operators in a chain, whose tensors have 4 bytes a sample. Both layers save 12 bytes a sample; the backward
    of the last operator of each needs 3 while it runs, and the forward of the third operator 2."""
    graph = training_graph(CHAIN, 6, nbytes=4.0)
    operators = list(graph.operators)
    for o in range(6):
        operators[o] = replace(
            operators[o], saved_bytes=Amount(0, SAVED[o]), checkpoint=regions[o], cached=o in cached,
            workspace_bytes=Amount(0, 2.0 * (o == 3)),
        )  # fmt: skip
    for o in (2, 4):
        operators[6 + o] = replace(operators[6 + o], workspace_bytes=Amount(0, 3.0))
    return replace(graph, operators=tuple(operators))


def with_regions(graph: OpGraph, **options: object) -> Problem:
    """On one device, two micro-batches of one sample, all forwards first; forwards take 1 s, backwards 2 s."""
    fields = {"mini_batch": 2, "micro_batches": 2, "pipeline": Pipeline.GPIPE, "recompute": True, **options}
    return recomputing(problem(graph, [1.0] * 6 + [2.0] * 6, 1, **fields))  # type: ignore[arg-type]


def on_one(p: Problem, *, recompute: bool = False) -> tuple[float, float]:
    """(seconds, peak bytes)."""
    plan = assemble(p, [(0,)] * 12, 2)
    plan = replace(plan, stages=tuple(replace(stage, recompute=recompute) for stage in plan.stages))
    assert verify(p, plan, simulate(p, plan)) == ()
    return evaluate(p, plan).iteration_s, simulate(p, plan).peak_bytes()[0]


def test_the_example_of_the_docs() -> None:
    """Of 2 micro-batches. Nothing again: 28 saved each, and 3. By stage: the second keeps all its 28 only while it goes
    back, 3. By layer: 4 + 4 come into layers and 4 are the head's, each; the layer that goes back has its 12, and 3.
    By operator, the first of each layer being cached: 4 more for each layer and micro-batch."""
    plain, layers = with_regions(model(("",) * 6)), with_regions(model())
    assert on_one(plain) == (2 * (6 + 12), 2 * 28 + 3)
    assert on_one(plain, recompute=True) == (2 * (6 + 12 + 6), 28 + 3)
    assert on_one(layers) == (2 * (6 + 12 + 4), 2 * 12 + 12 + 3)
    assert on_one(with_regions(model(cached=(1, 3)))) == (2 * (6 + 12 + 2), 2 * 20 + 12 + 3)


def test_the_workspace_of_what_runs_again_counts() -> None:
    """The third operator needs 5 in its forward, more than any backward."""
    graph = model()
    operators = [replace(o, workspace_bytes=Amount(0, 5.0)) if i == 3 else o for i, o in enumerate(graph.operators)]
    assert on_one(with_regions(replace(graph, operators=tuple(operators))))[1] == 2 * 12 + 12 + 5


def test_what_leaves_a_region_is_kept_where_one_of_its_operators_may_have_been_charged_with_it() -> None:
    """The last operator of the second layer saves its output, 4 bytes, which the head reads."""
    graph = model()
    operators = [replace(o, saved_bytes=Amount(0, 4.0)) if i == 4 else o for i, o in enumerate(graph.operators)]
    changed = with_regions(replace(graph, operators=tuple(operators))).graph.operators
    assert [o.saved_bytes.per_sample for o in changed[:6]] == [0, 4, 0, 4, 4, 4]


def test_a_tensor_that_comes_into_several_regions_is_kept_once() -> None:
    graph = training_graph([(0, 1), (0, 2), (0, 3)], 4, nbytes=4.0)
    operators = [replace(o, checkpoint=f"layer {i}") if 0 < i < 4 else o for i, o in enumerate(graph.operators)]
    p = recomputing(problem(replace(graph, operators=tuple(operators)), [1.0] * 8))
    assert [o.saved_bytes.per_sample for o in p.graph.operators[:4]] == [0, 4, 0, 0]


def test_gradients_of_parameters_are_made_with_those_of_inputs() -> None:
    """A linear layer in a region: its I takes 1 again + 2 + 3, its W nothing; the room is with I alone."""
    operators = (
        Operator("a", saved_bytes=Amount(0, 5.0), param_bytes=1.0, checkpoint="layer"),
        Operator("a.I", phase=Phase.BACKWARD_INPUT, forward_of=0),
        Operator("a.W", phase=Phase.BACKWARD_WEIGHT, forward_of=0, workspace_bytes=Amount(0, 1.0)),
        Operator("a.U", phase=Phase.UPDATE, forward_of=0),
    )
    p = recomputing(problem(OpGraph(operators, ()), [1.0, 2.0, 3.0, 4.0]))
    assert p.compute.at(GPU, 1).tolist() == [1, 6, 0, 4]
    assert [o.workspace_bytes.per_sample for o in p.graph.operators] == [0, 6, 0, 0]


def test_a_time_that_takes_in_another_is_as_well_known_as_the_lesser_of_both() -> None:
    operators = (
        Operator("a", saved_bytes=Amount(0, 5.0), checkpoint="layer"),
        Operator("a.I", phase=Phase.BACKWARD_INPUT, forward_of=0),
    )
    whole = problem(OpGraph(operators, ()), [1.0, 2.0])
    fields = {GPU: np.array([[Origin.INTERPOLATED], [Origin.MEASURED]], np.uint8)}
    p = recomputing(replace(whole, compute=replace(whole.compute, origins=fields)))
    assert p.compute.origins[GPU].tolist() == [[Origin.INTERPOLATED], [Origin.INTERPOLATED]]


def test_what_has_no_backward_runs_again_with_the_next_of_its_region_that_has() -> None:
    graph = training_graph([(0, 1), (1, 2)], 3)
    positions = [0, 1, 2, 4]  # without the mirror of the first
    operators = tuple(
        replace(graph.operators[i], checkpoint="layer" if i < 3 else "", forward_of=None if i < 3 else i - 3)
        for i in positions
    )
    p = recomputing(problem(OpGraph(operators, ()), [1.0, 10.0, 100.0, 1000.0]))
    assert p.compute.at(GPU, 1).tolist() == [1, 10, 100, 1111]


def test_a_region_without_backward_replicable_operators_and_other_questions_are_left_as_they_are() -> None:
    graph = model()
    assert with_regions(graph, objective=Objective.MAKESPAN, micro_batches=1).plain is None
    assert with_regions(graph, training=False).plain is None
    assert with_regions(graph, stated_bytes=(1.0,) * 12).plain is None
    forward = OpGraph(graph.operators[:6], ())
    assert not regions_of(forward).members
    copies = replace(graph, operators=tuple(replace(o, replicable=True) for o in graph.operators))
    assert not regions_of(copies).members


def test_a_graph_has_one_hash_whatever_runs_again() -> None:
    assert graph_hash(model()) == graph_hash(model(("",) * 6)) == graph_hash(model(cached=(1,)))


def test_running_again_twice_changes_nothing_more() -> None:
    p = with_regions(model())
    assert recomputing(p) is p


def parts_of(p: Problem, plan: Plan) -> Problem:
    """Every stage's part of a region as a region of its own, exact to the byte: what was received is held by that."""
    traced, home = p.as_traced, {o: s for s, stage in enumerate(plan.stages) for o in stage.operators}
    regions = regions_of(traced.graph)
    operators = [
        replace(o, checkpoint=f"{o.checkpoint} of stage {home[i]}" if i in regions.of else "")
        for i, o in enumerate(traced.graph.operators)
    ]
    graph = replace(traced.graph, operators=tuple(operators))
    shown = recomputing(replace(p, graph=graph, compute=traced.compute, plain=None))
    exact = list(shown.graph.operators)
    for t, keeper in _savers(graph).items():
        maker = plan.stages[home[graph.tensors[t].producer]]
        if maker.devices != plan.stages[home[keeper]].devices:
            less = graph.tensors[t].nbytes.per_sample
            saved = exact[keeper].saved_bytes
            exact[keeper] = replace(exact[keeper], saved_bytes=Amount(saved.fixed, saved.per_sample - less))
    return replace(shown, graph=replace(shown.graph, operators=tuple(exact)))


def cut_plans() -> list[tuple[Problem, Plan]]:
    plans = []
    for seed in range(150):
        p = random_problem(
            seed, 7, training=True, objective=Objective.ITERATION, memory=float("inf"), mini_batch=4, cpus=0
        )
        p, rng = with_random_regions(p, seed), random.Random(seed)
        for _ in range(3):
            try:
                plan = assemble(p, random_placement(rng, p), rng.choice([1, 2, 4]))
                simulate(p, plan)
            except PlacementError:
                continue
            home = {o: s for s, stage in enumerate(plan.stages) for o in stage.operators}
            if any(len({home[o] for o in members}) > 1 for members in regions_of(p.as_traced.graph).members.values()):
                plans.append((p, plan))
    return plans


def test_a_region_that_a_plan_cuts_never_counts_less_than_its_parts_need() -> None:
    """And as long: what runs again is the same."""
    plans, more, differing = cut_plans(), 0, 0
    for p, plan in plans:
        parts = parts_of(p, plan)
        whole, separate = simulate(p, plan), simulate(parts, plan)
        assert whole.makespan_s == pytest.approx(separate.makespan_s)
        for peak, least in zip(whole.peak_bytes(), separate.peak_bytes(), strict=True):
            assert peak >= least - 1e-9
            more += peak > least
        without = simulate(replace(p, plain=None), plan)
        differing += any(a.nbytes != b.nbytes for a, b in zip(without.memory, whole.memory, strict=True))
    assert len(plans) > 60
    assert more > 30
    assert differing > 5


def test_a_part_keeps_what_another_stage_of_its_device_hands_it() -> None:
    """Operators 0 and 2 on one device, 1 on another; 2 reads what 0 makes. In the region of 0 and 2 nobody keeps that
    tensor, but the second stage must have it to run again."""
    graph = training_graph([(0, 1), (1, 2), (0, 2)], 3, nbytes=4.0)
    operators = tuple(replace(o, checkpoint="layer" if i in (0, 2) else "") for i, o in enumerate(graph.operators))
    p = recomputing(problem(replace(graph, operators=operators), [1.0] * 6, contiguity=Contiguity.NONE))
    plan = assemble(p, [(0,), (1,), (0,)] * 2, 1)
    assert len(plan.stages) == 3
    assert verify(p, plan, simulate(p, plan)) == ()
    without = simulate(replace(p, plain=None), plan)
    assert simulate(p, plan).peak_bytes()[0] == without.peak_bytes()[0] + 4
    assert verify(p, plan, without)


def test_stages_may_run_again_around_regions() -> None:
    """Both: the stage's forward again, and then that of every region once more; kept is nothing but for the one that
    goes back, which has the 12 that its forward kept, and the 12 and 3 of a layer."""
    assert on_one(with_regions(model()), recompute=True) == (2 * (6 + 12 + 6 + 4), 12 + 12 + 3)


def test_a_plan_that_fits_only_with_regions_is_judged_to_fit() -> None:
    layers, plain = with_regions(model(), memory=40.0), with_regions(model(("",) * 6), memory=40.0)
    assert judge(layers, assemble(layers, [(0,)] * 12, 2)).feasible
    assert not judge(plain, assemble(plain, [(0,)] * 12, 2)).feasible


def test_times_stay_those_of_kinds_that_cannot_run_an_operator() -> None:
    p = problem(model(), [1.0] * 12, 1, cpus=1, cpu_seconds=[1.0, np.inf, *[1.0] * 10])
    shown = recomputing(p).compute.at("cpu", 1)
    assert np.isinf(shown).tolist() == [o in (1, 7) for o in range(12)]
