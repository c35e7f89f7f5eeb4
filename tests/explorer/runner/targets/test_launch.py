"""The launcher of ranks on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOPBACK = "0100007F"
"""127.0.0.1 in /proc/net/tcp."""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc")
def test_nothing_listens_on_other_interfaces_than_the_loopback(tmp_path):
    command = ["-m", "explorer.runner.targets.launch", "2", "tests.explorer.runner.targets.listening", str(tmp_path)]
    environ = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *command], env=environ, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        addresses = (tmp_path / f"{rank}.txt").read_text().split()
        assert addresses
        assert set(addresses) == {LOOPBACK}
