"""Integer programs through PuLP: true statuses, live answers, and an end at once."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from solvers.plan.result import StopReason
from solvers.programs.background import Background
from solvers.programs.integer_program import Model
from solvers.programs.mip import read_cbc_log
from solvers.programs.mip_search import solve_model
from solvers.search.monitor import Monitor, Stop
from tests.instances import forward_graph, problem

pytest.importorskip("pulp", reason="the integer programs need PuLP: pip install 'placement-explorer[planners]'")
BOTH = pytest.mark.parametrize("solver", ["highs", "cbc"])


def partition(weights, parts=2):
    """Divide weights so that the largest sum is least. Variable 0 is that sum."""
    model = Model()
    largest = model.variable(0.0, math.inf, cost=1.0)
    x = [[model.binary() for _ in range(parts)] for _ in weights]
    for row in x:
        model.row([(v, 1.0) for v in row], 1.0, 1.0)
    for part in range(parts):
        model.row([(largest, 1.0), *((row[part], -w) for row, w in zip(x, weights, strict=True))], least=0.0)
    return model


def hard():
    """A search of hours: a hundred weights, and tensors between random pairs of them."""
    rng = random.Random(0)
    model = partition([rng.uniform(1, 1000) for _ in range(100)], 5)
    for _ in range(300):
        a, b = 1 + 5 * rng.randrange(100), 1 + 5 * rng.randrange(100)
        for part in range(5):
            split = model.variable(cost=0.1)
            for sign in (1.0, -1.0):
                model.row([(split, 1.0), (a + part, -sign), (b + part, sign)], least=0.0)
    return model


def monitor(**options):
    return Monitor(problem(forward_graph([], 1), [1.0]), **options)


def solved(model, **options):
    incumbents, bounds = [], []
    outcome = solve_model(model, monitor(), incumbents.append, bounds.append, **options)
    return outcome, incumbents, bounds


@BOTH
def test_no_version_of_a_solver_calls_a_worse_answer_optimal(solver):
    """2x + 3z with x + z >= 4.5, z whole: 9 with x = 4.5. HiGHS 1.14.0 says 15 unless its presolve is off."""
    model = Model()
    x, z = model.variable(0.0, 10.0, cost=2.0), model.variable(0.0, 10.0, integer=True, cost=3.0)
    model.row([(x, 1.0), (z, 1.0)], least=4.5)
    outcome, incumbents, _ = solved(model, solver=solver)
    assert outcome.optimal
    assert model.objective_at(incumbents[-1]) == pytest.approx(9.0)


@BOTH
def test_weights_are_shared_out_best(solver):
    outcome, incumbents, bounds = solved(partition([8, 7, 6, 5, 4]), solver=solver)
    assert outcome.optimal
    assert not outcome.infeasible
    assert incumbents[-1][0] == pytest.approx(15.0)
    assert 14.9 < outcome.bound == bounds[-1] <= 15.0


@BOTH
def test_what_has_no_solution_is_called_infeasible(solver):
    model = Model()
    x = [model.binary() for _ in range(3)]
    model.row([(v, 2.0) for v in x], 3.0, 3.0)
    outcome, incumbents, _ = solved(model, solver=solver)
    assert outcome.infeasible
    assert not outcome.optimal
    assert (incumbents, outcome.bound) == ([], math.inf)


@BOTH
def test_a_linear_program_without_integers_is_solved_too(solver):
    model = Model()
    a, b = model.variable(0, 3, cost=-1.0), model.variable(-math.inf, math.inf, cost=1.0)
    model.row([(a, 1.0), (b, -1.0), (a, 1.0)], most=4.0)
    outcome, incumbents, _ = solved(model, solver=solver)
    assert outcome.optimal
    assert incumbents[-1] == pytest.approx([0.0, -4.0])
    assert outcome.bound == pytest.approx(-4.0, rel=1e-5)


def test_a_start_is_taken_up_and_better_values_meanwhile_too():
    model = hard()
    values = [0.0] * len(model)
    for item in range(100):
        values[1 + 5 * item] = 1.0
    values[0] = sum(-c for c in model.rows[100][1][1:])
    model.start = list(values)
    assert model.violation(values) < 1e-9
    assert model.violation([0.0, *values[1:]]) > 1.0
    better = list(values)
    sums = [0.0] * 5
    for item in range(100):
        better[1 + 5 * item : 6 + 5 * item] = [float(part == item % 5) for part in range(5)]
        sums[item % 5] -= model.rows[100 + item % 5][1][1 + item]
    for v, (members, _, _, _) in enumerate(model.rows[105:]):
        if len(members) == 3 and v % 2 == 0:
            better[members[0]] = abs(better[members[1]] - better[members[2]])
    better[0] = max(sums)
    assert model.violation(better) < 1e-6
    messages = []

    def on_incumbent(values):
        messages.append(model.objective_at(values))
        if messages[-1] <= model.objective_at(better) + 1e-6:
            raise Stop(StopReason.FINISHED)

    offers = iter([None, better])
    with pytest.raises(Stop):
        solve_model(model, monitor(time_limit_s=240), on_incumbent, better=lambda: next(offers, None))
    assert messages[0] <= model.objective_at(values) + 1e-6


def test_a_stop_ends_the_child_at_once():
    requests = []

    def should_stop():
        requests.append(time.perf_counter())
        return len(requests) > 20

    with pytest.raises(Stop):
        solve_model(hard(), monitor(should_stop=should_stop), lambda _: None)


def test_a_limit_of_its_own_ends_a_search_with_its_bound():
    outcome, _, bounds = solved(hard(), limit_s=1.0)
    assert not outcome.optimal
    assert not outcome.infeasible
    assert outcome.bound == max(bounds, default=-math.inf)


def test_what_goes_wrong_in_the_child_is_noted_and_proves_nothing():
    model = partition([1, 2])
    model.rows.append(([99], [1.0], 0.0, 1.0))  # there is no such variable
    watched = monitor()
    outcome = solve_model(model, watched, lambda _: None)
    assert (outcome.optimal, outcome.infeasible) == (False, False)
    assert watched.notes == ["the integer program ended early: IndexError: list index out of range"]


def test_a_child_that_is_killed_from_outside_is_distinguished_from_one_that_ended():
    with Background(
        "mip", {"model": hard().to_message(), "solver": "highs", "seed": 0, "nodes": None, "ends_at": math.inf}
    ) as child:
        assert child.error is None
        os.kill(child.process.pid, signal.SIGKILL)
        while not child.done:
            time.sleep(0.01)
        assert "ended unexpectedly" in child.error
    child.close()


def test_only_the_listed_tasks_can_run():
    with pytest.raises(ValueError, match=r"no background task 'os:system'; there are: .*mip"):
        Background("os:system", {})


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
def test_the_child_ends_with_its_parent():
    code = (
        "import math, time\nfrom solvers.programs.background import Background\n"
        "from tests.solvers.programs.test_mip import hard\n"
        "child = Background('mip', {'model': hard().to_message(), 'solver': 'highs', 'seed': 0, 'ends_at': math.inf})\n"
        "while not child.poll(): time.sleep(0.01)\nprint(child.process.pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    for _ in range(6000):
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("the child outlived its parent")


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("Result - Optimal solution found\n\nObjective value:                2353.00000000\n", ("optimal", 2353.0)),
        (
            "Result - Optimal solution found (within gap tolerance)\n\nObjective value: 2353.0\nLower bound: 2300.5\n",
            ("stopped", 2300.5),
        ),
        (
            "Result - Stopped on time limit\n\nObjective value:   130684660.0\nLower bound:     125095569.200\n",
            ("stopped", 125095569.2),
        ),
        ("Result - Problem proven infeasible\n", ("infeasible", -math.inf)),
        ("Problem is infeasible - 0.00 seconds\n", ("infeasible", -math.inf)),
        ("Pre-processing says infeasible or unbounded\n", ("infeasible", -math.inf)),
        ("Optimal - objective value -4\nOptimal objective -4 - 0 iterations\n", ("optimal", -4.0)),
        ("", ("stopped", -math.inf)),
    ],
)
def test_the_log_of_cbc_is_read_for_what_was_proved(log, expected):
    assert read_cbc_log(log) == expected
