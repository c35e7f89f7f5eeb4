"""A profile keeps what was measured, and a file that is none is refused in one line."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from explorer.costs.profile import EngineTimes, WholeTimes
from explorer.costs.profile_json import load_profile, read_profile, write_profile
from explorer.runner.bundles.outcome import Outcome, RunStatus
from explorer.runner.bundles.result_json import outcome_text, read_outcome
from solvers.errors import InvalidProblem
from solvers.problem.engine import EngineCosts
from tests.explorer.costs.profiles import profile_of
from tests.instances import training_graph

GRAPH = training_graph([(0, 1), (1, 2)], 3)
ENGINE = EngineTimes(EngineCosts(1e-4, 2e-4, 3e-4, 4e-4, 5e-4, 6e-10, 7e-10), 0.05, 28, "CPU time")


def test_a_profile_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    profile = profile_of(GRAPH)
    assert read_profile(write_profile(profile)) == profile
    file = tmp_path / "profile.json"
    file.write_text(write_profile(profile))
    assert load_profile(str(file)) == profile


def test_what_the_engine_takes_is_kept_and_a_file_of_before_has_none() -> None:
    profile = profile_of(GRAPH, engine=ENGINE)
    assert read_profile(write_profile(profile)) == profile
    assert "engine" not in json.loads(write_profile(profile_of(GRAPH)))
    assert read_profile(write_profile(profile_of(GRAPH))).engine is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine": None}, "engine"),
        ({"engine": {"costs": {}, "residual": 0, "measurements": 1, "clock": ""}}, "engine.costs.iteration_s: missing"),
        ({"engine": asdict(ENGINE) | {"residual": -1}}, "engine"),
        (
            {"engine": asdict(ENGINE) | {"costs": asdict(ENGINE.costs) | {"sent_s": -1}}},
            "engine.costs.sent_s: expected",
        ),
        ({"format": "placement-explorer/plan"}, "expected"),
        ({"version": 2}, "version 1"),
        ({"more": 1}, "unknown field"),
        ({"samples": [4, 4]}, "at least two counts"),
        ({"samples": [4, 1]}, "ascending"),
        ({"samples": [0, 1]}, "integer >= 1"),
        ({"noise": -1}, "noise"),
        ({"noise": None}, "noise"),
        ({"training": 1}, "true or false"),
        ({"hosts": ["desk"]}, "one of each for every rank"),
        ({"memory_bytes": [0, 1]}, "more than 0"),
        ({"wholes": []}, "one for every sample count"),
        ({"operators": [{"name": "a", "seconds": [1], "spread": [0, 0]}]}, "operator 'a': expected 2 times"),
        ({"operators": [{"name": "a", "seconds": [1, -1], "spread": [0, 0]}]}, "seconds[1]"),
        ({"operators": [{"name": "a", "seconds": [1, 1], "spread": [0, 0]}] * 2}, "occurs twice"),
        ({"updates": {"adam": {"a": "fast"}}}, "updates"),
        ({"links": [{"src": 0}]}, "missing"),
    ],
)
def test_what_is_no_profile_is_refused_and_the_place_named(change: dict[str, Any], message: str) -> None:
    value = json.loads(write_profile(profile_of(GRAPH))) | change
    with pytest.raises(InvalidProblem) as error:
        read_profile(json.dumps(value), "x.json")
    assert str(error.value).startswith("x.json")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_links_join_ranks_that_are_there() -> None:
    value = json.loads(write_profile(profile_of(GRAPH)))
    value["links"][0]["dst"] = 2
    with pytest.raises(InvalidProblem, match="two of 2 ranks"):
        read_profile(json.dumps(value))
    value["links"][0] |= {"dst": 1, "bandwidth_bytes_per_s": 0}
    with pytest.raises(InvalidProblem, match="bandwidth"):
        read_profile(json.dumps(value))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match=r"none\.json: no such file"):
        load_profile(str(tmp_path / "none.json"))


def test_the_whole_is_compared_with_its_operators_and_with_a_process_alone() -> None:
    whole = WholeTimes(1, forward_s=1.0, backward_s=3.0, operators_forward_s=1.1, operators_backward_s=3.1, alone_s=2.0)
    assert whole.residual == pytest.approx(0.05)
    assert whole.slowdown == pytest.approx(2.0)
    assert WholeTimes(1, 1.0, 3.0, 1.0, 3.0).slowdown is None


def test_the_outcome_of_a_calibration_carries_its_profile() -> None:
    outcome = Outcome(RunStatus.DONE, profile=profile_of(GRAPH))
    assert read_outcome(outcome_text(outcome)) == outcome
    assert read_outcome(outcome_text(Outcome(RunStatus.DONE))).profile is None
    damaged = json.loads(outcome_text(outcome))
    damaged["profile"]["noise"] = -1
    with pytest.raises(InvalidProblem, match=r"profile.*noise"):
        read_outcome(json.dumps(damaged))
