"""What was found is known afterwards, and ``plans`` shows, exports and removes it."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from pathlib import Path

import pytest

from explorer.cli import make_parser
from explorer.cli.terminal.keeping import declare_library
from explorer.library import question_key, rows
from explorer.library.made_by import versions
from solvers.formats.json_text import dump_json
from solvers.formats.plan_json import read_plan
from tests.explorer.cli.command import SEEN, Command, workload, write

KNOWN = re.compile(r"cached result of \d{4}-\d\d-\d\d, the search took [\d.]+ .?s")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "library" / "plans.sqlite"
    monkeypatch.setenv("PLACEMENT_EXPLORER_LIBRARY", str(path))
    return path


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever searches from here on fails."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a search, where the answer is known")

    monkeypatch.setattr("solvers.planners.auto.Auto.__call__", refuse)
    monkeypatch.setattr("solvers.planners.baselines.EqualSplit.__call__", refuse)


def test_the_same_question_is_answered_from_the_library(
    command: Command, model: Path, library: Path, request: pytest.FixtureRequest
) -> None:
    first = command("plan", model, "--json").json
    assert not any(KNOWN.search(note) for note in first["notes"])
    request.getfixturevalue("never")
    second = command("plan", model, "--json").json
    assert [note for note in second["notes"] if not KNOWN.fullmatch(note)] == first["notes"]
    assert len(second["notes"]) == len(first["notes"]) + 1
    for key in ("status", "objective_s", "bound_s", "placement", "stages", "metrics", "runtime_s", "front"):
        assert second[key] == first[key], key
    assert KNOWN.search(command("plan", model).out)
    assert command("plan", model, "--explain").status == 0


def test_fresh_and_no_library_search(command: Command, model: Path, library: Path, never: None) -> None:
    for how in ("--fresh", "--no-library"):
        with pytest.raises(AssertionError, match="where the answer is known"):
            command("plan", model, how)


def test_without_a_library_no_file_is_made(command: Command, model: Path, library: Path) -> None:
    assert command("plan", model, "--no-library").status == 0
    assert not library.exists()


def test_a_library_is_named_by_a_flag(command: Command, model: Path, library: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    assert command("plan", model, "--library", other).status == 0
    assert other.exists()
    assert not library.exists()
    assert len(command("plans", "--library", other, "--json").json) == 1
    assert len(command("plans", "--library", other, "list", "--json").json) == 1
    assert command("plans", "list", "--json").json == []
    assert "not allowed with" in command.refused("plan", model, "--library", other, "--no-library")


@pytest.mark.parametrize(
    ("flags", "message"), [([], None), (["--no-library"], "off"), (["--library", "/a/b.sqlite"], "/a/b.sqlite")]
)
def test_the_page_and_its_workers_use_the_library_that_is_named(
    library: Path, flags: list[str], message: str | None
) -> None:
    declare_library(make_parser().parse_args(["app", *flags]))
    assert os.environ["PLACEMENT_EXPLORER_LIBRARY"] == (message or str(library))


def test_a_comparison_gives_the_cached_plan_and_says_so(command: Command, model: Path, library: Path) -> None:
    command("plan", model, "--planner", "equal", "--time-limit", 10)
    ran = command("compare", model, "--planners", "equal,single")
    assert "known before, and not searched again: equal (--fresh searches)" in ran.out
    again = command("compare", model, "--planners", "equal,single")
    assert "not searched again: " in again.out
    assert {one["planner"] for one in command("plans", "--json").json} == {"equal", "single"}
    assert "known before" not in command("compare", model, "--planners", "equal,single", "--fresh").out


def test_what_fits_nothing_is_known_too(command: Command, library: Path, tmp_path: Path) -> None:
    small = write(tmp_path, workload(maxSizePerFPGA=5.0, maxCPUs=0))
    assert command("plan", small).status == 3
    printed = command("plan", small)
    assert printed.status == 3
    assert KNOWN.search(printed.out)
    *ways_out, one = command("plans", "--json").json  # the newest first; what was tried as a remedy is cached, too
    assert len({row["question"] for row in (one, *ways_out)}) == 1 + len(ways_out)
    assert one["status"] == "INFEASIBLE"
    assert one["objective_s"] is None
    assert command("plans", "show", one["question"]).status == 0
    refused = command.refused("plans", "export", one["question"], "-o", tmp_path / "no.json")
    assert refused.endswith("is INFEASIBLE: there is no plan to write")


def test_plans_lists_by_model_planner_and_devices(command: Command, model: Path, library: Path, tmp_path: Path) -> None:
    other = write(tmp_path, workload(), "another.json")
    command("plan", model, "--planner", "equal")
    command("plan", model, "--planner", "single")
    command("plan", other, "--planner", "equal", "--devices", 3)

    def count(*flags: object) -> int:
        return len(command("plans", *flags, "--json").json)

    assert count() == 3
    assert count("--planner", "equal") == 2
    assert count("list", "--planner", "single") == 1
    assert count("--devices", 3) == 1
    assert count("--model", "*another*") == 1
    assert count("--model", "gpt") == 0
    assert count("--limit", 2) == 2
    listed = command("plans", "list", "--limit", 1).out
    assert "2 more with --limit 3" in listed
    assert command("plans", "--model", "gpt").out.startswith("no such answer is kept in ")


def test_a_plan_is_exported_as_a_file_that_holds(command: Command, model: Path, library: Path, tmp_path: Path) -> None:
    command("plan", model, "-o", tmp_path / "first.json")
    (one,) = command("plans", "--json").json
    out = tmp_path / "plan.json"
    assert command("plans", "export", one["question"][:8], "-o", out).status == 0
    assert command("check", out).status == 0
    exported, first = read_plan(out.read_bytes()), read_plan((tmp_path / "first.json").read_bytes())
    assert exported.plan == first.plan
    assert exported.reference == first.reference
    assert exported.result is not None
    assert exported.result.bound_s == first.result.bound_s


def test_show_prints_what_plan_did(command: Command, model: Path, library: Path) -> None:
    output = command("plan", model).out.splitlines()
    (one,) = command("plans", "--json").json
    shown = command("plans", "show", one["question"]).out.splitlines()
    assert shown[0].split()[1] == one["question"]
    assert "placement-explorer" in shown[1]
    assert shown[2:] == output


def test_a_hash_that_names_nothing_is_refused(command: Command, model: Path, library: Path) -> None:
    assert "there is no library of plans at" in command.refused("plans", "show", "abcdef")
    command("plan", model)
    assert "no question begins with abcdef" in command.refused("plans", "show", "abcdef")
    assert "at least 4 of its digits" in command.refused("plans", "show", "xyz")
    assert "at least 4 of its digits" in command.refused("plans", "remove", "%")


def test_answers_are_removed(command: Command, model: Path, library: Path) -> None:
    command("plan", model, "--planner", "equal")
    command("plan", model, "--planner", "single")
    one = command("plans", "--json").json[0]
    assert command("plans", "remove", one["question"][:10], one["question"]).out == "removed    1 answer\n"
    assert [each["question"] == one["question"] for each in command("plans", "--json").json] == [False]


def test_old_answers_go(command: Command, model: Path, library: Path) -> None:
    command("plan", model, "--planner", "equal")
    command("plan", model, "--planner", "single")
    with sqlite3.connect(library) as file:
        file.execute("UPDATE answers SET kept_at = '2020-01-01T00:00:00Z' WHERE planner = 'equal'")
    file.close()
    assert command("plans", "prune", "--older-than", "90d", "--json").json == {"removed": 1}
    assert [one["planner"] for one in command("plans", "--json").json] == ["single"]
    assert "say what is to go" in command.refused("plans", "prune")
    assert "expected an age as 90d" in command.refused("plans", "prune", "--older-than", "soon")


def test_answers_of_other_code_are_never_given_and_can_go(
    command: Command, model: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as then:
        for module in (question_key, rows):
            then.setattr(module, "versions", lambda: {**versions(), "solvers": "0123456789abcdef"})
        command("plan", model, "--planner", "equal")
    assert not KNOWN.search(command("plan", model, "--planner", "equal").out)
    assert sorted(one["current"] for one in command("plans", "--json").json) == [False, True]
    assert "* of other code" in command("plans").out
    assert command("plans", "size", "--json").json["other"] == 1
    assert command("plans", "prune", "--other-code").out == "removed    1 answer\n"
    assert [one["current"] for one in command("plans", "--json").json] == [True]


def test_size_is_that_of_the_file(command: Command, model: Path, library: Path) -> None:
    assert "nothing is kept yet" in command("plans", "size").out
    command("plan", model, "--planner", "equal")
    printed = command("plans", "size", "--json").json
    assert (printed["answers"], printed["graphs"], printed["path"]) == (1, 1, str(library))
    assert printed["nbytes"] >= library.stat().st_size > 0


def test_a_library_that_is_none_costs_no_plan(command: Command, model: Path, library: Path) -> None:
    library.parent.mkdir()
    library.write_text("dear diary")
    ran = command("plan", model)
    assert ran.status == 0
    assert "objective" in ran.out
    assert ran.err == (
        f"placement-explorer: {library} is no library of plans but another file; --library FILE says which file is; so"
        " no answer is looked up or kept\n"
    )
    assert library.read_text() == "dear diary"
    refused = command("plans")
    assert refused.status == 2
    assert refused.err.startswith(f"{SEEN}{library} is no library of plans")


def test_a_python_without_sqlite_plans(
    command: Command, model: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("plan", model)
    monkeypatch.setitem(sys.modules, "explorer.library.library", None)
    ran = command("plan", model)
    assert ran.status == 0
    assert ran.err.count("\n") == 1
    assert "built without sqlite3" in ran.err
    assert "built without sqlite3" in command.refused("plans")


def test_a_damaged_row_is_reported_where_it_is_shown(command: Command, model: Path, library: Path) -> None:
    command("plan", model, "--planner", "equal")
    (one,) = command("plans", "--json").json
    with sqlite3.connect(library) as file:
        file.execute("UPDATE answers SET versions = ?", (dump_json({"a": "b"}),))
    file.close()
    assert "cannot be shown: it is damaged" in command.refused("plans", "show", one["question"])
