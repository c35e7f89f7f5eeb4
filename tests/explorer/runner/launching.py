"""Tests that start processes of their own: a module with a folder, in which it leaves results.json."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest


def run_module(module: str, folder: Path, *arguments: str) -> None:
    """Runs ``python -m module folder arguments`` to its end, with its output in the folder's log. A process that fails
    takes those that wait for it along."""
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", module, str(folder), *arguments],
            cwd=Path(__file__).parents[3], stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            running.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


def launched(module: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """What it leaves in results.json; the test fails with its log where it leaves nothing."""
    run_module(module, folder, *arguments)
    if not (folder / "results.json").exists():
        pytest.fail(f"a process failed:\n{(folder / 'log').read_text()[-6000:]}")
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return results
