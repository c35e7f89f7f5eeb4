"""What the engine itself takes of a core, an action, and what makes it cheaper: all in one run, in turn.
BENCHMARK_ROUNDS: iterations of each."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from statistics import fmean

import pytest

from tests.benchmarks.runs.by_torchrun import torchrun_command
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]


def test_what_an_action_takes_of_the_engine(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    command = torchrun_command(file, 2, "tests.benchmarks.runs.engine_ranks")
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    content = json.loads(file.read_text())
    loads = list(next(iter(content.values())))
    rows = [
        [way, *(f"{fmean(seconds / actions for seconds, actions in of[name]) * 1e6:.0f}" for name in loads)]
        for way, of in content.items()
    ]
    show("CPU of the engine an action, microseconds, mean of two pinned ranks", ["", *loads], rows, "torch")
    assert len(rows) == 4
