"""``calibrate`` measures two processes and ``plan --profile`` plans with it; what cannot be measured is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.loading import load
from explorer.runner.profile_json import load_profile, write_profile
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.plan_json import read_plan
from solvers.graph import Phase
from tests.cli.command import Command
from tests.runner.profiles import profile_of


def test_a_model_is_measured_and_planned_for(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path / "home"))
    file = tmp_path / "profile.json"
    ran = command("calibrate", "gpt-small", "--devices", 2, "--samples", "1,4", "--budget", 0.5, "--no-pin", "-o", file)
    assert (ran.status, ran.err) == (0, "")
    assert "2 at once" in ran.out
    assert "link       0 - 1" in ran.out
    assert list((tmp_path / "home").rglob("plan.json")) == []  # a bundle that did its work is removed
    graph = load("gpt-small").graph
    profile = load_profile(str(file))
    assert profile.graph_sha256 == graph_hash(graph)
    assert (profile.samples, profile.ranks, profile.training, profile.dtype) == ((1, 4), 2, True, "fp32")
    assert [times.name for times in profile.operators] == [
        o.name for o in graph.operators if o.phase is not Phase.UPDATE
    ]
    assert all(seconds > 0 for times in profile.operators for seconds in times.seconds)
    assert set(profile.updates) == {"adam", "sgd"}
    assert set(profile.updates["adam"]) == {o.name for o in graph.operators if o.phase is Phase.UPDATE}
    assert all(size > 0 for size in profile.memory_bytes)
    plan = tmp_path / "plan.json"
    made = command("plan", "gpt-small", "--profile", file, "--planner", "linear-dp", "--mini-batch", 8, "-o", plan)
    assert (made.status, made.err) == (0, "")
    assert "costs      measured on 2 x " in made.out
    problem = read_plan(plan.read_bytes()).problem
    assert len(problem.cluster) == 2
    assert problem.cluster.link(0, 1) is not None
    (kind,) = problem.compute.seconds
    for position, operator in enumerate(graph.operators):
        if operator.phase is Phase.UPDATE:
            assert problem.compute.at(kind, 4)[position] == profile.updates["adam"][operator.name]
    refused = command.refused("plan", "gpt-small", "--inference", "--profile", file)
    assert "another graph" in refused


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("no-such-model",), "no demo model"),
        (("graph.json",), "only code can be measured"),
        (("gpt-small", "--samples", "4"), "at least two"),
        (("gpt-small", "--samples", "1,x"), "whole numbers"),
        (("gpt-small", "--budget", "0"), "budget_s"),
        (("gpt-small", "--target", "nowhere"), "no target 'nowhere'"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graph.json").write_text("{}")
    assert said in command.refused("calibrate", *given)


def test_a_profile_of_another_model_is_refused(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(write_profile(profile_of(load("rnnlm-small").graph)))
    assert "it measured rnnlm-small in fp32" in command.refused("plan", "gpt-small", "--profile", file)
    file.write_text("{}")
    assert "placement-explorer/profile" in command.refused("plan", "gpt-small", "--profile", file)
