"""Clusters of up to a thousand devices: CPU seconds of `plan` to its first plan and to its end.

pytest -m benchmark tests/benchmarks/auto/test_many_devices.py -s
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

DEVICES = (64, 128, 256, 512, 1024)

COMMAND = """
import json, sys, time
from explorer.cli import main
from explorer.cli.terminal import progress

first = []

class FirstPlan(progress.ProgressLine):
    def __call__(self, step, plan):
        if plan is not None and not first:
            first.append(time.process_time())

progress.ProgressLine = FirstPlan
status = main(sys.argv[1:])
print(json.dumps([*first, time.process_time()]), file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize("model", ["gpt-small", "gpt"])
def test_first_plan_and_end_of_a_search_of_a_third_of_a_second(model, tmp_path: Path):
    """A new process each, from a traced graph; the second run counts, which loads kernels and compiles none."""
    graph = tmp_path / "graph.json"
    trace = [sys.executable, "-m", "explorer", "trace", model, "-o", str(graph)]
    subprocess.run(trace, check=True, capture_output=True)
    rows = []
    for devices in DEVICES:
        flags = f"--devices {devices} --devices-per-node 8 --replicate --time-limit 0.3 --no-library --json"
        for _ in range(2):
            command = [sys.executable, "-c", COMMAND, "plan", str(graph), *flags.split()]
            ended = subprocess.run(command, check=True, capture_output=True, text=True)
        first_s, end_s = json.loads(ended.stderr.splitlines()[-1])
        found = json.loads(ended.stdout)
        rows.append((model, f"{devices:,}", f"{first_s:.2f}", f"{end_s:.2f}", f"{found['objective_s']:.5g}"))
        print(*rows[-1], flush=True)
    header = ("model", "H100", "first plan, CPU s", "end, CPU s", "iteration, s")
    show("A limit of 0.3 s on many devices", header, rows, "numpy", "numba")
