"""Where nothing is compiled yet: the first question has its answer, however short its time limit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FIRST = """
from solvers.problem.problem import Objective
from solvers.planners.solve import solve
from solvers.contiguous.planners.chain_dp import LinearDP
from solvers.kernels.compiling import Compiling
from tests.instances import forward_graph, problem

chain = problem(forward_graph([(0, 1), (1, 2)], 3), [1.0, 2.0, 3.0], 2, objective=Objective.MAX_LOAD)
with Compiling() as compiling:
    outcome = solve(chain, LinearDP(), time_limit_s=TIME_LIMIT)
print(outcome.status, len(compiling.kernels) > 0, compiling.seconds > TIME_LIMIT, outcome.runtime_s < compiling.seconds)
"""

WARMED = """
import sys
from solvers.kernels.compiling import Compiling
from solvers.planners.warm import main
if __name__ == "__main__":
    assert main(["page"]) == 0
    with Compiling() as compiling:
        from explorer.cli import main
        main(["plan", "gpt-small", "--devices", "4", "--time-limit", "20"])
    print("compiled:", compiling.kernels)
"""


def run(code, cache):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_a_first_plan_comes_within_a_limit_that_compiling_alone_exceeds(tmp_path):
    assert run(FIRST.replace("TIME_LIMIT", "0.3"), tmp_path) == "OPTIMAL True True True"


@pytest.mark.benchmark  # compiles for a minute
@pytest.mark.timeout(600)
def test_nothing_is_left_to_compile_for_the_pages_first_question(tmp_path):
    assert run(WARMED, tmp_path) == "compiled: []"
