"""``run --replan PROFILE`` plans again with measured costs and runs both plans; here the target only pretends to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from explorer.costs.profile_json import write_profile
from explorer.jobs.replan import planner_of, replan, replanned
from explorer.question.loading import load
from explorer.runner.bundles.outcome import Outcome, RunStatus
from explorer.runner.bundles.request import RunRequest
from explorer.runner.targets.registry import Targets
from solvers.evaluation.evaluate import evaluate
from solvers.formats.plan_json import read_plan
from tests.explorer.cli.command import Command
from tests.explorer.costs.profiles import profile_of


class Pretended:
    """Takes exactly as long as predicted."""

    name = "local"

    def __init__(self) -> None:
        self.ran: list[float] = []

    def run(
        self,
        plan_text: str,
        request: RunRequest,
        ranks: int,
        folder: Path,
        on_progress: object,
        should_stop: Callable[[], bool],
    ) -> Outcome:
        file = read_plan(plan_text)
        assert len(file.plan.devices_used()) == ranks
        self.ran.append(evaluate(file.problem, file.plan).iteration_s)
        return Outcome(RunStatus.DONE, iterations_s=(self.ran[-1],) * 3, noise=0.01)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pretended:
    pretended = Pretended()
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Targets, "get", lambda *_: pretended)
    return pretended


@pytest.fixture
def plan(command: Command, tmp_path: Path) -> Path:
    """All on one device: by the estimate, a slow link is not worth it."""
    file = tmp_path / "plan.json"
    flags = ("--devices", 2, "--bandwidth", "1MB/s", "--mini-batch", 8, "--planner", "linear-dp:orders=1")
    assert command("plan", "rnnlm-small", *flags, "-o", file).status == 0
    return file


def test_the_new_plan_is_better_by_the_measured_costs_and_both_are_run(
    command: Command, tmp_path: Path, target: Pretended, plan: Path
) -> None:
    measured, new = tmp_path / "profile.json", tmp_path / "new.json"
    measured.write_text(write_profile(profile_of(load("rnnlm-small").graph)))
    ran = command("run", plan, "--replan", measured, "-o", new)
    assert ran.status == 0
    assert "no stage is on device 1" in ran.err  # what stands against the first plan is said, and it runs
    assert len(target.ran) == 4  # in turns, each twice
    assert target.ran[:2] == target.ran[2:]
    assert target.ran[1] < target.ran[0]
    assert "Slide Rule" in ran.out
    assert "less time than the first" in ran.out
    file = read_plan(new.read_bytes())
    assert file.result is not None
    assert file.result.objective_s == target.ran[1]
    assert file.reference == "rnnlm-small"
    again = command("run", new, "--replan", measured)
    assert len(target.ran) == 5  # nothing better to be found: the same plan is not run twice
    assert "no better plan" in again.out


def test_plans_that_noise_hides_are_not_distinguished(
    command: Command, tmp_path: Path, target: Pretended, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = tmp_path / "profile.json"
    measured.write_text(write_profile(profile_of(load("rnnlm-small").graph)))
    times = iter([(5.0, 7.0, 9.0), (4.0, 6.0, 8.0), (3.0, 5.0, 7.0), (4.0, 6.0, 8.0)])
    monkeypatch.setattr(target, "run", lambda *_: Outcome(RunStatus.DONE, iterations_s=next(times), noise=0.01))
    ran = command("run", plan, "--replan", measured)
    assert ran.status == 0
    assert "not distinguishable" in ran.out
    assert "less time than the first" not in ran.out


def test_a_run_that_fails_ends_the_turns_and_is_reported(
    command: Command, tmp_path: Path, target: Pretended, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = tmp_path / "profile.json"
    measured.write_text(write_profile(profile_of(load("rnnlm-small").graph)))
    ends = iter([Outcome(RunStatus.DONE, iterations_s=(5.0,))] * 2 + [Outcome(RunStatus.FAILED, "rank 0 failed: x")])
    monkeypatch.setattr(target, "run", lambda *_: next(ends))
    ran = command("run", plan, "--replan", measured)
    assert ran.status == 5
    assert "rank 0 failed: x" in ran.out
    assert "\ngain " not in ran.out


def test_a_plan_is_searched_for_with_the_planner_that_made_it(plan: Path) -> None:
    file = read_plan(plan.read_bytes())
    chosen = planner_of(file)
    assert not isinstance(chosen, str)
    assert (chosen.name, getattr(chosen, "orders", None)) == ("linear-dp", 1)
    profile = profile_of(file.problem.graph)
    result = replan(file, profile, time_limit_s=5.0)
    assert result.planner == "linear-dp"
    assert result.objective_s <= evaluate(replanned(file.problem, profile), file.plan).iteration_s


def test_a_profile_of_another_model_is_refused_before_anything_runs(
    command: Command, tmp_path: Path, target: Pretended, plan: Path
) -> None:
    other = tmp_path / "profile.json"
    other.write_text(write_profile(profile_of(load("gnmt-small").graph)))
    assert "another graph" in command.refused("run", plan, "--replan", other)
    assert target.ran == []
