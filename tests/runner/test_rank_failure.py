"""How a rank ends, and what it says of its failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from explorer.runner import rank


def failed(folder: Path, error: Exception, cause: Exception | None = None) -> str:
    try:
        raise error from cause
    except Exception as raised:
        rank._fail(folder, 0, raised)
    message: str = json.loads((folder / "failure-0.json").read_text())["message"]
    return message


def test_an_error_that_wraps_another_tells_both(tmp_path: Path) -> None:
    inner = RuntimeError("a variable was modified by an inplace operation\nHint: ...")
    told = failed(tmp_path, RuntimeError("\n  Failed to run stage backward:\n  Stage output: [...]"), inner)
    assert told == "Failed to run stage backward: a variable was modified by an inplace operation"


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
