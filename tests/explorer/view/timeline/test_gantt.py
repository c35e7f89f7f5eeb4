"""Bars are the schedule's spans, and never too many."""

import pytest

from explorer.view.graph.palette import THEMES
from explorer.view.timeline import bars
from explorer.view.timeline.canvas import canvas, hover
from explorer.view.timeline.gantt_rows import Row, Rows
from explorer.view.timeline.shapes import lanes
from solvers.evaluation.simulation import simulate
from tests.explorer.view.small import chain_problem, even_plan

PROBLEM = chain_problem()
SCHEDULE = simulate(PROBLEM, even_plan(PROBLEM))
NAMES = ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]


def figure(theme="light", names=NAMES):
    columns = bars.bars(SCHEDULE)
    rows = Rows("devices", tuple(Row(name, (i,)) for i, name in enumerate(names)), tuple(columns["device"]))
    drawn = lanes(columns, rows, names, lambda i: hover(columns, i, names))
    return canvas(drawn, rows, SCHEDULE.makespan_s, theme)


def test_every_span_is_a_bar_when_they_are_few():
    columns = bars.bars(SCHEDULE)
    assert len(columns["device"]) == len(SCHEDULE.spans)
    assert set(columns["kind"]) == {"F", "B", "T"}
    assert max(columns["end_s"]) == SCHEDULE.makespan_s


def test_the_limit_is_kept_and_no_time_is_lost():
    columns = bars.bars(SCHEDULE, limit=30)
    assert len(columns["device"]) <= 30
    assert sum(columns["spans"]) == len(SCHEDULE.spans)
    assert max(columns["end_s"]) == SCHEDULE.makespan_s


@pytest.mark.parametrize("theme", THEMES)
def test_there_is_a_lane_for_each_device_and_kind_on_an_axis_in_one_unit(theme):
    drawn = figure(theme)
    names = [lane["name"] for lane in drawn["lanes"]]
    assert len(names) == len(set(names))
    assert {"GPU 0 forward", "GPU 0 backward", "GPU 0 transfer"} <= set(names)
    assert drawn["axis"]["unit"] == "ms"
    ends = [start + long for lane in drawn["lanes"] for start, long in zip(lane["from"], lane["long"], strict=True)]
    assert max(ends) == pytest.approx(SCHEDULE.makespan_s * 1e3, rel=1e-6)
    assert sum(len(lane["at"]) for lane in drawn["lanes"]) == len(SCHEDULE.spans)


def test_forward_is_plain_and_backward_is_hatched():
    by_name = {lane["name"]: lane for lane in figure()["lanes"]}
    assert "hatch" not in by_name["GPU 0 forward"]
    assert by_name["GPU 0 backward"]["hatch"]["shape"] == "/"
    assert "ink" not in by_name["GPU 0 transfer"], "no number is written on it"


def test_names_are_shown_literally():
    drawn = figure(names=["<b>x", "1", "2", "3"])
    assert drawn["lanes"][0]["words"][0].startswith("<b>&lt;b&gt;x</b> · ")


def test_the_table_twin_tells_the_first_bars_in_time_order():
    rows = bars.table(bars.bars(SCHEDULE), NAMES, limit=2)
    assert rows[0]["what"] == "forward, stage 0, micro-batch 0"
    assert rows[0]["start"] == "0 s"
    assert len(rows) == 2
