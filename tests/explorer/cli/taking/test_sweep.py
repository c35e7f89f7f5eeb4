"""`sweep`, as a command."""

from __future__ import annotations

import csv
import io
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from solvers.formats.graph_json import write_graph
from solvers.planners.registry import PLANNERS
from tests.explorer.cli.command import Command, workload, write
from tests.explorer.cli.ended.test_interrupt import Endless
from tests.explorer.view.small import chain_workload

KEEPS_ONE = """
import os, signal, sys
from explorer.__main__ import main
from explorer.library.library import Library
store = Library.store
def store_and_die(*given):
    store(*given)
    os.kill(os.getpid(), signal.SIGKILL)
Library.store = store_and_die
sys.exit(main())
"""
"""The command, killed as soon as one answer is kept: however fast the others are found."""
NINETY = ",".join(map(str, range(1, 91)))


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
    arguments = ("sweep", file, "--devices", "1,2", "--planner", "equal")
    printed = command(*arguments, "--json").json
    assert [row["devices"] for row in printed] == [1, 2]
    rows = list(csv.DictReader(io.StringIO(command(*arguments, "--csv").out)))
    assert [list(row) for row in rows] == [list(row) for row in printed]
    for row, other in zip(rows, printed, strict=True):
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
        (("--devices", "2", "--planner", "equal,nobody"), "there is no planner 'nobody'"),
        (("--devices", "2", "--planner", "equal,equal"), "planner equal is given twice"),
        (
            ("--devices", NINETY, "--micro-batches", "1,2,4,8", "--planner", "equal,auto,heft"),
            "at most 1,000 points, found 1,080",
        ),
        (("--devices", "2", "--workers", "0"), "expected a number from 1 to 256, found '0'"),
        (("--devices", ",".join(map(str, range(1, 200)))), "at most 100 values"),
        (("--devices", "2", "-o", "/dev/null/x"), "no folder can be made there"),
        (("--micro-batches", "3,7", "--mini-batch", "8"), "no point of the sweep can be asked: 3 micro-batches"),
    ],
)
def test_bad_input_is_one_line(command: Command, file: Path, flags: tuple[str, ...], words: str) -> None:
    assert words in command.refused("sweep", file, *flags)


def test_several_models_and_planners_are_columns(command: Command, file: Path, tmp_path: Path) -> None:
    other = write(tmp_path, workload(maxCPUs=0), "other.json")
    folder = tmp_path / "plans"
    flags = ("--devices", "1,2", "--planner", "equal,downset-dp:work=1000,latency-dp", "--workers", 1)
    printed = command("sweep", file, other, *flags, "-o", folder, "--json").json
    assert [(Path(row["model"]).name, row["planner"], row["devices"]) for row in printed] == [
        (model, planner, devices)
        for model in ("model.json", "other.json")
        for planner in ("equal", "downset-dp:work=1000", "latency-dp")
        for devices in (1, 2)
    ]
    assert [row["status"] for row in printed][:6] == ["OPTIMAL", "FEASIBLE", *["OPTIMAL"] * 2, *["UNSUPPORTED"] * 2]
    assert len(list(folder.iterdir())) == sum(row["plan"] is not None for row in printed) == 8
    assert all(command("check", row["plan"]).status == 0 for row in printed if row["plan"])
    ran = command("sweep", file, other, *flags)
    assert ran.out.splitlines()[2].split()[:4] == ["model", "planner", "devices", "status"]
    assert "latency-dp, 1 device" in ran.out


def test_files_that_say_the_same_of_themselves_are_distinguished(command: Command, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.json", "two.json")]
    for file in files:
        file.write_text(write_graph(chain_workload()))
    printed = command("sweep", *files, "--devices", "2", "--planner", "equal", "--json").json
    assert [Path(row["model"]).name for row in printed] == ["one.json", "two.json"]


def test_the_number_of_processes_changes_nothing_that_is_printed(command: Command, file: Path) -> None:
    arguments = ("sweep", file, "--devices", "1,2", "--memory", "20B,100B", "--json")
    one, two = (command(*arguments, "--workers", count).json for count in (1, 2))
    assert [row | {"runtime_s": 0} for row in two] == [row | {"runtime_s": 0} for row in one]
    assert [row["started_from"] for row in one] == [None, None, 1, 2]


def test_a_sweep_that_was_killed_goes_on_where_it_was(command: Command, tmp_path: Path) -> None:
    node = workload()["nodes"][0]
    nodes = [{**node, "id": i, "name": f"n{i}", "fpgaLatency": 1.0 + i % 7} for i in range(40)]
    edges = [{"sourceId": i, "destId": j, "cost": 1.0} for i in range(40) for j in (i + 1, i + 5) if j < 40]
    file, library = write(tmp_path, workload(maxCPUs=0, nodes=nodes, edges=edges)), tmp_path / "plans.sqlite"
    arguments = ("sweep", file, "--devices", "2,3", "--memory", "400B,500B", "--objective", "iteration", "--effort",
             "quick")  # fmt: skip
    running = subprocess.Popen(
        [sys.executable, "-c", KEEPS_ONE, *map(str, arguments), "--workers", "2", "--library", str(library)],
        stdout=subprocess.DEVNULL, start_new_session=True, cwd=Path(__file__).parents[4],
    )  # fmt: skip
    assert running.wait() == -signal.SIGKILL
    deadline = time.monotonic() + 240
    while in_session(running.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert in_session(running.pid) == [], "none of its processes stays"
    assert count(library) == 1
    rows = command(*arguments, "--library", library, "--json").json
    assert count(library) == 4
    assert [row | {"runtime_s": 0} for row in rows] == [
        row | {"runtime_s": 0} for row in command(*arguments, "--no-library", "--json").json
    ]
    again = command(*arguments, "--library", library, "--json").json
    assert again == rows, "with the seconds of those searches"


def count(library: Path) -> int:
    """Answers that are kept."""
    if not library.exists():
        return 0
    with closing(sqlite3.connect(library, timeout=10)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])
        except sqlite3.OperationalError:  # no tables yet
            return 0


def in_session(session: int) -> list[int]:
    """Processes that are left of it."""
    processes = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            words = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            if words[0] != "Z" and int(words[3]) == session:
                processes.append(int(name))
    return processes


def test_a_model_is_given_once_and_flags_of_its_example_hold_for_all(command: Command, file: Path) -> None:
    assert "is given twice; keep one" in command.refused("sweep", file, file, "--devices", "2")
    assert "batch is for models whose example is made" in command.refused("sweep", file, "--devices", "2", "--batch", 3)


def test_help_says_how_points_combine(command: Command) -> None:
    output = " ".join(command("sweep", "--help").out.split())
    assert "Every combination is a point" in output
    assert "example: placement-explorer sweep gpt" in output
    assert output.count("--devices N,N") == 2, "in the usage and in the list, and the flag of one number is gone"


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
