"""Intervals of estimated times: they hold what held-out kernels say, and only where times are estimated."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.costs import DEVICES
from explorer.costs.curves import curves
from explorer.costs.efficiency import WorkClass
from explorer.costs.interval import distinguishable, interval, kernels, residual
from solvers.plan.result import Result
from tests.explorer.tracing.models import shipped


@pytest.fixture(scope="module")
def planned() -> dict[str, Result]:
    graph = explorer.trace("gpt-small", dtype="bf16")
    return {
        name: explorer.plan(graph, devices=2, device_kind="A100-80GB", planner=name, mini_batch=16, micro_batches=4)
        for name in ("equal", "single")
    }


def test_an_interval_holds_the_prediction_and_scales_with_it(planned: dict[str, Result]) -> None:
    result = planned["equal"]
    assert result.plan is not None
    within = interval(result.problem, result.plan, result.objective_s)
    assert within is not None
    assert within.low_s < result.objective_s < within.high_s
    twice = interval(result.problem, result.plan, 2 * result.objective_s)
    assert twice == pytest.approx((2 * within.low_s, 2 * within.high_s))


def test_an_interval_is_within_that_of_its_widest_class(planned: dict[str, Result]) -> None:
    result = planned["equal"]
    assert result.plan is not None
    within = interval(result.problem, result.plan, 1.0)
    assert within is not None
    classes = {kernel.work for one in kernels(result.problem, result.plan).values() for kernel in one}
    off = [residual(DEVICES["A100-80GB"], "bf16", work) for work in classes]
    assert within.low_s >= min(1 / one.high for one in off if one is not None)
    assert within.high_s <= max(1 / one.low for one in off if one is not None)


def test_kernels_of_a_plan_take_what_its_operators_take(planned: dict[str, Result]) -> None:
    result = planned["single"]
    assert result.plan is not None
    (on_device,) = kernels(result.problem, result.plan).values()
    assert sum(on_device.values()) == pytest.approx(result.objective_s, rel=0.01)


def test_residuals_are_those_of_the_table_or_of_shares_and_unknown_of_cpus() -> None:
    a100 = DEVICES["A100-80GB"]
    assert residual(a100, "bf16", WorkClass.PRODUCTS) is curves().by_class["A100-80GB", WorkClass.PRODUCTS].held_out
    in_fp32, attention = (residual(a100, "fp32", work) for work in (WorkClass.PRODUCTS, WorkClass.ATTENTION))
    assert in_fp32 is not None
    assert attention is not None
    assert in_fp32.median < 1.0
    assert in_fp32.high - in_fp32.low > 0.4  # nothing in fp32 was measured
    assert residual(DEVICES["cpu"], "fp32", WorkClass.PRODUCTS) is None


def test_times_that_are_not_estimated_have_no_interval(planned: dict[str, Result]) -> None:
    result = planned["equal"]
    assert result.plan is not None
    measured = replace(result.problem, costs_from="measured on 2 x toy")
    assert interval(measured, result.plan, 1.0) is None
    assert distinguishable(measured, result.plan, result.plan, 1.0, 2.0) is None
    cpus = explorer.plan(shipped("gpt-small"), devices=2, device_kind="cpu-core", planner="equal", memory="1TiB")
    assert cpus.plan is not None
    assert interval(cpus.problem, cpus.plan, 1.0) is None


def test_plans_that_run_the_same_kernels_are_distinguished_by_any_difference(planned: dict[str, Result]) -> None:
    """What both do alike is off alike; what only one does is off by itself."""
    first, second = planned["equal"], planned["single"]
    problem = first.problem
    assert first.plan is not None
    assert second.plan is not None
    assert distinguishable(problem, first.plan, second.plan, first.objective_s, second.objective_s)
    assert distinguishable(problem, first.plan, first.plan, 1.0, 2.0)
    assert not distinguishable(problem, first.plan, first.plan, 1.0, 1.0)
    stages = tuple(replace(stage, micro_batch_size=2 * stage.micro_batch_size) for stage in first.plan.stages)
    coarser = replace(first.plan, stages=stages)
    assert not distinguishable(problem, first.plan, coarser, 1.0, 1.01)


def test_a_report_tells_between_which_times_a_plan_may_lie(
    planned: dict[str, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    from explorer.cli.reports.report import print_report, result_object
    from explorer.reviews.review import review

    result = planned["equal"]
    assert result.plan is not None
    within = interval(result.problem, result.plan, result.objective_s)
    assert within is not None
    assert result_object("gpt-small", result)["interval_s"] == list(within)
    print_report("gpt-small", result)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("objective"))
    assert f", {within.words()}  iteration" in line
    lines = review(result.problem, result.plan, result).lines
    (compute,) = (line for line in lines if line.what == "compute times")
    assert within.words() in compute.reason


def test_tables_lines_and_rows_tell_it_too(planned: dict[str, Result], capsys: pytest.CaptureFixture[str]) -> None:
    from explorer.cli.reports.sweep_report import print_sweep, row_objects
    from explorer.notebook.values import result_line
    from explorer.sweeps.answers import Sweep
    from explorer.sweeps.points import Point
    from explorer.sweeps.sweep import Row
    from explorer.view.comparison import cells, ranked, result_row
    from solvers.evaluation.evaluate import evaluate

    result = planned["equal"]
    assert result.plan is not None
    within = interval(result.problem, result.plan, result.objective_s)
    assert within is not None
    metrics = evaluate(result.problem, result.plan)
    rows = [Row(Point(2), result, metrics, "FEASIBLE"), Row(Point(64))]
    print_sweep("gpt-small", rows)
    table = capsys.readouterr().out.splitlines()
    assert "within" in table[2]
    assert within.words() in table[3]
    shown = row_objects(rows, (None, None))
    assert [(row["low_s"], row["high_s"]) for row in shown] == [tuple(within), (None, None)]
    assert f", {within.words()} iteration" in result_line(result)
    assert within.words() in str(Sweep(rows))
    (cell,) = cells(ranked([result_row("equal", "heuristic", "", result, metrics)]))
    assert cell["within"] == within.words()


def test_a_run_beside_its_prediction_tells_it_too(planned: dict[str, Result]) -> None:
    from explorer.measured import compare_run, comparison_object
    from explorer.measured.reporting import rows
    from explorer.view.measured_panel import panel
    from tests.explorer.measured.measured_runs import run_of

    result = planned["equal"]
    assert result.plan is not None
    compared = compare_run(result.problem, result.plan, run_of(result.problem, result.plan))
    assert compared.within == interval(result.problem, result.plan, compared.predicted_s)
    assert compared.within is not None
    assert rows(compared)[0][2] == compared.within.words()
    shown = panel(comparison_object(compared), [device.name for device in result.problem.cluster.devices])
    assert any(compared.within.words() in figure["note"] for figure in shown["kpis"])


def test_a_comparison_names_those_that_are_not_distinguished_from_the_best(
    planned: dict[str, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    from explorer.cli.reports.comparison_report import comparison_list, print_comparison
    from explorer.jobs.comparison import compare, entries
    from explorer.view.comparison import ranked, table
    from explorer.web.parts.comparison_panel import comparison_table

    first = planned["equal"]
    coarser = explorer.plan(
        explorer.trace("gpt-small", dtype="bf16"), devices=2, device_kind="A100-80GB", planner="equal", mini_batch=16,
        micro_batches=2,
    )  # fmt: skip
    coarser = replace(coarser, objective_s=1.01 * first.objective_s)
    problem = replace(first.problem, micro_batches=None)
    given = iter((coarser, first, planned["single"]))
    done = list(compare(entries(problem, ("pipedream", "equal", "single")), solver=lambda *_, **__: next(given)))
    rows = [one.row for one in done]
    assert [row.alike for row in rows] == [(), ("pipedream",), ()]
    assert {one.row.planner: one.distinct for one in ranked(rows)} == {
        "equal": None,
        "pipedream": False,
        "single": True,
    }
    result = comparison_list("gpt-small", problem, done)
    assert [row["told_apart_from_best"] for row in result] == [None, False, True]
    print_comparison("gpt-small", problem, done, 1.0)
    assert "alike  pipedream: not distinguished from the best" in capsys.readouterr().out
    shown = [row | {"can_show": True} for row in table(rows, None)]
    assert str(comparison_table(shown, [], "iteration", False)).count("'alike'") == 1
