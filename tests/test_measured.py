"""A run laid over its prediction tells three errors apart, and finds again what was slowed down."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from explorer.measured import compare_run, comparison_object, rank_agreement, rows
from explorer.measured.links import Observed, fitted
from explorer.measured.notes import same_hardware
from explorer.measured.telling import segment_rows
from explorer.runner.channels import gradients_of
from explorer.runner.outcome import Agreement, Environment, MeasuredAction, MeasuredMessage, Outcome, RunStatus
from explorer.runner.segments import lay_out
from solvers.assemble import assemble
from solvers.cluster import Device, Link, uniform_cluster
from solvers.drafts import Draft, DraftStage, realise
from solvers.errors import InvalidPlan, InvalidProblem, RunError
from solvers.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.plan import Plan
from solvers.problem import ComputeTable, Contiguity, Execution, Objective, Pipeline, Problem, Transfers
from solvers.simulate import simulate
from tests.instances import GPU, devices, problem, training_graph
from tests.measured_runs import run_of, slowed
from tests.random_problems import random_draft, random_placement, random_problem, random_two_level_problem

EXACT = 1e-9


def two_devices(**options: object) -> tuple[Problem, Plan]:
    """a on device 0 and b on device 1, forward 1 s and backward 2 s a sample, messages 1 s, two micro-batches of
    one sample: 0F0 0F1 0B0 0B1 and 1F0 1B0 1F1 1B1, which take 11 s."""
    options = {"objective": Objective.ITERATION, "mini_batch": 2, "micro_batches": 2, **options}
    given = problem(training_graph([(0, 1)], 2, nbytes=1.0), [1, 1, 2, 2], 2, **options)
    return given, assemble(given, [(0,), (1,), (0,), (1,)], 2)


def test_three_errors_by_hand():
    """b takes twice as long: 1F 2 s, 1B 4 s, 17 s in all. The link to it takes 3 s: everything 2 s later. And the
    machine loses a second that no model knows."""
    given, plan = two_devices()
    slow = slowed(given, {(1, 1): 2.0, (1, 3): 2.0}, {(0, 1): 3.0})
    found = compare_run(given, plan, run_of(slow, plan, more_s=1.0))
    assert (found.predicted_s, found.operators_fed_s, found.fed_s, found.measured_s) == (11.0, 17.0, 19.0, 20.0)
    assert (found.operators_error_s, found.links_error_s, found.schedule_error_s) == (6.0, 2.0, 1.0)
    assert found.total_error_s == 9.0
    assert found.share(found.operators_error_s) == pytest.approx(0.3)
    assert found.fed_error == pytest.approx(-0.05)
    assert found.error == pytest.approx(-0.45)


def test_a_run_as_predicted_has_no_error():
    given, plan = two_devices()
    found = compare_run(given, plan, run_of(given, plan))
    assert [found.operators_error_s, found.links_error_s, found.schedule_error_s] == pytest.approx([0, 0, 0])
    assert found.bubble_measured == pytest.approx(found.bubble_predicted) == pytest.approx(1 - 12 / 22)
    assert [d.busy_measured_s for d in found.devices] == [6.0, 6.0]
    assert all(d.peak_measured_bytes == d.peak_predicted_bytes for d in found.devices)


def test_segments_operators_and_links_are_told_with_their_ratios():
    given, plan = two_devices()
    slow = slowed(given, {(1, 1): 2.0, (1, 3): 3.0}, {(0, 1): 3.0})
    found = compare_run(given, plan, run_of(slow, plan))
    told = {(s.segment, s.kind): (s.predicted_s, s.measured_s, s.ratio) for s in found.segments}
    assert told == {(0, "F"): (1, 1, 1), (0, "B"): (2, 2, 1), (1, "F"): (1, 2, 2), (1, "B"): (2, 6, 3)}
    assert [o.ratio for o in found.operators if o is not None] == [1, 2, 1, 3]
    assert [(link.src, link.dst, link.measured_s, link.how) for link in found.links] == [
        (0, 1, 3.0, "ratio"),
        (1, 0, 1.0, "ratio"),
    ]


def test_a_message_that_was_never_waited_for_does_not_count():
    given, plan = two_devices()
    slow = slowed(given, {}, {(0, 1): 3.0, (1, 0): 2.0})
    run = run_of(slow, plan)
    messages = tuple(replace(m, waited=m.src_rank == 1) for m in run.messages)
    found = compare_run(given, plan, replace(run, messages=messages))
    assert {(link.src, link.dst): (link.how, link.waited) for link in found.links} == {
        (0, 1): ("", 0),
        (1, 0): ("ratio", 2),
    }
    assert found.links[0].bandwidth_bytes_per_s == 1.0
    assert any("1 link of 2 kept the plan's speed" in note for note in found.notes)


def test_a_message_behind_one_that_nobody_waited_for_does_not_count():
    """The first was found at 9 s, after the second had been posted at 2 s: it may have held the wire until then."""
    given, plan = two_devices()
    run = run_of(given, plan)
    forward = [
        MeasuredMessage(0, 0, 0, 1, 0, "0F0", 1, 1.0, 9.0, False),
        MeasuredMessage(0, 1, 0, 1, 0, "0F1", 1, 2.0, 9.5, True),
    ]
    back = [m for m in run.messages if m.src_rank == 1]
    found = compare_run(given, plan, replace(run, messages=(*forward, *back)))
    assert found.links[0].how == ""
    waited = compare_run(given, plan, replace(run, messages=(replace(forward[0], waited=True), forward[1], *back)))
    assert waited.links[0].measured_s == pytest.approx((8.0 + 0.5) / 2)


def slow_downs(
    given: Problem, plan: Plan, seed: int
) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]]:
    """A factor for every stage, kind of action and device, and for every link."""
    rng = random.Random(seed)
    apart = any(action.kind == "I" for actions in plan.order for action in actions)
    compute = {}
    for stage in plan.stages:
        for device in stage.devices:
            factor = {phase: rng.uniform(0.5, 3.0) for phase in Phase}
            if not apart:
                factor[Phase.BACKWARD_WEIGHT] = factor[Phase.BACKWARD_INPUT]
            for o in stage.operators:
                compute[device, o] = factor[given.graph.operators[o].phase]
    links = {(link.src, link.dst): rng.uniform(0.5, 3.0) for link in given.cluster.links}
    return compute, links


def assert_found_again(given: Problem, plan: Plan, seed: int, **run: object) -> None:
    """The slow-downs drawn from ``seed`` come back, and nothing is left for the schedule model."""
    compute, links = slow_downs(given, plan, seed)
    slow = slowed(given, compute, links)
    outcome = run_of(slow, plan, seed=seed, **run)  # type: ignore[arg-type]
    found = compare_run(given, plan, outcome)
    assert found.fed_s == pytest.approx(found.measured_s, rel=EXACT)
    assert found.predicted_s == simulate(given, plan, found.objective).makespan_s
    total = found.operators_error_s + found.links_error_s + found.schedule_error_s
    assert total == pytest.approx(found.measured_s - found.predicted_s, rel=EXACT, abs=EXACT * found.measured_s)
    for link in found.links:
        if link.waited:
            assert link.measured_s == pytest.approx(link.predicted_s * links[link.src, link.dst], rel=1e-6)
    placement = plan.placement()
    for o, error in enumerate(found.operators):
        assert error is not None
        times = [given.compute.at(given.cluster.devices[d].kind, 1)[o] for d in placement[o]]
        if sum(times):
            factors = [compute[d, o] for d in placement[o]]
            assert error.ratio == pytest.approx(
                sum(map(np.prod, zip(times, factors, strict=True))) / sum(times), rel=1e-6
            )


def pipelined(seed: int, **options: object) -> tuple[Problem, Plan] | None:
    """A random training problem with links, and a plan of it."""
    options = {"training": True, "objective": Objective.ITERATION, "transfers": Transfers.LINKS, "cpus": 0,
               "contiguity": Contiguity.NONE, "memory": math.inf, **options}  # fmt: skip
    given = random_problem(seed, 6, **options)
    try:
        return given, assemble(given, random_placement(random.Random(seed), given), 4)
    except InvalidPlan:
        return None


@pytest.mark.parametrize("seed", range(30))
def test_slow_downs_of_a_pipeline_are_found_again(seed):
    """DAGs of stages, several on a device, with gradients of inputs and parameters in one piece."""
    drawn = pipelined(seed)
    if drawn is not None:
        assert_found_again(*drawn, seed)


@pytest.mark.parametrize("seed", range(20))
def test_slow_downs_of_a_zero_bubble_pipeline_are_found_again(seed):
    drawn = pipelined(seed, pipeline=Pipeline.ZERO_BUBBLE)
    if drawn is not None:
        assert_found_again(*drawn, seed)


def replicated(seed: int) -> tuple[Problem, Plan] | None:
    """A random plan with replicas, recomputation and micro-batches of several sizes; None where replicas would
    have to share samples that cannot be split."""
    given = random_two_level_problem(seed, 6, training=True, objective=Objective.ITERATION, transfers=Transfers.LINKS,
                                     cpus=0, max_replicas=4, memory=math.inf)  # fmt: skip
    rng = random.Random(seed)
    try:
        plan = realise(given, random_draft(rng, given))
    except InvalidPlan:
        return None
    return (given, plan) if all(s.micro_batch_size % len(s.devices) == 0 for s in plan.stages) else None


@pytest.mark.parametrize("seed", range(40))
def test_slow_downs_of_replicas_are_found_again(seed):
    """All links are off by one factor here: an all-reduce ends when its slowest link is done, and tells no more."""
    drawn = replicated(seed)
    if drawn is None:
        return
    given, plan = drawn
    compute, _ = slow_downs(given, plan, seed)
    slow = slowed(given, compute, {(link.src, link.dst): 2.5 for link in given.cluster.links})
    found = compare_run(given, plan, run_of(slow, plan))
    assert found.fed_s == pytest.approx(found.measured_s, rel=EXACT)


def test_the_all_reduce_of_replicas_measures_links_that_carry_nothing_else():
    """One stage on two devices, 3 bytes of parameters on links of 1 byte/s: 2 (2 - 1)/2 of 3 bytes take 3 s, and
    measured they take 6 s."""
    given = problem(
        training_graph([], 1, param_bytes=3.0), [1, 2], 2, objective=Objective.ITERATION, mini_batch=4,
        micro_batches=2, max_replicas=2,
    )  # fmt: skip
    plan = realise(given, Draft((DraftStage((0, 1), 2, 2),)))
    assert simulate(given, plan).makespan_s == 2 * 3 + 3
    slow = slowed(given, {}, {(0, 1): 2.0, (1, 0): 2.0})
    found = compare_run(given, plan, run_of(slow, plan))
    assert (found.operators_error_s, found.links_error_s, found.schedule_error_s) == (0.0, 3.0, 0.0)
    assert [(link.how, link.measured_s, link.predicted_s) for link in found.links] == [("all-reduce", 6.0, 3.0)] * 2
    assert [(s.kind, s.measured_s, s.predicted_s) for s in found.segments] == [("F", 1, 1), ("B", 2, 2), ("S", 6, 3)]


def one_pass(seed: int, training: bool) -> tuple[Problem, Plan, list[list[int]], list[tuple[int, ...]]] | None:
    """A random pass of single operators, and the operators and stages of its segments."""
    given = random_problem(seed, 7, training=training, objective=Objective.MAKESPAN, execution=Execution.OPERATOR,
                           transfers=Transfers.LINKS, contiguity=Contiguity.NONE, cpus=0, memory=math.inf,
                           micro_batches=1)  # fmt: skip
    graph = given.graph
    try:
        plan = assemble(given, random_placement(random.Random(seed), given), 1)
        layout = lay_out(given, plan, gradients_of(graph) if training else ())
    except (InvalidPlan, RunError):
        return None
    held = [{*s.operators, *(i for i, o in enumerate(graph.operators) if o.forward_of in s.operators)}
            for s in layout.segments]  # fmt: skip
    return given, plan, [sorted(operators) for operators in held], [s.stages for s in layout.segments]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_slow_downs_of_single_operators_are_found_again(seed, training):
    """A factor for each device and phase: the segments' neighbours are joined, and stages taken apart."""
    drawn = one_pass(seed, training)
    if drawn is None:
        return
    given, plan, operators, stages = drawn
    rng = random.Random(seed)
    factor = {(d, phase): rng.uniform(0.5, 3.0) for d in range(len(given.cluster)) for phase in Phase}
    where = plan.placement()
    phase = [o.phase for o in given.graph.operators]
    slow = slowed(
        given,
        {(d, o): factor[d, phase[o]] for o, on in where.items() for d in on},
        {(link.src, link.dst): rng.uniform(0.5, 3.0) for link in given.cluster.links},
    )
    found = compare_run(given, plan, run_of(slow, plan, stages, operators))
    assert found.objective is Objective.MAKESPAN
    assert found.fed_s == pytest.approx(found.measured_s, rel=EXACT)
    for o, error in enumerate(found.operators):
        assert error is not None
        assert error.runs == 1
        assert error.ratio == pytest.approx(factor[where[o][0], phase[o]], rel=1e-6)
