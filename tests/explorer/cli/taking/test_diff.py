"""`diff`, as a command."""

from __future__ import annotations

import json
from pathlib import Path

from tests.explorer.cli.command import Command, workload, write


def test_the_same_plan_twice(command: Command, plan_file: Path) -> None:
    ran = command("diff", plan_file, plan_file)
    assert ran.status == 0
    assert "0 of 4 operators moved (0 %)" in ran.out
    assert "the plans are the same" in ran.out
    assert command("diff", plan_file, plan_file, "--json").json["same_plan"]


def test_what_moved_between_plans_of_other_devices(
    command: Command, model: Path, plan_file: Path, tmp_path: Path
) -> None:
    one = tmp_path / "one.json"
    assert command("plan", model, "--devices", 1, "--cpus", 0, "--planner", "single", "-o", one).status == 0
    ran = command("diff", plan_file, one)
    assert "2 of 4 operators moved (50 %)" in ran.out
    assert "asked      devices: 2 × accelerator + 1 × cpu, then 1 × accelerator" in ran.out
    printed = command("diff", plan_file, one, "--json").json
    assert printed["moved_operators"] == 2
    assert {number["what"] for number in printed["numbers"]} >= {"iteration", "max-load", "bytes between devices"}


def test_permuted_labels_are_reported(command: Command, plan_file: Path, tmp_path: Path) -> None:
    value = json.loads(plan_file.read_text())
    plan = value["plan"]
    for stage in plan["stages"]:
        stage["devices"] = [{0: 1, 1: 0, 2: 2}[device] for device in stage["devices"]]
    plan["order"] = [plan["order"][1], plan["order"][0], plan["order"][2]]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(value))
    ran = command("diff", plan_file, other)
    assert "0 of 4 operators moved" in ran.out
    assert "matched for most operators in common: GPU 0 is GPU 1 and GPU 1 is GPU 0" in ran.out


def test_plans_of_other_models_are_one_line(command: Command, plan_file: Path, tmp_path: Path) -> None:
    nodes = workload()["nodes"]
    nodes[0]["name"] = "other"
    other = tmp_path / "other.json"
    assert command("plan", write(tmp_path, workload(nodes=nodes), "m.json"), "-o", other).status == 0
    assert "the plans are of different graphs" in command.refused("diff", plan_file, other)
    assert "no-such" in command.refused("diff", plan_file, tmp_path / "no-such.json")
