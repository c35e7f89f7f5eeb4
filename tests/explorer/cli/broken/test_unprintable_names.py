"""No name in a file steers the terminal that it is shown on, whichever command shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from solvers.errors import printable_lines
from solvers.formats.graph_json import write_graph
from solvers.formats.msr2020 import read_msr2020
from tests.explorer.cli.command import Command, workload, write

HOSTILE = "\x1b[31m\x07\r\n\u202e\ud800\x9b2J 模型"
CLEAN = " [31m      2J 模型"


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    """A graph.json all of whose names and sentences are hostile."""
    value = json.loads(write_graph(read_msr2020(workload(), "x.json")))
    value |= {"reference": HOSTILE, "costs_from": HOSTILE, "notes": [HOSTILE]}
    value["graph"]["name"] = HOSTILE
    for one in (*value["graph"]["operators"], *value["cluster"]["devices"]):
        one["name"] += HOSTILE
    return write(tmp_path, value)


@pytest.mark.parametrize("more", [("plan",), ("trace",), ("compare",), ("sweep", "--devices", "1,2")])
def test_a_command_prints_text_only(command: Command, graph_file: Path, more: tuple[str, ...]) -> None:
    ran = command(*more, graph_file)
    assert ran.status == 0
    assert ran.out == printable_lines(ran.out)
    assert ran.err == printable_lines(ran.err)
    assert CLEAN in ran.out


def test_a_plan_holds_clean_names_and_says_them_wherever_it_goes(
    command: Command, graph_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    assert command("plan", graph_file, "-o", path).status == 0
    for name in ("simulate", "check"):
        ran = command(name, path)
        assert ran.status == 0
        assert ran.out == printable_lines(ran.out)
    assert json.loads(path.read_text())["model"]["reference"] == CLEAN


def test_a_file_s_own_name_is_shown_as_text(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path, workload(), "\x1b[2J\udcff.json")
    assert " [2J .json" in command("plan", path).out
    assert " [2J" in command.refused("plan", f"{path}x")


def test_names_that_differ_in_nothing_that_is_seen_are_refused(command: Command, tmp_path: Path) -> None:
    same = workload()
    same["nodes"][0]["name"], same["nodes"][1]["name"] = "a\x07", "a\u200b"
    assert "operator names must be unique, found 'a ' more than once" in command.refused("plan", write(tmp_path, same))
