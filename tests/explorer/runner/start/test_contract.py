"""Another torch than the one that the tests ran with is decided by what it has."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="the extra [torch] is not installed")

from torch.distributed.pipelining import schedules

from explorer.runner.start import contract


def test_this_torch_has_what_runs_are_made_of_and_is_known() -> None:
    assert contract.missing() == []
    assert contract.broken() == contract.note() == ""


def test_an_unknown_torch_that_has_it_all_runs_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract.importlib.metadata, "version", lambda _: "2.14.1+cu130")
    assert contract.broken() == ""
    assert contract.note().startswith("torch 2.14.1 has not run before here")
    assert "2.13.0" in contract.note()


def refused(monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    monkeypatch.setattr(contract.importlib.metadata, "version", lambda _: "2.14.1")
    assert message in contract.missing()
    refusal = contract.broken()
    assert refusal.startswith("torch 2.14.1 lacks what runs are made of (")
    assert "\n" not in refusal


def test_an_unknown_torch_without_a_name_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(schedules, "_wait_batch_p2p")
    refused(monkeypatch, "torch.distributed.pipelining.schedules._wait_batch_p2p")


def test_an_unknown_torch_without_a_method_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = schedules._PipelineScheduleRuntime
    holder = next(each for each in runtime.__mro__ if "_update_losses" in vars(each))
    monkeypatch.delattr(holder, "_update_losses")
    refused(monkeypatch, "_PipelineScheduleRuntime._update_losses")


def test_an_unknown_torch_without_a_kind_of_step_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    others = SimpleNamespace(**{name: name for name in contract.COMPUTATIONS if name != "RESHARD"})
    monkeypatch.setattr(schedules, "_ComputationType", others)
    refused(monkeypatch, "_ComputationType.RESHARD")


def test_asking_costs_no_import_of_torch_where_the_version_is_known() -> None:
    code = "import sys; from explorer.runner.start.contract import broken; print([broken()], 'torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["['']", "False"]
