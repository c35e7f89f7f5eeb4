"""A run laid over its prediction tells three errors apart, and finds again what was slowed down."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from explorer.measured import compare_run, comparison_object, rank_agreement, rows
from explorer.measured.action_times import action_times
from explorer.measured.links import Observed, fitted
from explorer.measured.measured_bars import measured_bars
from explorer.measured.notes import same_hardware
from explorer.measured.telling import signed_share
from explorer.runner.bundles.outcome import Agreement, Environment, MeasuredAction, MeasuredMessage, Outcome, RunStatus
from explorer.runner.scripts.channels import gradients_of
from explorer.runner.scripts.segments import lay_out
from explorer.runner.scripts.with_engine import with_engine
from solvers.errors import InvalidPlan, InvalidProblem, RunError
from solvers.evaluation.simulation import simulate
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Action, Plan, Stage, parse_action
from solvers.problem.cluster import Link
from solvers.problem.engine import EngineCosts
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Pipeline, Problem, Transfers
from solvers.schedules.assemble import assemble
from solvers.schedules.realise import realise
from tests.explorer.measured.measured_runs import run_of, slowed
from tests.instances import GPU, problem, training_graph
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


def test_a_run_is_predicted_with_the_engines_own_time_where_it_was_measured():
    """The machine takes what the engine takes, and nothing else is off; operators timed apart are set against costs
    without it."""
    given, plan = two_devices()
    costs = EngineCosts(0.25, 0.125, 0.0625, sent_s=0.5, received_s=0.25, sent_byte_s=0.125, received_byte_s=0.0625)
    knows = replace(given, engine=costs)
    outcome = run_of(with_engine(knows, plan), plan)
    found, blind = compare_run(knows, plan, outcome), compare_run(given, plan, outcome)
    assert found.error == pytest.approx(0.0, abs=EXACT)
    assert all(error.ratio == pytest.approx(1.0) for error in found.segments)
    assert any("engine's own time" in note and "11 s without" in note for note in found.notes)
    assert blind.error < -0.05
    assert not any("engine" in note for note in blind.notes)
    name = given.graph.operators[0].name
    (told,) = [
        o for o in compare_run(knows, plan, replace(outcome, operators_s={name: 1.0})).operators if o and o.profiled
    ]
    assert told.ratio == pytest.approx(1.0)


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
    later = replace(forward[1], sent_s=8.0, arrived_s=8.5)  # the first is long there, as half a second tells
    assert compare_run(given, plan, replace(run, messages=(forward[0], later, *back))).links[0].measured_s == 0.5
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
    told = tuple(MeasuredAction(rank, 0, name, start, end, wait) for rank, name, start, end, wait in actions)
    end = max(action.end_s for action in told)
    return given, plan, Outcome(
        RunStatus.DONE, iterations_s=(end,), actions=told, segments=((0,),), rank_devices=(0, 1)
    )  # fmt: skip


FIRST = [(0, "0F0", 0.0, 1.0, 0.0), (0, "0B0", 1.0, 3.0, 0.0), (1, "0F0", 0.0, 1.0, 0.0), (1, "0B0", 1.0, 5.0, 0.0)]
"""Device 1 is 2 s late with its backward."""


def test_an_all_reduce_that_the_update_waits_for_takes_from_the_last_to_begin_until_the_update():
    last = [(0, "0S", 3.0, 4.0, 0.0), (0, "0U", 10.0, 11.0, 6.0), (1, "0S", 5.0, 6.0, 0.0), (1, "0U", 10.0, 11.0, 4.0)]
    found = compare_run(*two_replicas(*FIRST, *last))
    assert [s.measured_s for s in found.segments if s.kind == "S"] == [5.0]
    assert [link.measured_s for link in found.links] == [5.0, 5.0]
    assert (found.predicted_s, found.operators_fed_s, found.fed_s, found.measured_s) == (7, 9, 11, 11)


def test_an_update_that_began_before_the_last_replica_gave_its_part_only_waited_until_then():
    """Nothing was told of waiting: the update of device 0 begins at 4 s, but device 1 gives its part at 6 s."""
    last = [(0, "0S", 3.0, 4.0, 0.0), (0, "0U", 4.0, 7.0, 0.0), (1, "0S", 5.0, 6.0, 0.0), (1, "0U", 6.0, 7.0, 0.0)]
    found = compare_run(*two_replicas(*FIRST, *last))
    waited = {(s.device, s.action): (s.start_s, s.wait_s) for s in found.spans}
    assert waited[0, "0U"] == (6.0, 2.0)
    assert [s.measured_s for s in found.segments if s.kind == "U"] == [1.0]


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


def three_stages() -> tuple[Problem, Plan]:
    """a and b as two stages on device 0, c on device 1: forward 1, 2 and 1 s a sample, backward twice that."""
    given = problem(
        training_graph([(0, 1), (1, 2)], 3, nbytes=1.0), [1, 2, 1, 2, 4, 2], 2, objective=Objective.ITERATION,
        mini_batch=2, micro_batches=2, contiguity=Contiguity.NONE,
    )  # fmt: skip
    stages = tuple(Stage((o, o + 3), (d,), 1, 2) for o, d in ((0, 0), (1, 0), (2, 1)))
    orders = ("0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1", "2F0 2B0 2F1 2B1")
    return given, Plan(stages, tuple(tuple(map(parse_action, order.split())) for order in orders), "1f1b")


def test_the_time_of_a_joined_segment_goes_to_its_stages_as_predicted():
    """Forward of the joined segment 3 s as predicted and 6 s as measured: 2 s for a, 4 s for b."""
    given, plan = three_stages()
    slow = slowed(given, {(0, o): 2.0 for o in (0, 1)} | {(0, o): 1.5 for o in (3, 4)}, {(0, 1): 2.0})
    run = run_of(slow, plan, [(0, 1), (2,)])
    assert {a.action for a in run.actions} == {f"{s}{k}{j}" for s in (0, 1) for k in "FB" for j in (0, 1)}
    found = compare_run(given, plan, run)
    assert [o.measured_s for o in found.operators if o is not None] == [2, 4, 1, 3, 6, 2]
    assert found.schedule_error_s == pytest.approx(0, abs=EXACT)
    assert [(s.stages, s.kind, s.predicted_s, s.measured_s) for s in found.segments[:2]] == [
        ((0, 1), "F", 3, 6),
        ((0, 1), "B", 6, 9),
    ]


def test_segments_that_share_stages_are_taken_together_where_nobody_knows_their_operators():
    """A file's graph whose backward mirrors nothing cannot be laid out once more."""
    given, plan = three_stages()
    run = run_of(given, plan, [(0, 1), (2,)])
    renamed = [replace(a, action="2" + a.action[1:]) if a.action[:2] == "0B" else a for a in run.actions]
    found = compare_run(given, plan, replace(run, actions=tuple(renamed), segments=((0, 1), (2,), (0, 1))))
    assert [o.ratio for o in found.operators if o is not None] == [1] * 6
    assert found.schedule_error_s == pytest.approx(0, abs=EXACT)
    assert [s.predicted_s for s in found.segments if s.segment in (0, 2)] == [None, None]
    assert any("stages that they share are taken together" in note for note in found.notes)


def one_operator(seconds: list[float], micro_batches: int = 1, **options: object) -> tuple[Problem, Plan]:
    """Forward, gradients of inputs and of parameters, and the update of one operator, on one device."""
    operators = (
        Operator("a", param_bytes=1.0),
        Operator("a.I", phase=Phase.BACKWARD_INPUT, forward_of=0),
        Operator("a.W", phase=Phase.BACKWARD_WEIGHT, forward_of=0),
        Operator("a.U", phase=Phase.UPDATE, forward_of=0),
    )
    graph = OpGraph(operators, (Tensor(0, (1, 2)), Tensor(2, (3,))))
    options = {"objective": Objective.ITERATION, "mini_batch": micro_batches, "micro_batches": micro_batches, **options}
    return problem(graph, seconds, 1, **options), Plan(
        (Stage((0, 1, 2, 3), (0,), 1, micro_batches, recompute=bool(options.get("recompute"))),),
        ((*(Action(0, k, j) for k in "FIW" for j in range(micro_batches)), Action(0, "U")),),
    )


def outcome(actions: str, lengths: tuple[float, ...] = (), **options: object) -> Outcome:
    """One rank on device 0 with one segment: "0F0 2 0B0 3 | ..." are actions with their seconds, an iteration
    after the other."""
    found: list[MeasuredAction] = []
    ends = []
    for iteration, line in enumerate(actions.split("|")):
        words = line.split()
        end = 0.0
        for name, seconds in zip(words[::2], map(float, words[1::2]), strict=True):
            found.append(MeasuredAction(0, iteration, name, end, end + seconds))
            end += seconds
        ends.append(end)
    return Outcome(RunStatus.DONE, iterations_s=lengths or tuple(ends), actions=tuple(found), segments=((0,),),
                   rank_devices=(0,), **options)  # type: ignore[arg-type]  # fmt: skip


def measured_of(given: Problem, plan: Plan, run: Outcome) -> list[float]:
    return [o.measured_s for o in compare_run(given, plan, run).operators if o is not None]


def test_a_backward_in_one_piece_is_shared_out_as_predicted():
    given, plan = one_operator([1, 2, 4, 1])
    found = compare_run(given, plan, outcome("0F0 1 0B0 12 0U 1"))
    assert [o.measured_s for o in found.operators if o is not None] == [1, 4, 8, 1]
    assert found.fed_s == found.measured_s == 14


def test_a_backward_that_ran_apart_keeps_its_parts():
    """The first stage of a run has nothing to send back: its I does nothing and its W everything."""
    given, plan = one_operator([1, 2, 4, 1])
    assert measured_of(given, plan, outcome("0F0 1 0I0 0 0W0 7 0U 1")) == [1, 0, 7, 1]


def test_a_backward_apart_for_some_micro_batches_keeps_the_shares_it_had_there():
    """I takes a quarter of I and W, of the 10 s that a backward takes on average."""
    given, plan = one_operator([1, 2, 4, 1], 2)
    assert measured_of(given, plan, outcome("0F0 1 0F1 1 0B0 12 0I1 2 0W1 6 0U 2")) == [1, 2.5, 7.5, 2]


def test_what_runs_again_is_taken_off_the_backward():
    """Forward 2 s, backward with the forward again 11 s: 9 s, a third for inputs."""
    given, plan = one_operator([1, 2, 4, 1], recompute=True)
    found = compare_run(given, plan, outcome("0F0 2 0B0 11 0U 1"))
    assert [o.measured_s for o in found.operators if o is not None] == [2, 3, 6, 1]
    assert [o.runs for o in found.operators if o is not None] == [2, 1, 1, 1]
    assert found.fed_s == 14
    assert [s.predicted_s for s in found.segments] == [1, 7, 1]


def test_what_was_to_take_no_time_shares_evenly():
    given, plan = one_operator([1, 0, 0, 1])
    assert measured_of(given, plan, outcome("0F0 1 0B0 12 0U 1")) == [1, 6, 6, 1]


def test_times_are_medians_over_iterations_and_means_over_micro_batches():
    """Micro-batch 0: 3, 4 and 90 s; micro-batch 1: 2 s. The iteration drawn is the one of median length."""
    given, plan = one_operator([1, 1, 1, 1], 2)
    rest = "0F1 2 0B0 1 0B1 1 0U 1"
    found = compare_run(given, plan, outcome(f"0F0 4 {rest} | 0F0 90 {rest} | 0F0 3 {rest}"))
    assert found.segments[0].measured_s == (4 + 2) / 2
    assert found.measured_s == found.drawn_s == 9
    assert found.fastest_s == 8
    assert found.spans[0].end_s == 4


def test_an_iteration_fed_with_its_own_times_tells_noise_from_the_model():
    """Forward and backward are slow in turn: the sum of their medians, 3 s, is less than any iteration took, but
    each of these is the sum of its own."""
    given, plan = one_operator([1, 1, 1, 1])
    lines = ("0F0 9 0B0 1 0U 1", "0F0 1 0B0 9 0U 1", "0F0 1 0B0 1 0U 9")
    found = compare_run(given, plan, outcome(" | ".join(lines)))
    assert (found.fed_s, found.measured_s) == (3, 11)
    assert found.fed_each_error == pytest.approx(0)


def test_of_many_iterations_some_are_fed_with_their_own_times():
    given, plan = one_operator([1, 1, 1, 1])
    found = compare_run(given, plan, outcome(" | ".join(["0F0 1 0B0 2 0U 1"] * 95), lengths=(5.0,) * 95))
    assert found.fed_each_error == pytest.approx(-0.2)


def test_a_profile_of_operators_counts_more_than_their_share_of_a_segment():
    given, plan = one_operator([1, 2, 4, 1])
    found = compare_run(given, plan, outcome("0F0 1 0B0 12 0U 1", operators_s={"a.W": 5.0}))
    assert [(o.measured_s, o.profiled) for o in found.operators if o is not None] == [
        (1, False), (4, False), (5, True), (1, False),
    ]  # fmt: skip
    assert found.fed_s == 14


def test_a_copy_that_two_stages_of_a_device_hold_keeps_its_predicted_time():
    """m (1 s) is copied into both stages of device 0, where a (2 s) and b (2 s) read it; each stage took 7 s."""
    graph = OpGraph(
        (Operator("m", replicable=True), Operator("a"), Operator("b")),
        (Tensor(0, (1, 2), Amount(0, 1)),),
    )
    given = problem(graph, [1, 2, 2], 1, objective=Objective.ITERATION, training=False, contiguity=Contiguity.NONE)
    plan = Plan((Stage((0, 1), (0,)), Stage((0, 2), (0,))), ((Action(1, "F"), Action(0, "F")),))
    run = replace(outcome("0F0 7 1F0 7"), segments=((0,), (1,)))
    found = compare_run(given, plan, run)
    assert [o and o.measured_s for o in found.operators] == [None, 6, 6]
    assert found.fed_s == found.measured_s == 14


def test_a_line_through_latency_and_bandwidth_is_found():
    link = Link(0, 1, 100.0, 0.5)
    seen = [Observed(1, n, 2.0 + n / 10) for n in (10, 20, 40, 80)]
    found, how = fitted(link, seen)
    assert how == "fitted"
    assert (found.latency_s, found.bandwidth_bytes_per_s) == pytest.approx((2.0, 10.0))


def test_two_latencies_of_one_message_are_counted_twice():
    seen = [Observed(k, n, 2.0 * k + n / 10) for k, n in ((1, 10), (2, 10), (1, 40), (3, 80))]
    found, _ = fitted(Link(0, 1, 100.0, 0.5), seen)
    assert (found.latency_s, found.bandwidth_bytes_per_s) == pytest.approx((2.0, 10.0))


@pytest.mark.parametrize("sizes", [(10, 20, 40), (40, 40, 40, 41, 42)])
def test_too_few_messages_or_sizes_give_the_median_ratio(sizes):
    link = Link(0, 1, 100.0, 0.5)
    ratios = [3.0] * (len(sizes) - 1) + [50.0]
    found, how = fitted(link, [Observed(1, n, r * (0.5 + n / 100)) for n, r in zip(sizes, ratios, strict=True)])
    assert how == "ratio"
    assert (found.latency_s, found.bandwidth_bytes_per_s) == pytest.approx((1.5, 100 / 3))


def test_a_link_of_which_nothing_is_known_stays():
    link = Link(0, 1, 100.0, 0.5)
    assert fitted(link, []) == (link, "")


def test_a_link_that_was_to_cost_nothing_gets_a_latency():
    found, how = fitted(Link(0, 1, math.inf), [Observed(1, 8, 3.0)])
    assert (found.latency_s, how) == (3.0, "ratio")


def test_time_that_falls_with_the_bytes_is_no_line():
    assert fitted(Link(0, 1, 1.0), [Observed(1, n, 100 / n) for n in (10, 20, 40, 80)])[1] == "ratio"


def test_messages_of_another_dtype_make_the_link_slower_and_are_told():
    """Every message carried twice its bytes in the planned time: to the plan's bytes the link is as planned."""
    given, plan = two_devices()
    run = run_of(given, plan)
    found = compare_run(given, plan, replace(run, messages=tuple(replace(m, nbytes=2) for m in run.messages)))
    assert found.links_error_s == pytest.approx(0)
    assert any("2 times the bytes" in note for note in found.notes)


def test_a_run_of_other_hardware_is_told():
    given, plan = two_devices(costs_from="roofline estimate, H100-80GB, fp32")
    cluster = replace(given.cluster, devices=tuple(replace(d, kind="H100-80GB") for d in given.cluster.devices))
    given = replace(given, cluster=cluster, compute=ComputeTable((1,), {"H100-80GB": given.compute.seconds[GPU]}))
    run = run_of(given, plan)

    def notes(hardware: str, backend: str) -> str:
        where = Environment(("h", "h"), (hardware,) * 2, backend, "2.13.0", "3.11", 1, "2026-11-21")
        return " ".join(compare_run(given, plan, replace(run, environment=where)).notes)

    assert "of other hardware" in notes("AMD EPYC 9654", "gloo")
    assert "of other hardware" in notes("NVIDIA H200", "nccl")
    assert "of other hardware" not in notes("NVIDIA H100 80GB HBM3", "nccl")


@pytest.mark.parametrize(
    ("kind", "ran", "costs_from", "same"),
    [
        ("measured-intel-r-xeon-r", "Intel(R) Xeon(R)", "measured on 2 x Intel(R) Xeon(R), fp32", True),
        ("measured-amd-epyc", "Intel(R) Xeon(R)", "measured on 2 x AMD EPYC", False),
        ("cpu", "Intel(R) Xeon(R)", "roofline estimate, cpu, fp32", False),
        ("cpu", "Intel(R) Xeon(R)", "stated in the file", True),
        ("L4-24GB", "NVIDIA L40S", "roofline estimate, L4-24GB, bf16", False),
        ("gpu", "NVIDIA L4", "given", True),
    ],
)  # fmt: skip
def test_hardware_is_told_apart_by_name(kind, ran, costs_from, same):
    assert same_hardware(kind, ran, costs_from, "gloo") is same


@pytest.mark.parametrize(
    ("noise", "word"),
    [(None, "noise unknown"), (0.01, "quiet"), (0.02, "some noise"), (0.05, "some noise"), (0.06, "noisy")],
)
def test_noise_has_a_word(noise, word):
    given, plan = two_devices()
    found = compare_run(given, plan, replace(run_of(given, plan), noise=noise))
    assert found.noise_word == word
    assert any("was noisy" in note for note in found.notes) is (word == "noisy")


def test_gradients_that_the_plan_has_apart_and_the_run_in_one_piece_are_told():
    given, plan = one_operator([1, 2, 4, 1], 2)
    told = compare_run(given, plan, outcome("0F0 1 0F1 1 0B0 6 0B1 6 0U 1")).notes
    assert any("in one piece" in note for note in told)
    given, plan = one_operator([1, 2, 4, 1])
    assert not any("in one piece" in note for note in compare_run(given, plan, outcome("0F0 1 0B0 6 0U 1")).notes)


def test_what_a_run_says_about_itself_is_kept():
    given, plan = two_devices()
    agreement = Agreement(1e-12, 2e-10, 0.0, "b.weight", "float64")
    run = replace(run_of(given, plan), agreement=agreement, losses=(1.5,), notes=("dropout was off",))
    found = compare_run(given, plan, run)
    assert (found.agreement, found.losses) == (agreement, (1.5,))
    assert found.notes[-1] == "dropout was off"


def test_a_run_without_a_measured_iteration_is_refused():
    given, plan = two_devices()
    failed = Outcome(RunStatus.FAILED, reason="rank 1 was killed")
    with pytest.raises(RunError, match=r"failed.* measured no iteration: rank 1 was killed"):
        compare_run(given, plan, failed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"segments": ((0,), (7,))}, "stages \\[7\\], but the plan has 2"),
        ({"rank_devices": (0, 9)}, "rank 1 of the run is device 9"),
        ({"rank_devices": (0, 0)}, "device 1 of the plan has no rank"),
        ({"segments": ((0,),)}, "no action of its 1 segments"),
        ({"actions": (MeasuredAction(5, 0, "0F0", 0.0, 1.0),)}, "rank 5, but has 2 ranks"),
        ({"actions": (MeasuredAction(0, 0, "0SEND0", 0.0, 1.0),)}, "is no action"),
        ({"actions": (MeasuredAction(0, 0, "hello", 0.0, 1.0),)}, "'hello' is not a step"),
        ({"messages": (MeasuredMessage(0, 0, 0, 4, 0, "", 1, 0.0, 1.0, True),)}, "message"),
    ],
)
def test_a_run_of_another_plan_is_refused(change, message):
    given, plan = two_devices()
    with pytest.raises(InvalidPlan, match=message):
        compare_run(given, plan, replace(run_of(given, plan), **change))


def test_samples_that_cannot_be_split_cannot_have_been_run():
    given = problem(training_graph([], 1), [1, 2], 2, objective=Objective.ITERATION, max_replicas=2)
    plan = realise(given, Draft((DraftStage((0, 1), 1, 2),)))
    with pytest.raises(InvalidProblem, match=r"cannot have run 0\.5 samples"):
        compare_run(given, plan, run_of(given, plan))


def test_transfers_that_a_workload_states_are_no_links():
    given, plan = two_devices(transfer_s=(1.0,) * 4)
    run = run_of(slowed(given, {(1, 1): 2.0}, {}), plan)
    found = compare_run(given, plan, run)
    assert (found.links, found.links_error_s) == ((), 0.0)
    assert found.schedule_error_s == pytest.approx(0)


def test_the_table_tells_the_errors_in_order_and_adds_up():
    given, plan = two_devices()
    slow = slowed(given, {(1, 1): 2.0, (1, 3): 2.0}, {(0, 1): 3.0})
    found = compare_run(given, plan, replace(run_of(slow, plan, more_s=1.0), noise=0.013))
    assert rows(found) == [
        ["predicted", "11 s", ""],
        ["operator costs", "+6 s", "+30 %"],
        ["links", "+2 s", "+10 %"],
        ["schedule model", "+1 s", "+5 %"],
        ["measured", "20 s", "median of 1 iteration, fastest 20 s"],
        ["prediction off by", "−9 s", "−45 %"],
        ["fed with measured times", "19 s", "−5 %"],
        ["each iteration with its own", "", "−5 %"],
        ["bubble", "45.5 % predicted", "55 % measured"],
        ["machine", "quiet", "1.3 %"],
    ]


@pytest.mark.parametrize(
    ("share", "told"), [(0.08, "+8 %"), (-0.004, "−0.4 %"), (-0.0004, "< 0.1 %"), (0.0, "0 %"), (-2.5, "−250 %")]
)
def test_a_share_has_a_sign_unless_it_is_next_to_nothing(share, told):
    assert signed_share(share) == told


def test_the_object_is_json_and_has_both_schedules():
    given, plan = two_devices()
    run = replace(
        run_of(slowed(given, {(1, 1): 2.0}, {}), plan), agreement=Agreement(math.inf, math.nan, 0, "", "float32")
    )
    told = comparison_object(compare_run(given, plan, run))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["errors"]["total"]["s"] == pytest.approx(told["measured_s"] - told["predicted_s"])
    assert len(told["bars"]["measured"]["device"]) == 8
    assert told["agreement"]["gradient"] is None
    first = {name: column[0] for name, column in told["bars"]["measured"].items()}
    assert (first["kind"], first["segment"], first["predicted_s"], first["wait_s"]) == ("F", 0, 1.0, 0.0)


@pytest.mark.parametrize("limit", [8, 7, 3, 1])
def test_of_many_bars_neighbours_melt_and_no_action_is_lost(limit):
    given, plan = two_devices()
    spans = compare_run(given, plan, run_of(given, plan)).spans
    found = measured_bars(spans, limit)
    assert len(found["device"]) <= max(limit, 2)  # one a device at least
    assert sum(found["spans"]) == len(spans) == 8
    assert sum(found["predicted_s"]) == sum(span.predicted_s for span in spans) == 12
    assert max(found["end_s"]) == 11
    if limit == 7:  # of one kind only the forwards of device 0 touch
        assert [n for n in found["spans"] if n > 1] == [2]


def test_a_ranking_is_spearmans_with_ties_averaged():
    assert rank_agreement([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_agreement([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, spreads 4.5 and 5
    assert rank_agreement([1, 2, 2, 4], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert math.isnan(rank_agreement([1, 1], [1, 2]))


@pytest.mark.parametrize("values", [([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, math.inf], [1.0, 2.0])])
def test_a_ranking_needs_two_plans_with_both_values(values):
    with pytest.raises(InvalidProblem, match="a ranking needs"):
        rank_agreement(*values)


def test_the_engines_own_time_before_an_action_counts_as_the_actions():
    outcome = Outcome(
        RunStatus.DONE,
        iterations_s=(2.0,),
        actions=(MeasuredAction(0, 0, "0F0", 0.25, 1.0, 0.0, 0.25), MeasuredAction(0, 0, "0B0", 1.5, 2.0, 0.25, 0.25)),
        segments=((0,),),
        rank_devices=(0,),
    )
    assert action_times(outcome).seconds == {(0, "F", 0): 1.0, (0, "B", 0): 0.75}
