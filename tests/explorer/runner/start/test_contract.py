"""Another torch than the one that the tests ran with is decided by what it has."""

from __future__ import annotations

import subprocess
import sys

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


@pytest.mark.parametrize(
    ("owner", "name", "told"),
    [
        (schedules, "_wait_batch_p2p", "torch.distributed.pipelining.schedules._wait_batch_p2p"),
        (schedules._ComputationType, "RESHARD", "_ComputationType.RESHARD"),
        (schedules._PipelineScheduleRuntime, "_update_losses", "_PipelineScheduleRuntime._update_losses"),
    ],
)
def test_an_unknown_torch_that_lacks_something_is_refused_in_a_line(
    owner: object, name: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract.importlib.metadata, "version", lambda _: "2.14.1")
    holder = next((each for each in getattr(owner, "__mro__", ()) if name in vars(each)), owner)
    if isinstance(owner, type) and name in getattr(owner, "__members__", {}):
        monkeypatch.setattr(contract, "COMPUTATIONS", (*contract.COMPUTATIONS, "NEVER"))
        told = "_ComputationType.NEVER"
    else:
        monkeypatch.delattr(holder, name)
    assert told in contract.missing()
    refusal = contract.broken()
    assert refusal.startswith("torch 2.14.1 lacks what runs are made of (")
    assert "\n" not in refusal


def test_asking_costs_no_import_of_torch_where_the_version_is_known() -> None:
    code = "import sys; from explorer.runner.start.contract import broken; print([broken()], 'torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["['']", "False"]
