"""`check` with its review and `export`, as commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.exports.formats import FORMATS
from solvers.formats.plan_json import write_plan
from tests.explorer.cli.command import Command
from tests.explorer.exports.planned import planned


def test_check_prints_a_line_for_every_question(command: Command, plan_file: Path) -> None:
    ran = command("check", plan_file)
    assert ran.status == 0
    whats = {line[6:].split("  ")[0] for line in ran.out.splitlines() if line[:4] in ("pass", "warn", "fail")}
    assert whats >= {"rules", "operators placed", "bytes held", "memory GPU 0", "no deadlock", "largest transfers",
                     "balance", "distance to the best", "compute times", "plan hash"}  # fmt: skip


def test_check_tells_the_review_as_json(command: Command, plan_file: Path) -> None:
    printed = command("check", plan_file, "--json").json
    assert printed["valid"]
    assert printed["review"]["verdict"] == "warn"
    assert {line["what"] for line in printed["review"]["lines"]} >= {"rules", "plan hash"}


def test_check_says_why_an_operator_is_where_it_is(command: Command, plan_file: Path) -> None:
    names = [each["name"] for each in json.loads(plan_file.read_text())["graph"]["operators"]]
    ran = command("check", plan_file, "--why-here", names[0])
    assert ran.status == 0
    table = ran.out[ran.out.index("why here: ") :]
    assert "here" in table
    assert "GPU 0" in table
    printed = command("check", plan_file, "--why-here", names[0], "--json").json["why_here"]
    assert [move["delta_s"] for move in printed["moves"] if move["devices"] == [0]] == [0.0]
    refused = command("check", plan_file, "--why-here", "no such thing")
    assert refused.status == 2
    assert refused.err.count("\n") == 1


def test_a_report_is_written_of_a_good_plan_and_of_a_bad_one(command: Command, plan_file: Path, tmp_path: Path) -> None:
    report = tmp_path / "review.html"
    assert command("check", plan_file, "--report", report).status == 0
    good = report.read_text()
    assert good.count("<svg") == 3
    value = json.loads(plan_file.read_text())
    for device in value["problem"]["cluster"]["devices"]:
        device["memory_bytes"] = 1.0
    plan_file.write_text(json.dumps(value))
    ran = command("check", plan_file, "--report", report)
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert "too much" in ran.out
    assert "The plan cannot be used as it is" in report.read_text()


def test_a_report_where_nothing_can_be_written_is_one_line(command: Command, plan_file: Path) -> None:
    assert "there is no folder" in command.refused("check", plan_file, "--report", "/nowhere/at/all.html")


@pytest.mark.parametrize(
    "name", [name for name, one in FORMATS.items() if not one.launches and not name.endswith("png")]
)
def test_export_writes_every_format(command: Command, plan_file: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / f"out{FORMATS[name].ending}"
    ran = command("export", plan_file, "--to", name, "-o", out)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == f"written    {out}\n"
    assert out.stat().st_size > 100


def test_what_a_launcher_cannot_represent_is_refused_or_moved_and_reported(command: Command, tmp_path: Path) -> None:
    plan, out = tmp_path / "cut.json", tmp_path / "out.sh"
    file = planned("gpt-small", ["blocks.2/add"])
    plan.write_text(write_plan(file.problem, file.plan, None, file.reference))
    refusal = command.refused("export", plan, "--to", "megatron", "-o", out)
    assert refusal.startswith("the module blocks.2 is cut: 4 operators in stage 0, 6 operators in stage 1")
    assert not out.exists()
    ran = command("export", plan, "--to", "megatron", "--nearest", "-o", out)
    assert (ran.status, ran.err) == (0, "")
    assert "changed    blocks.2 is whole in stage 1" in ran.out
    assert "changed    predicted iteration, snapped to module boundaries: " in ran.out
    assert "not said   the model" in ran.out
    assert '--pipeline-model-parallel-layout "Ett|ttL"' in out.read_text()
    assert "nearest is for launchers" in command.refused("export", plan, "--to", "plan", "--nearest", "-o", out)


def test_every_launcher_refuses_a_plan_without_modules(command: Command, plan_file: Path, tmp_path: Path) -> None:
    for name, one in FORMATS.items():
        if one.launches and name != "torch-actions":
            refusal = command.refused("export", plan_file, "--to", name, "-o", tmp_path / "out")
            assert len(refusal) > 30
            assert not (tmp_path / "out").exists()


def test_export_of_what_breaks_a_rule_is_refused(command: Command, plan_file: Path, tmp_path: Path) -> None:
    value = json.loads(plan_file.read_text())
    for device in value["problem"]["cluster"]["devices"]:
        device["memory_bytes"] = 1.0
    plan_file.write_text(json.dumps(value))
    out = tmp_path / "out.svg"
    assert "breaks a rule" in command.refused("export", plan_file, "--to", "gantt-svg", "-o", out)
    assert not out.exists()


def test_bad_input_to_export_is_one_line(command: Command, plan_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "invalid choice: 'pdf'" in command.refused("export", plan_file, "--to", "pdf", "-o", out)
    assert "-o/--output" in command.refused("export", plan_file, "--to", "plan")
    assert "no-such.json" in command.refused("export", tmp_path / "no-such.json", "--to", "plan", "-o", out)
