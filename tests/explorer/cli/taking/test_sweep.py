"""`sweep`, as a command."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from solvers.planners.registry import PLANNERS
from tests.explorer.cli.command import Command, workload, write
from tests.explorer.cli.test_interrupt import Endless


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A chain of four operators of 10 bytes, without CPUs that would take any of them."""
    return write(tmp_path, workload(maxCPUs=0))


def test_a_table_with_a_row_for_every_point(command: Command, file: Path) -> None:
    ran = command("sweep", file, "--devices", "1,2", "--memory", "20B,100B", "--planner", "equal")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].endswith(": 4 points")
    assert lines[2].split()[:4] == ["devices", "cap", "status", "max-load"]
    assert [line.split()[:4] for line in lines[3:7]] == [
        ["1", "20", "B", "infeasible"], ["1", "100", "B", "optimal"],
        ["2", "20", "B", "feasible"], ["2", "100", "B", "feasible"],
    ]  # fmt: skip
    assert "1 device, 20 B: every plan needs at least 40 bytes" in ran.out


def test_json_and_csv_hold_the_same_rows(command: Command, file: Path) -> None:
    asked = ("sweep", file, "--devices", "1,2", "--planner", "equal")
    told = command(*asked, "--json").json
    assert [row["devices"] for row in told] == [1, 2]
    rows = list(csv.DictReader(io.StringIO(command(*asked, "--csv").out)))
    assert [list(row) for row in rows] == [list(row) for row in told]
    for row, other in zip(rows, told, strict=True):
        assert float(row["iteration_s"]) == other["iteration_s"]
        assert row["status"] == other["status"]


def test_every_row_with_a_plan_is_saved(command: Command, file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plans" / "today"
    ran = command(
        "sweep", file, "--devices", "1,2", "--memory", "20B,100B", "--planner", "equal", "-o", folder, "--json"
    )
    assert [row["plan"] is None for row in ran.json] == [True, False, False, False]
    assert sorted(path.name for path in folder.iterdir()) == [
        "02-1-device-100-B.json", "03-2-devices-20-B.json", "04-2-devices-100-B.json",
    ]  # fmt: skip
    for row in ran.json[1:]:
        checked = command("check", row["plan"], "--json").json
        assert checked["valid"]
        assert checked["metrics"]["iteration_s"] == row["iteration_s"]


def test_where_no_point_has_a_plan_the_status_says_why(command: Command, file: Path) -> None:
    ran = command("sweep", file, "--devices", "1,2", "--memory", "5B", "--planner", "equal")
    assert ran.status == 3
    assert ran.out.count("infeasible") == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "nothing is swept"),
        (("--devices", "1,x"), "expected whole numbers from 1, with commas between: 1,2,4; found 'x'"),
        (("--devices", "0"), "expected whole numbers from 1"),
        (("--devices", "1,,2"), "expected whole numbers from 1"),
        (("--memory", "1GiB,lots"), "expected a size such as 16GiB"),
        (("--bandwidth", "25Gbit/s"), "is in bits"),
        (("--devices", "2", "--planner", "nobody"), "there is no planner 'nobody'"),
        (("--devices", "2", "--json", "--csv"), "not allowed with argument"),
        (("--devices", ",".join(map(str, range(1, 200)))), "at most 100 values"),
        (("--devices", "2", "-o", "/dev/null/x"), "no folder can be made there"),
        (("--micro-batches", "3,7", "--mini-batch", "8"), "no point of the sweep can be asked: 3 micro-batches"),
    ],
)
def test_bad_input_is_one_line(command: Command, file: Path, flags: tuple[str, ...], words: str) -> None:
    assert words in command.refused("sweep", file, *flags)


def test_help_says_how_points_combine(command: Command) -> None:
    told = " ".join(command("sweep", "--help").out.split())
    assert "Every combination is a point" in told
    assert "example: placement-explorer sweep gpt" in told
    assert told.count("--devices N,N") == 2, "in the usage and in the list, and the flag of one number is gone"


def test_ctrl_c_prints_the_rows_that_are_there(
    command: Command, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLANNERS, "endless", Endless)
    folder = tmp_path / "plans"
    ran = command("sweep", file, "--devices", "1,2,4", "--planner", "endless", "-o", folder, "--json")
    assert ran.status == 0
    assert [(row["devices"], row["stop_reason"]) for row in ran.json] == [(1, "CANCELLED")]
    assert ran.err == "placement-explorer: stopped before 2 of 3 points\n"
    assert [path.name for path in folder.iterdir()] == ["01-1-device.json"]
    assert "feasible (cancelled)" in command("sweep", file, "--devices", "2", "--planner", "endless").out
