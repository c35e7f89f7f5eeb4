"""A user's module on the command line: its dtype, its output, its mistakes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from explorer.cli.terminal.progress import working
from explorer.costs.roofline import label
from tests.explorer.cli.command import Command, write

HERE = "tests.explorer.cli.test_modules"


class Talking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        print("forward")
        return self.layers(x).sum() * scale


def talking() -> tuple[nn.Module, Tensor]:
    print("built")
    return Talking(), torch.randn(2, 8)


def named() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, float]]:
    return Talking(), (torch.randn(2, 8),), {"scale": 2.0}


def leaving() -> None:
    raise SystemExit(3)


def mistaken() -> None:
    raise ValueError("no data")


def test_what_a_module_prints_does_not_get_into_the_json(command: Command) -> None:
    ran = command("plan", f"{HERE}:talking", "--devices", 1, "--json")
    assert ran.json["dtype"] == "fp32"
    assert "built" in ran.err


def test_the_report_and_the_trace_say_the_dtype_and_how_to_change_it(command: Command) -> None:
    assert (
        "dtype      fp32, as traced; another with --dtype bf16 or fp16"
        in command("plan", f"{HERE}:talking", "--devices", 1).out
    )
    assert ", bf16, traced at 2 samples for training" in command("trace", f"{HERE}:talking", "--dtype", "bf16").out
    assert "fp32 for the demos" in " ".join(command("plan", "--help").out.split())


def test_a_file_is_planned_in_its_own_dtype_only(command: Command, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    assert command("trace", f"{HERE}:talking", "-o", path).status == 0
    assert command("plan", path, "--dtype", "fp32", "--devices", 1).status == 0
    message = command.refused("plan", path, "--dtype", "bf16")
    assert message == f"{path}: its tensors are fp32; to plan it in bf16, export or trace it in bf16"
    assert "states its own compute times" in command.refused("plan", model, "--dtype", "bf16")


def test_a_device_without_the_dtype_is_named() -> None:
    assert label(["V100-16GB"], "bf16") == (
        "roofline estimate, V100-16GB, bf16 (V100-16GB: no bf16 products, at the fp32 rate)"
    )
    assert label(["V100-16GB"], "fp16") == "roofline estimate, V100-16GB, fp16"


def test_a_callable_may_return_arguments_by_name_too(command: Command) -> None:
    assert command("trace", f"{HERE}:named").status == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [("leaving", "SystemExit: 3 (test_modules.py, line"), ("mistaken", "ValueError: no data (test_modules.py, line")],
)
def test_a_callable_that_fails_is_reported_with_its_line(command: Command, name: str, message: str) -> None:
    assert message in command.refused("plan", f"{HERE}:{name}")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--devices", 99999), "the number of devices must be at most 16,384, found 99,999"),
        (("--cpus", 99999), "the number of cpus must be at most"),
        (("--mini-batch", 10**12), "the mini-batch must be at most 16,777,216 samples, found 1,000,000,000,000"),
        (("--mini-batch", 65536), "at most 4,096 micro-batches can be scheduled, found 65,536"),
        (("--pin", "a=0", "--pin", "a=1"), "--pin a is given twice, for devices 0 and 1; keep one"),
        (("-o", ""), "expected a file name, found nothing"),
    ],
)
def test_numbers_and_flags_out_of_reason(
    command: Command, model: Path, flags: tuple[object, ...], message: str
) -> None:
    assert message in command.refused("plan", model, *flags)


def test_a_python_module_without_a_callable_is_refused_with_how_to_name_one(command: Command) -> None:
    assert "a module of yours is package.module:callable" in command.refused("plan", "mymodel")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_does_not_cost_the_plan(command: Command, model: Path) -> None:
    ran = command("plan", model, "-o", "/dev/full")
    assert ran.status == 2
    assert "status     OPTIMAL" in ran.out
    assert ran.err == (
        "placement-explorer: error: could not write /dev/full while saving the plan: no space left on device\n"
    )


def test_a_read_only_file_is_refused_before_the_work(
    command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "", "plan.json")
    monkeypatch.setattr("explorer.files.os.access", lambda *_: False)  # root may write anywhere
    assert "cannot be written; choose another" in command.refused("plan", model, "-o", path)


def test_a_long_trace_says_that_it_is_at_work_on_terminals_only() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        with working("tracing gpt", stream):
            pass
    assert "tracing gpt ... 0 s" in terminal.getvalue()
    assert pipe.getvalue() == ""
