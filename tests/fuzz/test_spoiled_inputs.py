"""Many spoiled inputs for every reader: how many are read, how many refused in one line, and no fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]
CASES = 20_000


def test_every_reader_reads_or_refuses_in_one_line() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--cases", str(CASES), "--seed", "1"]
    ran = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
