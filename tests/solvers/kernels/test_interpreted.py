"""Kernels tell the same bits interpreted and compiled, and are compiled once that is worth it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from solvers.coarsening.coarsen import Condensed
from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import evaluate
from solvers.evaluation.simulation import simulate
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.simulator import Simulator
from solvers.joint.planners.joint import Joint
from solvers.kernels import interpreted as module
from solvers.kernels.interpreted import LOAD_S, WORTH_S, Interpreted, compile_at_once, interpreted, until_worth_it
from solvers.kernels.lazy import njit
from solvers.pipelines.timing.estimate import Estimator
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Execution, Objective, Transfers
from tests.oracle.random_plans import random_plan
from tests.random_problems import random_problem
from tests.solvers.pipelines.test_estimate import draft_of, problem_of


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Every call of a kernel that may run interpreted runs in both forms; how often each was called."""
    calls: Counter[str] = Counter()

    def both(kernel: Interpreted, *args: Any) -> Any:
        given = deepcopy(args)
        compiled = kernel.kernel(*args)
        with np.errstate(all="ignore"):
            plain = interpreted(kernel.kernel)(*given)
        assert list(bits(plain)) == list(bits(compiled)), kernel
        assert list(bits(given)) == list(bits(args)), kernel  # what it wrote
        calls[kernel.kernel.py_func.__name__] += 1
        return compiled

    monkeypatch.setattr(Interpreted, "__call__", both)
    return calls


def bits(value: Any) -> Iterator[bytes | None]:
    if isinstance(value, tuple):
        for item in value:
            yield from bits(item)
    elif isinstance(value, np.ndarray):
        yield np.ascontiguousarray(value).tobytes()
    elif value is None:
        yield None
    else:
        yield np.float64(value).tobytes()


def test_plans_are_simulated_the_same(compared: Counter[str]) -> None:
    for seed in range(160):
        case = random_plan(seed)
        for objective in (Objective.ITERATION, Objective.MAKESPAN) if case else ():
            try:
                simulate(*case, objective)
                evaluate(*case)
            except InvalidPlan:
                continue
    kernels = ("rows_of_order", "routes_of", "tasks_of", "run_tasks", "holds_of", "peaks_of", "curves_of")
    assert all(compared[kernel] > 50 for kernel in kernels), compared


def test_drafts_are_estimated_the_same(compared: Counter[str]) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        problem = problem_of(rng, seed)
        estimator = Estimator(Condensed(problem, ordered=True))
        for _ in range(6):
            estimator.estimate(draft_of(rng, len(estimator), len(problem.cluster.accelerators)))
    assert compared["run_draft"] > 100


@pytest.mark.slow
def test_passes_are_simulated_the_same(compared: Counter[str]) -> None:
    for seed in range(24):
        rng = random.Random(seed)
        problem = random_problem(
            seed, 9, objective=Objective.MAKESPAN, contiguity=Contiguity.NONE, execution=Execution.OPERATOR,
            transfers=rng.choice([Transfers.LINKS, Transfers.LANE]),
        )  # fmt: skip
        for planner in ("m-etf", "heft", Joint(evaluations=40)):
            solve(problem, planner)
        simulator = Simulator(pass_model(problem))
        place = np.array([rng.choice(problem.cluster.accelerators) for _ in simulator.model.groups])
        simulator.by_rank_s(place, simulator.placed_rank(place))
    assert all(compared[kernel] for kernel in ("schedule", "schedule_ranked", "upward_s", "begin", "run_pass"))


@njit
def doubled(values: Any) -> Any:
    return values * 2.0


@njit
def _added(values: Any) -> Any:
    return doubled(values).sum()


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Interpreted:
    kernel = until_worth_it(_added)
    assert isinstance(kernel, Interpreted)
    monkeypatch.setattr(kernel, "_is_cached", lambda args: False)
    monkeypatch.setattr(module, "_worth_s", [WORTH_S])
    monkeypatch.setattr(_added.dispatcher, "_compile_for_args", refuse)
    return kernel


def refuse(*_: object, **__: object) -> None:
    raise RuntimeError("compiled")


def fails(call: Callable[[], object]) -> bool:
    """Whether it asks for the compiled kernel, which may not be compiled here."""
    try:
        call()
    except RuntimeError as error:
        return str(error) == "compiled"
    return False


def test_a_kernel_runs_interpreted_with_all_that_it_calls(added: Interpreted) -> None:
    assert added(np.arange(3.0)) == 6.0
    assert not _added.dispatcher.signatures
    assert not doubled.dispatcher.signatures


def test_a_kernel_that_ran_interpreted_for_long_is_compiled(
    added: Interpreted, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, WORTH_S / 2, 10.0, 10.0 + WORTH_S])
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    assert added(np.arange(3.0)) == 6.0
    assert added(np.arange(3.0)) == 6.0
    assert fails(lambda: added(np.arange(3.0)))


def test_a_kernel_that_would_run_for_long_is_compiled(added: Interpreted) -> None:
    assert fails(lambda: added(np.zeros(4_000_000)))
    assert fails(lambda: added(np.zeros(1)))


def test_a_kernel_that_was_kept_is_not_interpreted(added: Interpreted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added, "_is_cached", lambda args: True)
    assert fails(lambda: added(np.zeros(1)))


def test_numba_is_imported_once_that_is_worth_it(added: Interpreted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then nobody looks whether the kernel was kept."""
    monkeypatch.setattr(module, "is_loaded", lambda: False)
    monkeypatch.setattr(module, "_unloaded_s", [LOAD_S])
    monkeypatch.setattr(added, "_is_cached", lambda args: True)
    clock = iter([0.0, LOAD_S * 2])
    monkeypatch.setattr(time, "thread_time", lambda: next(clock))
    assert added(np.arange(3.0)) == 6.0
    assert fails(lambda: added(np.arange(3.0)))


def test_a_large_call_does_not_wait_for_numba_to_be_worth_it(
    added: Interpreted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_loaded", lambda: False)
    monkeypatch.setattr(module, "_unloaded_s", [LOAD_S])
    monkeypatch.setattr(added, "_is_cached", lambda args: True)
    assert fails(lambda: added(np.zeros(400_000)))


def test_warming_compiles_at_once(added: Interpreted) -> None:
    compile_at_once()
    assert fails(lambda: added(np.zeros(1)))
