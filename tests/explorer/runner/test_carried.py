"""A bundle that was carried to another folder, run by hand in a clean environment as two hosts would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra [torch] is not installed")

from explorer.runner.bundles.bundle import Bundle, read_result, write_bundle
from explorer.runner.bundles.outcome import RunStatus
from explorer.runner.bundles.request import Backend, RunRequest
from tests.explorer.runner import plans
from tests.explorer.runner.targets.ray_head import free_ports

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_nodes_on_the_loopback_run_and_verify_a_carried_bundle(tmp_path: Path) -> None:
    request = RunRequest(steps=1, warmup=0, backend=Backend.CPU, verify=True)
    problem = plans.problem_of("gpt-small", devices=2, mini_batch=8, micro_batches=2)
    text = plans.text(problem, plans.solved(problem, "equal"), "gpt-small")
    made = write_bundle(tmp_path / "here", text, request, "local")
    carried = [tmp_path / "one host" / "bundle", tmp_path / "another" / "bundle"]
    for place in carried:
        shutil.copytree(made.folder, place)
    shutil.rmtree(made.folder)
    clean = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "NNODES": "2"}
    clean |= {"MASTER_PORT": str(free_ports(1)[0]), "GLOO_SOCKET_IFNAME": "lo"}
    hosts = [
        subprocess.Popen(
            ["sh", str(place / "run.sh")],
            env={**clean, "NODE_RANK": str(number)},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number, place in enumerate(carried)
    ]
    shown = [host.communicate(timeout=220)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], shown
    assert "agrees with the whole model" in shown[0]
    assert not any("@progress" in each for each in shown)
    outcome = read_result(Bundle(carried[0]))
    assert outcome.status is RunStatus.DONE
    assert outcome.agreement is not None
    assert outcome.agreement.holds
    assert not Bundle(carried[1]).result.exists()
