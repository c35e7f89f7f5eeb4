"""Many devices that do the same have one row: in a view, a report, a picture and on the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from explorer.cli.reports.report import print_report, result_object
from explorer.cli.schedule import _print_schedule, _schedule_object
from explorer.reviews.review import Verdict, review, view_of
from explorer.view.folded import class_name, folded, numbers_words
from explorer.view.graph.inspect import device_facts
from explorer.view.graph.stage_boxes import stage_facts
from explorer.view.pictures.gantt import gantt_picture
from explorer.view.plan_view import plan_view
from explorer.view.timeline.charts import device_rows, link_rows
from explorer.view.timeline.sentence import sentence
from explorer.view.timeline.why import explain
from solvers.evaluation.evaluate import evaluate
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import PlanFile
from solvers.plan.result import Result, Status, StopReason
from tests.solvers.plan.test_alike import many


@pytest.fixture(scope="module")
def result() -> Result:
    problem, plan = many(chain=True)
    seconds = evaluate(problem, plan).iteration_s
    return Result(problem, plan, Status.FEASIBLE, StopReason.FINISHED, seconds, 0.0, 1.0, "auto")


@pytest.fixture(scope="module")
def view(result: Result) -> dict:
    return view_of(result.problem, result.plan, result)


def test_devices_that_do_the_same_are_one(result: Result, view: dict) -> None:
    assert len(result.problem.cluster) == 128
    assert [expected["name"] for expected in view["devices"]] == [f"GPU {i} ×16" for i in range(8)]
    assert view["devices"][1]["alike"] == "1, 9, 17, … (16 in all)"
    assert [stage["devices"] for stage in view["stages"]] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert len(view["memory"]) == len(view["busy_s"]) == len(view["metrics"]["load_s"]) == 8
    metrics = evaluate(result.problem, result.plan)
    assert view["span_s"] == pytest.approx(metrics.iteration_s)
    assert [curve["peak_bytes"] for curve in view["memory"]] == list(metrics.peak_memory_bytes[:8])
    assert {use["resource"] for use in view["links"]} >= {"0->1", "node0->node1"}
    json.dumps(view, allow_nan=False)


def test_what_is_drawn_and_stated_counts_all(result: Result, view: dict) -> None:
    assert device_rows(view)[0]["name"] == "GPU 0 ×16 (0, 8, 16, … (16 in all), alike)"
    assert ("Alike", "0, 8, 16, … (16 in all)") in device_facts(0, view).rows
    assert any(words.endswith("(×64)") for _, words in stage_facts(0, view).rows)
    assert "GPU 7 ×16" in gantt_picture(view, rows="devices").svg()
    assert link_rows(view)
    assert " pass 128 devices: " in sentence(view)
    assert "is the bottleneck of 128 devices" in explain(view)["headline"]


def test_a_review_holds_and_says_it_by_class(result: Result) -> None:
    findings = review(result.problem, result.plan, result)
    assert findings.broken == ()
    assert not [line for line in findings.lines if line.verdict is Verdict.FAIL]
    assert "memory GPU 7 ×16" in [line.what for line in findings.lines]
    assert findings.view is not None
    assert len(findings.view["devices"]) == 8


def test_the_command_line_has_a_row_for_equal_devices(result: Result, capsys: pytest.CaptureFixture) -> None:
    print_report("chain", result)
    rows = [line for line in capsys.readouterr().out.splitlines() if " gpu  " in line]
    assert [row.partition(" gpu")[0] for row in rows] == [
        "0, 2, 4, … (48 in all)", "1, 3, 5, … (48 in all)", "6, 14, 22, … (16 in all)", "7, 15, 23, … (16 in all)",
    ]  # fmt: skip
    assert result_object("chain", result)["stages"][0]["devices"][:2] == [0, 2]
    file = PlanFile(result.problem, result.plan, None, "chain")
    schedule = simulate(result.problem, result.plan)
    _print_schedule(file, schedule)
    assert "0 GPU 0, and 8, 16, 24, … (15 in all) alike: busy" in capsys.readouterr().out
    assert _schedule_object(file, schedule)["alike"][0][0] == 0


def test_few_devices_are_as_they_were(result: Result) -> None:
    problem, plan = many(nodes=2)
    shown = folded(problem, plan, simulate(problem, plan))
    assert shown.problem is problem
    assert shown.plan is plan
    assert shown.every == tuple((device,) for device in range(16))
    assert [
        drawing["name"] for drawing in plan_view(problem, plan, planner="", objective_s=1, bound_s=0)["devices"]
    ] == [f"GPU {i}" for i in range(16)]


def test_devices_that_do_nothing_are_one_too() -> None:
    problem, plan = many(chain=True)
    schedule = simulate(problem, plan)
    some = replace(schedule, alike=tuple(same[:8] for same in schedule.alike))
    shown = folded(problem, plan, some)
    assert len(shown.every) == 9
    assert shown.every[8] == tuple(range(64, 128))


@pytest.mark.parametrize(
    ("numbers", "name", "words"),
    [([3], "GPU 3", "3"), (range(128), "GPU 0-127", "0-127"), ([0, 64], "GPU 0 ×2", "0, 64")],
)
def test_names_of_devices_that_do_the_same(numbers: list[int], name: str, words: str) -> None:
    assert class_name("H100-80GB", numbers, 1_000) == name
    assert numbers_words(numbers) == words
