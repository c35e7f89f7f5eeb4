"""What was slowed down is found again, whatever ran."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from explorer.measured import compare_run
from explorer.runner.bundles.outcome import MeasuredAction, Outcome, RunStatus
from explorer.runner.scripts.channels import gradients_of
from explorer.runner.scripts.segments import lay_out
from solvers.errors import InvalidPlan, RunError
from solvers.evaluation.simulation import simulate
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Plan
from solvers.problem.graph import Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Contiguity, Execution, Objective, Pipeline, Problem, Transfers
from solvers.schedules.assemble import assemble
from solvers.schedules.realise import realise
from tests.explorer.measured.measured_runs import run_of, slowed
from tests.instances import problem, training_graph
from tests.random_problems import random_draft, random_placement, random_problem, random_two_level_problem

EXACT = 1e-9


def slow_downs(
    given: Problem, plan: Plan, seed: int
) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]]:
    """A factor for every stage, kind of action and device, and for every link."""
    rng = random.Random(seed)
    split = any(action.kind == "I" for actions in plan.order for action in actions)
    compute = {}
    for stage in plan.stages:
        for device in stage.devices:
            factor = {phase: rng.uniform(0.5, 3.0) for phase in Phase}
            if not split:
                factor[Phase.BACKWARD_WEIGHT] = factor[Phase.BACKWARD_INPUT]
            for o in stage.operators:
                compute[device, o] = factor[given.graph.operators[o].phase]
    links = {(link.src, link.dst): rng.uniform(0.5, 3.0) for link in given.cluster.links}
    return compute, links


def assert_recovered(given: Problem, plan: Plan, seed: int, **run: object) -> None:
    """The slow-downs drawn from ``seed`` come back, and nothing is left for the schedule model."""
    compute, links = slow_downs(given, plan, seed)
    slow = slowed(given, compute, links)
    outcome = run_of(slow, plan, seed=seed, **run)  # type: ignore[arg-type]
    compared = compare_run(given, plan, outcome)
    assert compared.fed_s == pytest.approx(compared.measured_s, rel=EXACT)
    assert compared.predicted_s == simulate(given, plan, compared.objective).makespan_s
    total = compared.operators_error_s + compared.links_error_s + compared.schedule_error_s
    assert total == pytest.approx(
        compared.measured_s - compared.predicted_s, rel=EXACT, abs=EXACT * compared.measured_s
    )
    for link in compared.links:
        if link.waited:
            assert link.measured_s == pytest.approx(link.predicted_s * links[link.src, link.dst], rel=1e-6)
    placement = plan.placement()
    for o, error in enumerate(compared.operators):
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
def test_slow_downs_of_a_pipeline_are_recovered(seed):
    """DAGs of stages, several on a device, with gradients of inputs and parameters in one piece."""
    drawn = pipelined(seed)
    if drawn is not None:
        assert_recovered(*drawn, seed)


@pytest.mark.parametrize("seed", range(20))
def test_slow_downs_of_a_zero_bubble_pipeline_are_recovered(seed):
    drawn = pipelined(seed, pipeline=Pipeline.ZERO_BUBBLE)
    if drawn is not None:
        assert_recovered(*drawn, seed)


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
def test_slow_downs_of_replicas_are_recovered(seed):
    """All links are off by one factor here: an all-reduce ends when its slowest link is done, and shows no more."""
    drawn = replicated(seed)
    if drawn is None:
        return
    given, plan = drawn
    compute, _ = slow_downs(given, plan, seed)
    slow = slowed(given, compute, {(link.src, link.dst): 2.5 for link in given.cluster.links})
    compared = compare_run(given, plan, run_of(slow, plan))
    assert compared.fed_s == pytest.approx(compared.measured_s, rel=EXACT)


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
    compared = compare_run(given, plan, run_of(slow, plan))
    assert (compared.operators_error_s, compared.links_error_s, compared.schedule_error_s) == (0.0, 3.0, 0.0)
    assert [(link.how, link.measured_s, link.predicted_s) for link in compared.links] == [("all-reduce", 6.0, 3.0)] * 2
    assert [(s.kind, s.measured_s, s.predicted_s) for s in compared.segments] == [("F", 1, 1), ("B", 2, 2), ("S", 6, 3)]


def two_replicas(*actions: tuple[int, str, float, float, float]) -> tuple[Problem, Plan, Outcome]:
    """One stage on two devices with forward 1 s, backward 2 s, all-reduce 3 s and update 1 s; actions: rank, name,
    start, end and wait."""
    graph = OpGraph(
        (
            Operator("a", param_bytes=3.0),
            Operator("a'", phase=Phase.BACKWARD_INPUT, forward_of=0),
            Operator("a.U", phase=Phase.UPDATE, forward_of=0),
        ),
        (Tensor(0, (1,)), Tensor(1, (2,))),
    )
    given = problem(graph, [1, 2, 1], 2, objective=Objective.ITERATION, mini_batch=2, micro_batches=1, max_replicas=2)
    plan = realise(given, Draft((DraftStage((0, 1, 2), 2, 2),)))
    shown = tuple(MeasuredAction(rank, 0, name, start, end, wait) for rank, name, start, end, wait in actions)
    end = max(action.end_s for action in shown)
    return given, plan, Outcome(
        RunStatus.DONE, iterations_s=(end,), actions=shown, segments=((0,),), rank_devices=(0, 1)
    )  # fmt: skip


FIRST = [(0, "0F0", 0.0, 1.0, 0.0), (0, "0B0", 1.0, 3.0, 0.0), (1, "0F0", 0.0, 1.0, 0.0), (1, "0B0", 1.0, 5.0, 0.0)]
"""Device 1 is 2 s late with its backward."""


def test_an_all_reduce_that_the_update_waits_for_takes_from_the_last_to_begin_until_the_update():
    last = [(0, "0S", 3.0, 4.0, 0.0), (0, "0U", 10.0, 11.0, 6.0), (1, "0S", 5.0, 6.0, 0.0), (1, "0U", 10.0, 11.0, 4.0)]
    compared = compare_run(*two_replicas(*FIRST, *last))
    assert [s.measured_s for s in compared.segments if s.kind == "S"] == [5.0]
    assert [link.measured_s for link in compared.links] == [5.0, 5.0]
    assert (compared.predicted_s, compared.operators_fed_s, compared.fed_s, compared.measured_s) == (7, 9, 11, 11)


def test_an_update_that_began_before_the_last_replica_gave_its_part_only_waited_until_then():
    """No wait was recorded: the update of device 0 begins at 4 s, but device 1 gives its part at 6 s."""
    last = [(0, "0S", 3.0, 4.0, 0.0), (0, "0U", 4.0, 7.0, 0.0), (1, "0S", 5.0, 6.0, 0.0), (1, "0U", 6.0, 7.0, 0.0)]
    compared = compare_run(*two_replicas(*FIRST, *last))
    waited = {(s.device, s.action): (s.start_s, s.wait_s) for s in compared.spans}
    assert waited[0, "0U"] == (6.0, 2.0)
    assert [s.measured_s for s in compared.segments if s.kind == "U"] == [1.0]


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
def test_slow_downs_of_single_operators_are_recovered(seed, training):
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
    compared = compare_run(given, plan, run_of(slow, plan, stages, operators))
    assert compared.objective is Objective.MAKESPAN
    assert compared.fed_s == pytest.approx(compared.measured_s, rel=EXACT)
    for o, error in enumerate(compared.operators):
        assert error is not None
        assert error.runs == 1
        assert error.ratio == pytest.approx(factor[where[o][0], phase[o]], rel=1e-6)
