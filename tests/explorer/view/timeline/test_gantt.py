"""Bars are the schedule's spans, and never too many."""

import pytest

from explorer.view.graph.palette import THEMES
from explorer.view.timeline import bars, gantt
from solvers.evaluation.simulation import simulate
from tests.explorer.view.small import chain_problem, even_plan

PROBLEM = chain_problem()
SCHEDULE = simulate(PROBLEM, even_plan(PROBLEM))
NAMES = ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]


def test_every_span_is_a_bar_when_they_are_few():
    found = bars.bars(SCHEDULE)
    assert len(found["device"]) == len(SCHEDULE.spans)
    assert set(found["kind"]) == {"F", "B", "T"}
    assert max(found["end_s"]) == SCHEDULE.makespan_s


def test_the_limit_is_kept_and_no_time_is_lost():
    found = bars.bars(SCHEDULE, limit=30)
    assert len(found["device"]) <= 30
    assert sum(found["spans"]) == len(SCHEDULE.spans)
    assert max(found["end_s"]) == SCHEDULE.makespan_s


@pytest.mark.parametrize("theme", THEMES)
def test_the_figure_has_one_trace_per_device_and_kind_on_a_linear_axis(theme):
    drawn = gantt.figure(bars.bars(SCHEDULE), NAMES, SCHEDULE.makespan_s, theme)
    names = [trace["name"] for trace in drawn["data"]]
    assert len(names) == len(set(names))
    assert {"GPU 0 forward", "GPU 0 backward", "GPU 0 transfer"} <= set(names)
    assert drawn["layout"]["xaxis"]["type"] == "linear"
    assert drawn["layout"]["xaxis"]["ticksuffix"] == " ms"


def test_forward_is_plain_and_backward_is_hatched_with_micro_batch_numbers():
    drawn = gantt.figure(bars.bars(SCHEDULE), NAMES, SCHEDULE.makespan_s, "light")
    by_name = {trace["name"]: trace for trace in drawn["data"]}
    assert "pattern" not in by_name["GPU 0 forward"]["marker"]
    assert by_name["GPU 0 backward"]["marker"]["pattern"]["shape"] == "/"
    assert by_name["GPU 0 forward"]["text"] == list("01234567")


def test_a_filter_keeps_only_the_lanes_asked_for():
    drawn = gantt.figure(bars.bars(SCHEDULE), NAMES, SCHEDULE.makespan_s, "light", shown=[2])
    assert {trace["name"].split()[1] for trace in drawn["data"]} == {"2"}
    assert len(drawn["layout"]["yaxis"]["ticktext"]) == 1


def test_names_are_shown_literally():
    drawn = gantt.figure(bars.bars(SCHEDULE), ["<b>x", "1", "2", "3"], SCHEDULE.makespan_s, "light")
    assert "&lt;b&gt;x" in drawn["layout"]["yaxis"]["ticktext"][0]


def test_the_table_twin_tells_the_first_bars_in_time_order():
    rows = bars.table(bars.bars(SCHEDULE), NAMES, limit=2)
    assert rows[0]["what"] == "forward, stage 0, micro-batch 0"
    assert rows[0]["start"] == "0 s"
    assert len(rows) == 2
