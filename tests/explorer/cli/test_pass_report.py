"""A plan of hundreds of single operators is a table of devices and one of links, not a list of stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.cli.reports.report import print_report, result_object
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import write_plan
from solvers.plan.result import Result, Status, StopReason
from tests.explorer.cli.command import Command
from tests.explorer.view.lattice import lattice_problem, operator_plan

SCREEN = 45
PROBLEM = lattice_problem(4, 10, 4, 5)
PLAN = operator_plan(PROBLEM)
SCHEDULE = simulate(PROBLEM, PLAN)
END = SCHEDULE.makespan_s
RESULT = Result(PROBLEM, PLAN, Status.FEASIBLE, StopReason.FINISHED, END, END / 2, 0.1, "hand")


def test_the_report_fits_a_screen_and_tells_devices_links_and_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    print_report("lattice", RESULT)
    output = capsys.readouterr().out
    assert len(output.splitlines()) < SCREEN
    assert "stage" not in output
    devices = [line.split()[:3] for line in output.splitlines() if line.startswith(("0 ", "1 ", "2 ", "3 "))]
    ran = [sum(s.device == d and not s.is_transfer for s in SCHEDULE.spans) for d in range(4)]
    assert [int(count.replace(",", "")) for _, _, count in devices] == ran
    links = [line for line in output.splitlines() if " → " in line and line.startswith("gpu")]
    assert len(links) == len({s.resource for s in SCHEDULE.spans if s.is_transfer})
    assert "step       " in output
    assert output.count("longest    ") == 3


def test_json_still_lists_every_stage() -> None:
    shown = result_object("lattice", RESULT)
    assert len(shown["stages"]) == len(PLAN.stages)  # type: ignore[arg-type]
    assert len(shown["placement"]) == len(PROBLEM.graph)  # type: ignore[arg-type]


def test_simulate_says_the_same_and_json_has_every_span(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(write_plan(PROBLEM, PLAN, RESULT, "lattice"), encoding="utf-8")
    output = command("simulate", path).out
    assert len(output.splitlines()) < SCREEN
    moves = sum(span.is_transfer for span in SCHEDULE.spans)
    assert f"{len(PROBLEM.graph):,} operators and {moves:,} transfers" in output
    assert "GPU" not in output
    assert len(command("simulate", path, "--json").json["spans"]) == len(SCHEDULE.spans)


def test_many_links_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    from explorer.cli.reports.pass_report import LINKS, print_pass

    problem = lattice_problem(8, 16, 8, 2)
    plan = operator_plan(problem)
    schedule = simulate(problem, plan)
    used = len({span.resource for span in schedule.spans if span.is_transfer})
    assert used > LINKS
    print_pass(problem, plan, schedule)
    assert f"... {used - LINKS} more, " in capsys.readouterr().out
