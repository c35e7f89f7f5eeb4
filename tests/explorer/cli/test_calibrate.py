"""``calibrate`` measures two processes and ``plan --profile`` plans with it; what cannot be measured is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.cli.reports.calibration_report import print_profile
from explorer.costs.profile import EngineTimes
from explorer.costs.profile_json import load_profile, write_profile
from explorer.question.loading import load
from explorer.runner.bundles.outcome import Outcome, RunStatus
from explorer.runner.bundles.request import RunRequest
from explorer.runner.targets.registry import Targets
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.plan_json import read_plan
from solvers.problem.engine import EngineCosts
from solvers.problem.graph import Phase
from tests.explorer.cli.command import Command
from tests.explorer.costs.profiles import profile_of
from tests.instances import training_graph


@pytest.mark.slow
def test_a_model_is_measured_and_planned_for(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path / "home"))
    file = tmp_path / "profile.json"
    quick = ("--devices", 2, "--samples", "1,4", "--budget", 0.5, "--no-pin")
    hosts = tmp_path / "cluster.json"
    ran = command("calibrate", "gpt-small", *quick, "-o", file, "--write-cluster", hosts)
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
    assert profile.engine is not None
    assert profile.engine.costs.forward_s > 0
    assert profile.engine.costs.sent_s + profile.engine.costs.received_s > 0
    assert "empty segments" in ran.out
    assert "run        " in made.out
    simulated = command("simulate", plan, "--json").json
    assert simulated["run_s"] > simulated["makespan_s"]
    problem = read_plan(plan.read_bytes()).problem
    assert len(problem.cluster) == 2
    link = problem.cluster.link(0, 1)
    assert link is not None
    other = command("plan", "rnnlm-small", "--cluster", hosts, "--planner", "equal", "-o", tmp_path / "other.json")
    assert other.status == 0
    assert read_plan((tmp_path / "other.json").read_bytes()).problem.cluster.link(0, 1) == link
    (kind,) = problem.compute.seconds
    for position, operator in enumerate(graph.operators):
        if operator.phase is Phase.UPDATE:
            assert problem.compute.at(kind, 4)[position] == profile.updates["adam"][operator.name]
    refused = command.refused("plan", "gpt-small", "--inference", "--profile", file)
    assert "another graph" in refused


@pytest.mark.parametrize(
    ("given", "message"),
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
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("graph.json").write_text("{}")
    assert message in command.refused("calibrate", *given)


class Pretended:
    """Ends with an outcome that is given, and leaves a log."""

    name = "local"

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def run(self, plan_text: str, request: RunRequest, ranks: int, folder: Path, *_: object) -> Outcome:
        file = read_plan(plan_text)
        assert (len(file.plan.devices_used()), file.reference, request.samples) == (ranks, "rnnlm-small", (1, 2))
        return self.outcome


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("outcome", "status", "message"),
    [
        (Outcome(RunStatus.CANCELLED, "cancelled after 1 s"), 6, "cancelled after 1 s (log: "),
        (Outcome(RunStatus.TIME_LIMIT, "ended at its time limit"), 6, "time limit"),
        (Outcome(RunStatus.FAILED, "rank 1 ran out of memory"), 5, "rank 1 ran out of memory"),
        (Outcome(RunStatus.DONE), 5, "sent no profile"),
        (Outcome(RunStatus.DONE, profile=profile_of(training_graph([(0, 1)], 2))), 5, "sent no profile"),
    ],
)
def test_what_did_not_come_to_an_end_is_reported_in_a_line_and_kept(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, status: int, message: str
) -> None:
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path))
    monkeypatch.setattr(Targets, "get", lambda *_: Pretended(outcome))
    ran = command("calibrate", "rnnlm-small", "--samples", "2,1", "-o", tmp_path / "profile.json")
    assert (ran.status, ran.out) == (status, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "profile.json").exists()
    assert len(list(tmp_path.rglob("plan.json"))) == 1


def test_a_profile_is_shown_in_a_screenful(capsys: pytest.CaptureFixture[str]) -> None:
    graph = training_graph([(0, 1), (1, 2)], 3)
    print_profile(graph, profile_of(graph))
    output = capsys.readouterr().out
    assert "6 operators measured on 2 x Slide Rule (R) 3000, fp32, for training" in output
    assert "1.20 x" in output  # 0.3 s together, 0.25 s alone
    assert "link       0 - 1: 1 ms + 954 MiB/s" in output
    assert "noise      1 % (quiet)" in output
    assert "note       made by hand" in output
    assert "engine     not measured" in output
    engine = EngineTimes(EngineCosts(1e-3, 1e-4, 2e-4, 3e-4, 4e-4, 2**-20, 2**-19), 0.05, 28, "CPU time")
    print_profile(graph, profile_of(graph, engine=engine))
    output = capsys.readouterr().out
    assert "engine     100 µs a forward, 200 µs a backward, 1 ms an iteration" in output
    assert "a message 300 µs + 1 s/MiB to send, 400 µs + 2 s/MiB to receive" in output
    assert "off by 5 % over 28 measurements" in output


def test_a_profile_of_another_model_is_refused(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(write_profile(profile_of(load("rnnlm-small").graph)))
    assert "it measured rnnlm-small in fp32" in command.refused("plan", "gpt-small", "--profile", file)
    file.write_text("{}")
    assert "placement-explorer/profile" in command.refused("plan", "gpt-small", "--profile", file)
