"""Warm-up, steady state and drain, on rows that can be counted by hand."""

import pytest

from explorer.view.plan_view import plan_view
from explorer.view.timeline import bars, gantt_rows, phases
from explorer.view.timeline.canvas import canvas
from solvers.evaluation.evaluate import evaluate
from solvers.problem.problem import Objective, Pipeline
from tests.explorer.view.small import branches_problem, chain_problem, drafted, even_plan, pair_plans
from tests.explorer.view.test_stages import HALVES, view

PROBLEM = branches_problem()
GRAPH, ROW = pair_plans(PROBLEM)


def test_a_row_warms_up_until_its_first_backward_and_drains_after_its_last_forward():
    row = [("F", 0, 1), ("F", 1, 2), ("B", 4, 6), ("F", 6, 7), ("B", 7, 9), ("B", 9, 11), ("U", 11, 11.5)]
    assert phases.row_phases(row, 12) == [4, 7, 2, 3, 4.5]


def test_gpipe_has_no_steady_state():
    row = [("F", 0, 1), ("F", 1, 2), ("B", 5, 7), ("B", 7, 9)]
    assert phases.row_phases(row, 9) == [5, 5, 2, 0, 4]


def test_split_backwards_count_as_backwards():
    row = [("F", 0, 1), ("I", 2, 3), ("F", 3, 4), ("I", 4, 5), ("W", 5, 6), ("W", 6, 7)]
    assert phases.row_phases(row, 8) == [2, 4, 1, 2, 3]


def test_without_backwards_the_pipeline_fills_and_empties():
    assert phases.row_phases([("F", 1, 2), ("F", 3, 4)], 6) == [1, 4, 0, 2, 0]
    assert phases.row_phases([], 6) == [6, 6, 0, 0, 0]


@pytest.mark.parametrize("plan", [GRAPH, ROW])
def test_idle_in_the_phases_adds_up_to_the_bubble(plan):
    shown = view(plan)
    parts = phases.summary(shown)
    assert [part["name"] for part in parts] == ["warm-up", "steady", "drain"]
    assert sum(part["share"] for part in parts) == pytest.approx(1)
    assert sum(part["idle"] for part in parts) == pytest.approx(shown["metrics"]["bubble"])


def test_a_row_of_stages_warms_up_longer_than_branches():
    (graph, *_), (row, *_) = phases.summary(view(GRAPH)), phases.summary(view(ROW))
    assert graph["share"] < row["share"]


def test_one_pass_has_no_phases():
    from dataclasses import replace

    problem = replace(PROBLEM, objective=Objective.MAKESPAN)
    shown = plan_view(problem, GRAPH, planner="x", objective_s=evaluate(problem, GRAPH).makespan_s, bound_s=0.0)
    assert phases.summary(shown) == []
    assert gantt_rows.usual_kind(shown) == "devices"
    assert all(row.phases is None for row in gantt_rows.rows_of(shown, "auto").rows)


def test_rows_are_stages_where_each_device_has_one():
    rows = gantt_rows.rows_of(view(GRAPH), "auto")
    assert rows.kind == "stages"
    assert [row.stage for row in rows.rows] == [0, 2, 4, 1, 3, 5, 6]
    assert [row.stage for row in gantt_rows.rows_of(view(ROW), "auto").rows] == list(range(7))
    assert rows.rows[0].label.startswith("0 · GPU ")
    assert gantt_rows.rows_of(view(GRAPH), "devices").kind == "devices"


def test_replicas_are_one_row_and_drawn_once():
    problem = branches_problem(devices=8)
    shown = view(drafted(problem, HALVES, replicas={0: 2}), problem)
    rows = gantt_rows.rows_of(shown, "stages")
    assert len(rows.rows) == 7
    assert len(rows.rows[0].devices) == 2
    hidden = [i for i, row in enumerate(rows.of_bar) if row == gantt_rows.HIDDEN]
    second = shown["stages"][0]["devices"][1]
    assert {shown["bars"]["device"][i] for i in hidden} == {second}


def test_glue_is_on_the_row_of_its_host():
    problem = branches_problem(devices=6)
    problem.compute.seconds["toy"][12:14] = 1e-7
    shown = view(drafted(problem, HALVES, hosts={6: 5}), problem)
    rows = gantt_rows.rows_of(shown, "auto")
    assert rows.kind == "stages"
    assert len(rows.rows) == 6
    assert rows.rows[5].label.startswith("5+6 · ")
    assert {r for r, s in zip(rows.of_bar, shown["bars"]["stage"], strict=True) if s == 6} == {5}


def test_interleaved_stages_are_rows_only_when_requested():
    problem = branches_problem(devices=7, pipeline=Pipeline.INTERLEAVED)
    shown = view(drafted(problem, HALVES, hosts={6: 5, 4: 0}), problem)
    assert gantt_rows.rows_of(shown, "auto").kind == "devices"
    assert len(gantt_rows.rows_of(shown, "stages").rows) == 7


def test_the_phases_are_bands_below_the_bars():
    shown = view(GRAPH)
    drawn = canvas([], gantt_rows.rows_of(shown, "auto"), shown["span_s"], "light")["bands"]
    assert len({band["fill"] for band in drawn}) == len(drawn) == 3
    assert all(band["path"].count("Z") == 7 for band in drawn)


def test_another_end_and_its_mark_set_the_time_scale():
    shown = view(GRAPH)
    end = shown["span_s"] * 2
    drawn = canvas([], gantt_rows.rows_of(shown, "auto"), shown["span_s"], "dark", end, ("<other>", end))
    assert drawn["axis"]["end"] == pytest.approx(end * 1.005 * 1e3)
    assert drawn["mark"] == {"at": pytest.approx(end * 1e3), "words": "<other>"}
    assert drawn["low"] > canvas([], gantt_rows.rows_of(shown, "auto"), shown["span_s"], "dark")["low"]


def test_bars_of_one_stage_stay_apart_from_those_of_another_when_they_melt():
    problem = chain_problem()
    plan = even_plan(problem)
    from solvers.evaluation.simulation import simulate

    columns = bars.bars(simulate(problem, plan), limit=12)
    assert -1 not in columns["stage"]
