"""The time of a segment goes to its operators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.measured import compare_run
from explorer.measured.action_times import action_times
from explorer.runner.bundles.outcome import MeasuredAction, Outcome, RunStatus
from solvers.plan.plan import Action, Plan, Stage, parse_action
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from solvers.problem.problem import Contiguity, Objective, Problem
from tests.explorer.measured.measured_instances import one_operator, outcome
from tests.explorer.measured.measured_runs import run_of, slowed
from tests.instances import problem, training_graph

EXACT = 1e-9


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
    compared = compare_run(given, plan, run)
    assert [o.measured_s for o in compared.operators if o is not None] == [2, 4, 1, 3, 6, 2]
    assert compared.schedule_error_s == pytest.approx(0, abs=EXACT)
    assert [(s.stages, s.kind, s.predicted_s, s.measured_s) for s in compared.segments[:2]] == [
        ((0, 1), "F", 3, 6),
        ((0, 1), "B", 6, 9),
    ]


def test_segments_that_share_stages_are_taken_together_where_nobody_knows_their_operators():
    """A file's graph whose backward mirrors nothing cannot be laid out once more."""
    given, plan = three_stages()
    run = run_of(given, plan, [(0, 1), (2,)])
    renamed = [replace(a, action="2" + a.action[1:]) if a.action[:2] == "0B" else a for a in run.actions]
    compared = compare_run(given, plan, replace(run, actions=tuple(renamed), segments=((0, 1), (2,), (0, 1))))
    assert [o.ratio for o in compared.operators if o is not None] == [1] * 6
    assert compared.schedule_error_s == pytest.approx(0, abs=EXACT)
    assert [s.predicted_s for s in compared.segments if s.segment in (0, 2)] == [None, None]
    assert any("stages that they share are taken together" in note for note in compared.notes)


def measured_of(given: Problem, plan: Plan, run: Outcome) -> list[float]:
    return [o.measured_s for o in compare_run(given, plan, run).operators if o is not None]


def test_a_backward_in_one_piece_is_shared_out_as_predicted():
    given, plan = one_operator([1, 2, 4, 1])
    compared = compare_run(given, plan, outcome("0F0 1 0B0 12 0U 1"))
    assert [o.measured_s for o in compared.operators if o is not None] == [1, 4, 8, 1]
    assert compared.fed_s == compared.measured_s == 14


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
    compared = compare_run(given, plan, outcome("0F0 2 0B0 11 0U 1"))
    assert [o.measured_s for o in compared.operators if o is not None] == [2, 3, 6, 1]
    assert [o.runs for o in compared.operators if o is not None] == [2, 1, 1, 1]
    assert compared.fed_s == 14
    assert [s.predicted_s for s in compared.segments] == [1, 7, 1]


def test_what_was_to_take_no_time_shares_evenly():
    given, plan = one_operator([1, 0, 0, 1])
    assert measured_of(given, plan, outcome("0F0 1 0B0 12 0U 1")) == [1, 6, 6, 1]


def test_times_are_medians_over_iterations_and_means_over_micro_batches():
    """Micro-batch 0: 3, 4 and 90 s; micro-batch 1: 2 s. The iteration drawn is the one of median length."""
    given, plan = one_operator([1, 1, 1, 1], 2)
    rest = "0F1 2 0B0 1 0B1 1 0U 1"
    compared = compare_run(given, plan, outcome(f"0F0 4 {rest} | 0F0 90 {rest} | 0F0 3 {rest}"))
    assert compared.segments[0].measured_s == (4 + 2) / 2
    assert compared.measured_s == compared.drawn_s == 9
    assert compared.fastest_s == 8
    assert compared.spans[0].end_s == 4


def test_a_profile_of_operators_counts_more_than_their_share_of_a_segment():
    given, plan = one_operator([1, 2, 4, 1])
    compared = compare_run(given, plan, outcome("0F0 1 0B0 12 0U 1", operators_s={"a.W": 5.0}))
    assert [(o.measured_s, o.profiled) for o in compared.operators if o is not None] == [
        (1, False), (4, False), (5, True), (1, False),
    ]  # fmt: skip
    assert compared.fed_s == 14


def test_a_copy_that_two_stages_of_a_device_hold_keeps_its_predicted_time():
    """m (1 s) is copied into both stages of device 0, where a (2 s) and b (2 s) read it; each stage took 7 s."""
    graph = OpGraph(
        (Operator("m", replicable=True), Operator("a"), Operator("b")),
        (Tensor(0, (1, 2), Amount(0, 1)),),
    )
    given = problem(graph, [1, 2, 2], 1, objective=Objective.ITERATION, training=False, contiguity=Contiguity.NONE)
    plan = Plan((Stage((0, 1), (0,)), Stage((0, 2), (0,))), ((Action(1, "F"), Action(0, "F")),))
    run = replace(outcome("0F0 7 1F0 7"), segments=((0,), (1,)))
    compared = compare_run(given, plan, run)
    assert [o and o.measured_s for o in compared.operators] == [None, 6, 6]
    assert compared.fed_s == compared.measured_s == 14


def test_the_engines_own_time_before_an_action_counts_as_the_actions():
    outcome = Outcome(
        RunStatus.DONE,
        iterations_s=(2.0,),
        actions=(MeasuredAction(0, 0, "0F0", 0.25, 1.0, 0.0, 0.25), MeasuredAction(0, 0, "0B0", 1.5, 2.0, 0.25, 0.25)),
        segments=((0,),),
        rank_devices=(0,),
    )
    assert action_times(outcome).seconds == {(0, "F", 0): 1.0, (0, "B", 0): 0.75}
