"""What was measured is found again by name, and a name that is not there is answered with those that are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from explorer.cli import calibrate
from explorer.costs.profile_json import load_profile, write_profile
from explorer.costs.times import store
from explorer.costs.times.library_json import load_library
from explorer.costs.times.store import PROFILE, TIMES, listed, names, path_of, save, store_folder
from explorer.question.questions import Question
from solvers.errors import InvalidProblem
from tests.explorer.cli.command import Command, workload, write
from tests.explorer.costs.profiles import profile_of
from tests.explorer.costs.times.libraries import MS, library_of_linear, linear_graph, linear_time

GRAPH = linear_graph()


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def test_the_folder_is_the_users() -> None:
    assert store_folder({"PLACEMENT_EXPLORER_HOME": "/x"}) == Path("/x/costs")
    assert store_folder({"XDG_DATA_HOME": "/data"}) == Path("/data/placement-explorer/costs")
    assert store_folder({}) == Path.home() / ".local/share/placement-explorer/costs"


def test_what_is_saved_is_detected_by_name_and_a_file_is_itself(tmp_path: Path) -> None:
    profile, library = profile_of(GRAPH), library_of_linear()
    assert [place.name for place in save("desk", profile, library)] == ["desk.profile.json", "desk.times.json"]
    assert load_profile(path_of("desk", PROFILE)) == profile
    assert load_library(path_of("desk", TIMES)) == library
    path = tmp_path / "own.json"
    path.write_text(write_profile(profile))
    assert path_of(str(path), PROFILE) == str(path)
    assert path_of("missing.json", PROFILE) == "missing.json"  # the reader says that it is not there


def test_again_a_profile_is_replaced_and_times_are_added_to() -> None:
    save("desk", profile_of(GRAPH), library_of_linear(linear_time(1, MS)))
    later = replace(profile_of(GRAPH), date="2026-11-23T08:00:00Z")
    save("desk", later, library_of_linear(linear_time(4, MS)))
    assert load_profile(path_of("desk", PROFILE)) == later
    assert len(load_library(path_of("desk", TIMES)).times) == 2


def test_times_of_other_hardware_are_not_added() -> None:
    save("desk", None, library_of_linear())
    with pytest.raises(InvalidProblem, match=r"desk\.times\.json: it holds times of hardware .*Slide Rule") as caught:
        save("desk", profile_of(GRAPH), library_of_linear(hardware="Abacus"))
    assert "\n" not in str(caught.value)
    assert [one.kind for one in listed()] == [TIMES]  # and no profile of it stands beside them


def test_a_name_that_is_not_there_is_answered_with_those_that_are(command: Command, tmp_path: Path) -> None:
    model = write(tmp_path, workload())
    assert "none are saved" in command.refused("plan", model, "--profile", "desk")
    save("desk", profile_of(GRAPH), library_of_linear())
    assert "profile 'dusk': there is no such file" in command.refused("plan", model, "--profile", "dusk")
    assert "saved are desk" in command.refused("plan", model, "--profile", "dusk")
    assert "saved are desk" in command.refused("plan", model, "--times", "dusk")


def test_a_profile_by_name_is_of_one_graph_as_from_a_file(command: Command, tmp_path: Path) -> None:
    save("desk", profile_of(GRAPH), library_of_linear())
    graph = tmp_path / "mlp.json"
    from solvers.formats.graph_json import write_graph
    from solvers.formats.workload import Workload

    graph.write_text(write_graph(Workload(GRAPH, "mlp", training=False)))
    ran = command("plan", graph, "--profile", "desk", "--planner", "single", "--json")
    assert "measured on" in str(ran.json)
    other = replace(GRAPH, name="another")
    graph.write_text(write_graph(Workload(other, "mlp", training=False)))
    assert "the profile is of another graph" in command.refused("plan", graph, "--profile", "desk")


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "x" * 65, "own.json", "two words"])
def test_what_is_no_name_is_refused_before_anything_is_measured(
    command: Command, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(calibrate, "measured", None)
    assert "no name to save under" in command.refused("calibrate", "gpt-small", "--save", name)


def test_profiles_lists_what_there_is_with_hardware_versions_date_and_spread(command: Command, home: Path) -> None:
    assert "nothing is saved" in command("profiles").out
    save("desk", profile_of(GRAPH), library_of_linear())
    (home / "costs" / "torn.times.json").write_text("{")
    out = command("profiles").out
    assert "2 x Slide Rule (R) 3000" in out
    assert "2026-11-21" in out
    assert "torn" in out
    assert "cannot be read" in out
    printed = command("profiles", "--json").json
    assert [(one["name"], one["kind"]) for one in printed] == [("desk", TIMES), ("desk", PROFILE), ("torn", TIMES)]
    assert printed[1]["torch"] == "2.13.0"
    assert printed[1]["hardware"] == "Slide Rule (R) 3000"
    assert printed[1]["spread"] == pytest.approx(0.075)
    assert printed[0]["dtypes"] == ["fp32"]


def test_a_calibration_is_saved(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is handed in: of a graph with one linear, at two numbers of samples."""
    from explorer.question.loading import load

    profile = profile_of(load("dlrm-small").graph)
    monkeypatch.setattr(calibrate, "measured", lambda *_: profile)
    ran = command("calibrate", "dlrm-small", "--save", "desk")
    assert ran.status == 0, ran.err
    assert f"saved      desk: profile and operator times, in {store.store_folder()}" in ran.out
    assert load_profile(path_of("desk", PROFILE)) == profile
    assert load_library(path_of("desk", TIMES)).hardware == "Slide Rule (R) 3000"


def test_a_question_asks_for_what_is_saved_by_name_too() -> None:
    profile, library = profile_of(GRAPH), library_of_linear()
    save("desk", profile, library)
    assert names(PROFILE) == names(TIMES) == ["desk"]
    assert Question(profile="desk").profile == profile
    assert Question(times="desk").times == (library,)
    assert Question(times=["desk", library]).times == (library, library)
    with pytest.raises(InvalidProblem, match="saved are desk"):
        Question(times="disk")
