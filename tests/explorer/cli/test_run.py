"""``run`` runs what a plan file says, says how it went, and ends with a status; ``runs`` and ``targets`` list."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from explorer import files
from explorer.cli.reports.run_report import agreement_words
from explorer.cli.terminal.progress import RunLine
from explorer.runner.bundles.bundle import Bundle, finish_bundle, write_bundle
from explorer.runner.bundles.outcome import Agreement, Outcome, RunStatus, Way, judged
from explorer.runner.bundles.request import RunRequest
from explorer.runner.bundles.result_json import read_outcome
from explorer.runner.targets.local import LocalTarget
from explorer.runner.targets.target import RunProgress
from solvers.errors import RunError
from solvers.problem.problem import ComputeTable, Problem
from tests.explorer.cli.command import Command, workload, write
from tests.explorer.cli.ended.test_interrupt import Terminal
from tests.explorer.runner.two_ranks import predicted_s, write_two_ranks


def light(name: str, *, max_ranks: int, module: str) -> LocalTarget:
    standin, launcher = "tests.explorer.runner.standin_rank", "tests.explorer.runner.standin_launch"
    return LocalTarget(name, max_ranks=max_ranks, module=standin, launcher=launcher)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_two_ranks(tmp_path)


@pytest.fixture(autouse=True)
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are kept in the test's own folder, and the local target's ranks compute nothing."""
    monkeypatch.setattr("explorer.runner.targets.local.LocalTarget", light)
    monkeypatch.setenv("PLACEMENT_EXPLORER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("STANDIN", "measure")


def test_without_pytorch_a_run_is_refused_before_anything_is_made(
    command: Command, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "running a plan here needs PyTorch; pip install" in command.refused("run", plan)
    assert not (tmp_path / "home").exists()


def test_a_run_is_shown_in_a_screenful_with_its_bundle_and_command(
    command: Command, plan: Path, tmp_path: Path
) -> None:
    ran = command("run", plan)
    assert ran.status == 0
    first, *lines = ran.out.partition("\n\n")[0].splitlines()
    assert first == "gpt: 2 ranks on local (this machine)"
    shown = dict(line.split(maxsplit=1) for line in lines)
    assert shown["status"] == "done"
    assert shown["hardware"] == "2 x a CPU on here; 1 thread a rank"
    assert shown["iteration"] == "10 s median of 3, from 8 s to 12 s"
    assert shown["predicted"] == "8 s (20 % shorter)"
    assert shown["losses"] == "first 2.5, last 2"
    assert shown["agreement"] == (
        "agrees with the whole model in float64, relative: losses 1.0e-12, gradients 2.0e-12, parameters identical"
        " (worst: head.weight)"
    )
    assert Path(shown["bundle"]).parent == tmp_path / "home" / "runs"
    assert (Path(shown["bundle"]) / "run.sh").is_file()
    assert shlex.split(shown["again"])[-2:] == ["sh", f"{shown['bundle']}/run.sh"]


def test_a_plan_for_other_hardware_leads_with_that_and_compares_no_times(command: Command, tmp_path: Path) -> None:
    def elsewhere(problem: Problem) -> Problem:
        devices = tuple(replace(device, kind="H100-80GB") for device in problem.cluster.devices)
        (seconds,) = problem.compute.seconds.values()
        compute = ComputeTable(problem.compute.samples, {"H100-80GB": seconds})
        cluster = replace(problem.cluster, devices=devices)
        return replace(problem, cluster=cluster, compute=compute, costs_from="roofline, H100-80GB")

    ran = command("run", write_two_ranks(tmp_path, change=elsewhere))
    lines = ran.out.splitlines()
    assert lines[1].startswith("hardware   NOT what the plan is for: planned for H100-80GB, run on a CPU")
    assert "--replan" in lines[2]
    assert any(re.fullmatch(r"predicted  8 s, [0-9.]+ to [0-9.]+ s on H100-80GB", line) for line in lines)
    assert "prediction off by" not in ran.out
    assert "operator costs" not in ran.out.split("note")[0]
    assert "schedule model" in ran.out
    assert "furthest off" not in ran.out


def test_peaks_stand_beside_what_was_predicted(command: Command, plan: Path) -> None:
    output = next(line for line in command("run", plan).out.splitlines() if line.startswith("memory"))
    assert re.fullmatch(r"memory     peak 1 KiB \(predicted [^)]+\), 2 KiB \(predicted [^)]+\) by rank", output)


def test_a_run_that_differs_is_failed_in_every_record(command: Command, plan: Path, tmp_path: Path) -> None:
    wrong = Agreement(1e-12, 0.3, float("nan"), "head.weight", "float64")
    outcome = judged(Outcome(RunStatus.DONE, iterations_s=(1.0,), agreement=wrong))
    assert outcome.status is RunStatus.FAILED
    assert outcome.reason == (
        "it differs from the whole model, relative: gradients by 3.0e-01, parameters by nan (worst: head.weight)"
    )
    assert (
        judged(Outcome(RunStatus.DONE, agreement=replace(wrong, gradient=0.0, parameter=0.0))).status is RunStatus.DONE
    )
    bundle = write_bundle(
        tmp_path / "home" / "runs" / "20261122T000000Z-gpt-aaaaaa", plan.read_text(), RunRequest(), "local"
    )
    finish_bundle(bundle, outcome)
    (only,) = command("runs", "--json").json
    assert (only["status"], only["reason"]) == ("failed", outcome.reason)
    assert read_outcome(bundle.result.read_bytes()).status is RunStatus.FAILED


def test_the_three_errors_are_shown_separately_and_the_worst_actions_first(command: Command, plan: Path) -> None:
    out = command("run", plan).out
    shown = [line.split("  ")[0] for line in out.splitlines()]
    assert [word for word in shown if word in ("schedule model", "links", "operator costs")] == [
        "operator costs",
        "links",
        "schedule model",
    ]
    worst = out[out.index("furthest off: segment") :].splitlines()
    assert worst[1].split() == ["0", "forward", "0", "2", "s", "3", "s", "1.5×"]


def test_json_is_that_of_the_plan_with_what_was_measured(command: Command, plan: Path, tmp_path: Path) -> None:
    ran = command("run", plan, "--json", "-o", tmp_path / "result.json")
    printed = ran.json
    assert ran.status == 0
    assert set(command("plan", write(tmp_path, workload()), "--json").json) <= set(printed)
    assert printed["measured"]["iteration_s"] == {"min": 8.0, "median": 10.0, "max": 12.0}
    assert (printed["measured"]["loss_error"], printed["measured"]["gradient_error"]) == (1e-12, 2e-12)
    assert printed["measured"]["compared_with"] == "whole"
    assert printed["measured"]["iteration"] == 2
    assert printed["measured"]["actions"] == [
        {"rank": 0, "action": "0F0", "start_s": 0.0, "end_s": 3.0, "wait_s": 0.0},
        {"rank": 1, "action": "1F0", "start_s": 4.0, "end_s": 7.0, "wait_s": 4.0},
    ]
    assert (printed["run"]["status"], printed["run"]["predicted_s"]) == ("done", predicted_s())
    assert printed["comparison"]["measured_s"] == 10.0
    assert read_outcome((tmp_path / "result.json").read_bytes()).iterations_s == (8.0, 12.0, 10.0)


@pytest.mark.parametrize(
    ("how", "flags", "status", "reason"),
    [
        ("no_memory", (), 5, "rank 1 is out of memory at 1B0; predicted peak 2 MiB"),
        ("hang", ("--time-limit", "1"), 6, "ended at its time limit"),
    ],
)
def test_a_run_that_does_not_end_well_says_so_and_has_a_status_of_its_own(
    how: str,
    flags: tuple[str, ...],
    status: int,
    reason: str,
    command: Command,
    plan: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STANDIN", how)
    ran = command("run", plan, *flags)
    assert ran.status == status
    assert reason in ran.out
    assert "furthest off" not in ran.out
    listed = command("runs", "--json").json
    assert [(run["status"], reason in run["reason"]) for run in listed] == [
        ("failed" if status == 5 else "time limit", True)
    ]


@pytest.mark.first(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_signal_to_end_end_the_run_and_are_reported(
    number: signal.Signals, command: Command, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(line: RunLine, progress: RunProgress) -> None:
        if progress.phase == "measuring":
            os.kill(os.getpid(), number)

    monkeypatch.setattr(RunLine, "__call__", interrupt)
    monkeypatch.setenv("STANDIN", "hang")
    ran = command("run", plan, "--json")
    assert (ran.status, ran.json["run"]["status"], ran.json["measured"]) == (6, RunStatus.CANCELLED, None)
    bundle = Bundle(Path(ran.json["run"]["bundle"]))
    assert read_outcome(bundle.result.read_bytes()).status is RunStatus.CANCELLED
    assert bundle.summary.is_file()
    assert "# ended after" in bundle.log.read_text()


def test_a_target_that_cannot_be_reached_is_a_failed_run(
    command: Command, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanished(*_: object) -> None:
        raise RunError("target local: does not answer")

    monkeypatch.setattr(LocalTarget, "run", vanished)
    ran = command("run", plan)
    assert ran.status == 5
    assert "reason     target local: does not answer" in ran.out


def test_the_flags_are_the_request_and_the_target_says_the_rest(command: Command, plan: Path, tmp_path: Path) -> None:
    declared = write(tmp_path, "[local]\nthreads = 2\ntimeout = 30\n", "targets.toml")
    flags = ["--steps", 7, "--warmup", 0, "--optimizer", "sgd", "--learning-rate", 0.5, "--no-pin", "--verify"]
    flags += ["--backend", "cpu", "--float64", "--seed", 3, "--targets", declared, "--bundle", tmp_path / "b"]
    assert command("run", plan, *flags).status == 0
    request = json.loads((tmp_path / "b" / "request.json").read_text())
    assert (
        request
        | {
            "steps": 7,
            "warmup": 0,
            "optimizer": "sgd",
            "learning_rate": 0.5,
            "pin": False,
            "verify": True,
            "backend": "cpu",
            "dtype": "float64",
            "seed": 3,
            "threads": 2,
            "time_limit_s": 30.0,
            "allow_model": False,
        }
        == request
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["gpt"], "this is a model, not a plan; plan it first: `placement-explorer plan gpt"),
        (["MODEL"], "this is a model, not a plan"),
        (["nothing.json"], "no such file"),
        (["PLAN", "--target", "lokal"], "did you mean 'local'"),
        (["PLAN", "--targets", "none.toml"], "none.toml: no such file"),
        (["PLAN", "--steps", "0"], "steps: expected an integer from 1"),
        (["PLAN", "--threads", "0"], "threads: expected an integer from 1"),
        (["PLAN", "--time-limit", "nan"], "time_limit_s: expected a number above 0"),
        (["PLAN", "--learning-rate", "-1"], "learning_rate: expected a number above 0"),
        (["PLAN", "--bundle", "FULL"], "is not empty"),
        (["THEIRS"], "their.module:model: running it runs its code, which was not allowed"),
        (["PATH"], "their/model.py:make: running it runs its code, which was not allowed"),
        (["PATH", "--allow-model", "--target", "lokal"], "did you mean 'local'"),
        (["FILE"], "model.pt2: only the code of a model can be run"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(
    args: list[str], message: str, command: Command, plan: Path, tmp_path: Path
) -> None:
    for name in ("theirs", "path", "file"):
        (tmp_path / name).mkdir()
    places = {
        "PLAN": plan,
        "MODEL": write(tmp_path, workload()),
        "FULL": tmp_path,
        "THEIRS": write_two_ranks(tmp_path / "theirs", "their.module:model"),
        "PATH": write_two_ranks(tmp_path / "path", "their/model.py:make"),
        "FILE": write_two_ranks(tmp_path / "file", "model.pt2"),
    }
    assert message in command.refused("run", *(places.get(arg, arg) for arg in args))
    assert not list(tmp_path.glob("**/pid-*"))


def test_checks_before_the_launch_refuse_it(command: Command, plan: Path, tmp_path: Path) -> None:
    declared = write(tmp_path, "[local]\nmax_ranks = 1\n", "targets.toml")
    assert "cannot be launched: the plan needs 2 ranks" in command.refused("run", plan, "--targets", declared)
    assert not (tmp_path / "home").exists()


def test_runs_lists_what_ran_newest_first(command: Command, plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("runs").out.startswith("no runs in ")
    command("run", plan)
    (only,) = command("runs", "--json").json
    assert (only["model"], only["target"], only["ranks"], only["status"]) == ("gpt", "local", 2, "done")
    assert (only["iteration_s"], only["predicted_s"]) == (median([8.0, 12.0, 10.0]), predicted_s())
    assert only["id"] in command("runs", "--limit", 1).out
    assert "expected a whole number" in command.refused("runs", "--limit", "0")


def test_targets_lists_what_is_declared_and_no_token(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "local" in command("targets").out
    (tmp_path / "token").write_text("s3cr3t")
    text = '[c]\nkind = "ray"\naddress = "https://head:8265"\ntoken_file = "token"\n'
    text += '[d]\nkind = "ray"\naddress = "https://head:8266"\ntoken_env = "T"\n'
    declared = write(tmp_path, text, "targets.toml")
    monkeypatch.setenv("T", "s3cr3t")
    listed = command("targets", "--targets", declared, "--json")
    assert [(target["name"], target["place"]) for target in listed.json] == [
        ("local", "this machine"),
        ("c", "https://head:8265"),
        ("d", "https://head:8266"),
    ]
    shown = command("targets", "--targets", declared)
    assert "s3cr3t" not in listed.out + shown.out


def test_the_progress_of_a_run_is_for_terminals_only() -> None:
    piped, terminal = io.StringIO(), Terminal()
    for stream in (piped, terminal):
        line = RunLine(stream, "local")
        line(RunProgress("measuring\x1b[2J", 3, 10))
        line.clear()
    assert piped.getvalue() == ""
    assert "local: measuring [2J 3 of 10" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")


def test_a_rank_that_stands_still_is_a_warning_wherever_the_progress_goes() -> None:
    piped, terminal = io.StringIO(), Terminal()
    for stream in (piped, terminal):
        line = RunLine(stream, "local")
        line(RunProgress("measuring"))
        line(RunProgress("measuring", stall="rank 1 is stopped\x1b[2J"))
        assert "placement-explorer: warning: rank 1 is stopped [2J\n" in stream.getvalue()


def test_the_command_itself_never_imports_torch(plan: Path) -> None:
    """What it starts does: a run takes a while, but an error in a flag does not."""
    code = (
        "import sys; from explorer.runner.targets import local; from explorer.cli import main;"
        " real = local.LocalTarget;"
        " local.LocalTarget = lambda name, **_: real(name, module='tests.explorer.runner.standin_rank',"
        " launcher='tests.explorer.runner.standin_launch');"
        f" print(main(['run', {str(plan)!r}, '--json']), 'torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "0 False"


def test_a_run_that_differs_from_the_whole_model_has_failed() -> None:
    right = Agreement(1e-12, 2e-12, 0.0, "head.weight", "float64")
    wrong = replace(right, gradient=0.3)
    assert right.holds
    assert not wrong.holds
    assert not replace(right, parameter=float("nan")).holds
    assert agreement_words(wrong).startswith("DIFFERS from the whole model")
    by_stages = agreement_words(replace(right, way=Way.STAGES))
    assert by_stages.startswith("agrees with the model computed stage after stage in float64")
    assert agreement_words(replace(right, undefined=3)).endswith(
        "; 3 of the losses, gradients and parameters are no finite numbers, alike in both"
    )


@pytest.mark.parametrize(
    ("given", "question"),
    [((), (False, None)), (("--verify",), (True, None)), (("--verify-by", "stages"), (True, "stages"))],
)
def test_how_a_run_is_compared_is_requested_of_its_ranks(
    command: Command, plan: Path, tmp_path: Path, given: tuple[str, ...], question: tuple[bool, str | None]
) -> None:
    assert command("run", plan, *given, "--bundle", tmp_path / "bundle").status == 0
    request = json.loads((tmp_path / "bundle" / "request.json").read_text())
    assert (request["verify"], request["verify_by"]) == question


def test_a_result_that_cannot_be_saved_is_reported_after_the_run_and_counts_as_a_failed_run(
    command: Command, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(place: str, *_: object) -> None:
        if place.endswith("result.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "_replace", full)
    ran = command("run", plan, "--bundle", tmp_path / "bundle", "-o", tmp_path / "mine.result.json")
    assert ran.status == 5
    first, second = ran.err.splitlines()[-2:]
    why = "while saving the result of the run: no space left on device"
    assert f"could not write {tmp_path / 'bundle' / 'result.json'} {why}" in first
    assert f"could not write {tmp_path / 'mine.result.json'} {why}; no file was made" in second
    assert "status" in ran.out


def test_a_bundle_that_cannot_be_written_is_reported_before_anything_is_started(
    command: Command, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    message = command.refused("run", plan, "--bundle", tmp_path / "bundle")
    assert message.startswith(
        f"could not write {tmp_path / 'bundle' / 'bundle.json'} while preparing the run: no space"
    )
