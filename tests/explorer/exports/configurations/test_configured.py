"""Configurations as plans: what is exported comes back, and a search is never worse than what it begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from explorer.exports.configurations.configuration import Configuration
from explorer.exports.configurations.configured import configured_plan, read_configuration
from explorer.exports.formats import export
from solvers.errors import InvalidProblem
from solvers.formats.plan_json import PlanFile, read_plan
from solvers.planners.check import check
from tests.explorer.cli.command import Command
from tests.explorer.exports.planned import planned

TWO = " --tensor-model-parallel-size 2"
FLAGS = "--num-layers 4 --pipeline-model-parallel-size 2 --micro-batch-size 2 --global-batch-size 16"


def write(folder: Path, text: str, name: str = "train.sh") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("PLACEMENT_EXPLORER_LIBRARY", str(tmp_path / "plans.sqlite"))
    return Command(capsys)


def first_of(module: str) -> str:
    """The first operator of a module of gpt-small."""
    operators = planned("gpt-small", []).problem.graph.operators
    return next(o.name for o in operators if o.module_path.startswith(f"{module}."))


@pytest.mark.parametrize("launcher", ["megatron", "torchtitan"])
@pytest.mark.parametrize("devices", [None, [(0, 1), (2, 3)]])
def test_what_is_exported_comes_back(
    launcher: str, devices: list[int | tuple[int, ...]] | None, tmp_path: Path
) -> None:
    file = planned("gpt-small", [first_of("blocks.1")], devices=devices, max_replicas=2)
    path = write(tmp_path, export(file, launcher).data.decode())
    plan = configured_plan(file.problem, read_configuration(f"{launcher}:{path}"))
    assert [set(stage.operators) for stage in plan.stages] == [set(stage.operators) for stage in file.plan.stages]
    assert [stage.devices for stage in plan.stages] == [stage.devices for stage in file.plan.stages]
    assert plan.order == file.plan.order
    assert not check(file.problem, plan)


def test_another_number_of_layers_is_refused() -> None:
    file: PlanFile = planned("gpt-small", [])
    layers = Configuration("Megatron-LM", "f", pipeline=1, layers=99)
    with pytest.raises(InvalidProblem, match="f: 99 layers, and the model has"):
        configured_plan(file.problem, layers)
    names = Configuration("torchtitan", "f", names=(("nothing",),))
    with pytest.raises(InvalidProblem, match="none of its modules is one of the model's"):
        configured_plan(file.problem, names)


@pytest.mark.parametrize("named", ["megatron", "slurm:x", "megatron:", ":x"])
def test_a_launcher_and_a_file(named: str) -> None:
    with pytest.raises(InvalidProblem, match="expected a launcher and a file: megatron:FILE, torchtitan:FILE"):
        read_configuration(named)


def test_a_configuration_is_judged_and_beaten_or_kept(command: Command, tmp_path: Path) -> None:
    layers = len({o.module_path.split(".")[1] for o in planned("gpt-small", []).problem.graph.operators
                  if o.module_path.startswith("blocks.")})  # fmt: skip
    script = write(tmp_path, FLAGS.replace("--num-layers 4", f"--num-layers {layers}"))
    out, own = tmp_path / "best.json", tmp_path / "own.json"
    arguments = ("plan", "gpt-small", "--from", f"megatron:{script}", "--effort", "quick")
    ran = command(*arguments, "--json", "-o", out, "--from-output", own)
    assert ran.status == 0, ran.err
    printed = ran.json["configured"]
    assert printed["degrees"] == {"data": 1, "tensor": 1, "pipeline": 2}
    assert printed["violation"] is None
    assert ran.json["objective_s"] <= printed["objective_s"]
    assert ran.json["mini_batch"] == 16
    file = read_plan(own.read_bytes(), str(own))
    assert len(file.plan.stages) == 2
    assert not check(file.problem, file.plan)
    text = command(*arguments).out
    assert "from       " in text
    assert "instead    " in text
    assert "configured" in text
    assert command("check", own).status == 0


@pytest.mark.slow
def test_python_has_the_same_door(command: Command, tmp_path: Path) -> None:
    script = write(tmp_path, f"{FLAGS} --use-distributed-optimizer --bf16")
    named = f"megatron:{script}"
    own = explorer.configured("gpt-small", named, devices=4)
    assert (own.problem.mini_batch, own.problem.zero, own.violation) == (16, 1, "")
    best = explorer.plan("gpt-small", devices=4, start=own, effort="quick")
    assert best.objective_s <= own.objective_s
    ran = command("plan", "gpt-small", "--from", named, "--devices", 4, "--effort", "quick", "--json")
    assert ran.json["configured"]["objective_s"] == own.objective_s
    assert ran.json["objective_s"] == best.objective_s
    other = explorer.plan("gpt-small", devices=4, start=own, effort="quick", mini_batch=32)
    assert other.problem.mini_batch == 32
    over_two = explorer.configured("gpt-small", f"megatron:{write(tmp_path, FLAGS + TWO)}", devices=4)
    assert over_two.problem.graph.tensor_parallel == 2
    with pytest.raises(InvalidProblem, match="expected a launcher and a file"):
        explorer.configured("gpt-small", "nemo:x")


@pytest.mark.slow
def test_a_configuration_that_does_not_fit_says_so(command: Command, tmp_path: Path) -> None:
    script = write(tmp_path, "--pipeline-model-parallel-size 1 --micro-batch-size 16 --global-batch-size 16")
    ran = command(
        "plan", "gpt-small", "--from", f"megatron:{script}", "--memory", "1MiB", "--effort", "quick", "--json"
    )
    assert "GPU 0" in str(ran.json["configured"]["violation"])


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--inference",), "--from reads configurations of training; leave out --inference"),
        (("--start", "x"), "leave out --start"),
        (("--devices", "3"), "3 devices are no multiple of tensor 1 x pipeline 2"),
    ],
)
def test_what_does_not_go_together(flags: tuple[str, ...], why: str, command: Command, tmp_path: Path) -> None:
    script = write(tmp_path, FLAGS)
    assert why in command.refused("plan", "gpt-small", "--from", f"megatron:{script}", *flags)
