"""How a rank ends, and what it says of its failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from explorer.runner import calibrate, rank
from explorer.runner.bundles.request import Backend, RunRequest, request_json
from solvers.errors import RunError


def failed(folder: Path, error: Exception, cause: Exception | None = None) -> str:
    try:
        raise error from cause
    except Exception as raised:
        rank._fail(folder, 0, raised)
    message: str = json.loads((folder / "failure-0.json").read_text())["message"]
    return message


def test_an_error_that_wraps_another_tells_both(tmp_path: Path) -> None:
    inner = RuntimeError("a variable was modified by an inplace operation\nHint: ...")
    shown = failed(tmp_path, RuntimeError("\n  Failed to run stage backward:\n  Stage output: [...]"), inner)
    assert shown == "Failed to run stage backward: a variable was modified by an inplace operation"


def test_an_error_that_repeats_its_cause_tells_it_once(tmp_path: Path) -> None:
    assert failed(tmp_path, RuntimeError("cannot trace: no such thing"), ValueError("no such thing")) == (
        "cannot trace: no such thing"
    )
    assert failed(tmp_path, ValueError()) == "ValueError"


def test_a_thread_of_the_model_does_not_keep_a_rank_alive() -> None:
    script = (
        "import threading, time\n"
        "from explorer.runner.rank import end\n"
        "threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "print('done')\n"
        "end(3)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stdout) == (3, "done\n")


@pytest.mark.parametrize("program", [rank, calibrate])
def test_a_rank_that_fails_does_not_wait_for_messages_that_never_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Any
) -> None:
    def fails(*_: object) -> None:
        raise RunError("the reason")

    closed: list[str] = []
    request = RunRequest(backend=Backend.CPU, pin=False)
    (tmp_path / "request.json").write_text(json.dumps(request_json(request)), encoding="utf-8")
    (tmp_path / "plan.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(rank, "read_plan", lambda *_: None)
    monkeypatch.setattr(program, "probe" if program is rank else "calibrate", fails)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(rank, "connect", lambda *_: torch.device("cpu"))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: closed.append("closed"))
    with pytest.raises(RunError, match="the reason"):
        program.run(tmp_path, 0)
    assert not closed
