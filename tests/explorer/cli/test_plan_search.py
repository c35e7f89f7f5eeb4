"""Options of `plan` about the search: effort, a plan to start from, the course."""

from __future__ import annotations

from pathlib import Path

from tests.explorer.cli.command import Command, workload, write


def test_a_start_is_never_lost(command: Command, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    model = write(tmp_path, workload())
    best = command("plan", model, "--devices", 2, "-o", plan, "--json").json["objective_s"]
    alone = ("plan", model, "--devices", 2, "--planner", "single", "--json")
    assert command(*alone).json["objective_s"] > best
    assert command(*alone, "--start", plan).json["objective_s"] == best
    assert command("plan", model, "--devices", 1, "--start", plan).status == 0


def test_a_start_of_another_model_is_one_line(command: Command, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert command("plan", write(tmp_path, workload()), "-o", plan).status == 0
    ran = command("plan", "gpt-small", "--start", plan)
    assert ran.status == 2
    assert "a plan of another graph" in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_a_start_that_is_no_plan_is_one_line(command: Command, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    ran = command("plan", write(tmp_path, workload()), "--start", broken)
    assert (ran.status, len(ran.err.strip().splitlines())) == (2, 1)


def test_explain_names_the_planner_of_each_improvement(command: Command) -> None:
    ran = command("plan", "gpt-small", "--devices", 2, "--effort", "quick", "--explain")
    course = ran.out.partition("\nafter ")[2].splitlines()
    assert {"single", "graph-pipeline"} <= {line.split()[2] for line in course[1:] if len(line.split()) > 2}


def test_an_effort_that_there_is_not_is_refused(command: Command) -> None:
    assert command("plan", "gpt-small", "--effort", "heroic").status == 2
