"""``calibrate --write-times`` keeps what operators took, and ``plan --times`` plans any model with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.costs.times.library_json import load_library, write_library
from tests.explorer.cli.command import Command
from tests.explorer.costs.times.libraries import library_of_linear

QUICK = ("--planner", "single", "--mini-batch", 4, "--micro-batches", 1)


@pytest.mark.slow
def test_what_is_measured_of_one_model_plans_another(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path / "home"))
    file, plan = tmp_path / "times.json", tmp_path / "plan.json"
    measure = ("calibrate", "--devices", 1, "--samples", "1,4", "--budget", 0.3, "--no-pin", "--write-times", file)
    ran = command(*measure, "gpt-small")
    assert (ran.status, ran.err) == (0, "")
    first = load_library(str(file))
    assert [source.reference for source in first.sources] == ["gpt-small"]
    own = command("plan", "gpt-small", "--times", file, *QUICK, "--json")
    assert own.json["costs_share"] == {"measured": pytest.approx(1), "interpolated": 0, "estimated": 0}
    other = command("plan", "bert-small", "--times", file, *QUICK, "-o", plan)
    assert (other.status, other.err) == (0, "")
    assert "costs      operator times of " in other.out
    assert "% of the time measured" in other.out
    checked = command("check", plan)
    assert "of the time measured, " in checked.out
    page = tmp_path / "report.html"
    assert command("check", plan, "--report", page).err == ""
    assert "of the time measured, " in page.read_text()
    again = command(*measure, "gpt-small", "--json")
    assert again.status == 0
    both = load_library(str(file))
    assert len(both.sources) == 2
    assert {time.call for time in both.times} == {time.call for time in first.times}
    assert sum(time.count for time in both.times) == 2 * sum(time.count for time in first.times)


def test_files_that_are_none_and_times_that_do_not_fit_are_one_line(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text(write_library(library_of_linear(hardware="NVIDIA H200")))
    assert "devices are H100-80GB" in command.refused(
        "plan", "gpt-small", "--times", file, "--device-kind", "H100-80GB"
    )
    assert "two files hold" in command.refused("plan", "gpt-small", "--times", file, "--times", file,
                                               "--device-kind", "H200-141GB")  # fmt: skip
    assert "and it is in bf16" in command.refused("plan", "gpt-small", "--times", file, "--dtype", "bf16")
    assert "no such file" in command.refused("plan", "gpt-small", "--times", tmp_path / "none.json")
    file.write_text(json.dumps({"format": "placement-explorer/profile", "version": 1}))
    assert str(file) in command.refused("plan", "gpt-small", "--times", file)
    # Nothing is measured for a file that could not be added to.
    assert str(file) in command.refused("calibrate", "gpt-small", "--write-times", file)


def test_times_of_what_states_its_own_are_refused(command: Command, tmp_path: Path) -> None:
    from tests.explorer.cli.command import workload

    file, msr = tmp_path / "times.json", tmp_path / "msr.json"
    file.write_text(write_library(library_of_linear()))
    msr.write_text(json.dumps(workload()))
    assert "states its own compute times" in command.refused("plan", msr, "--times", file)
