"""Results and what they are made of go to other processes, and show themselves in a line or two."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import explorer
from solvers.evaluation.evaluate import examine
from solvers.formats.plan_json import write_plan
from solvers.plan.result import Result


def planned(devices: int) -> Result:
    return explorer.plan(explorer.trace("gpt-small"), devices=devices, planner="equal")


@pytest.fixture(scope="module")
def result() -> Result:
    return planned(2)


def test_a_process_pool_returns_a_result(result: Result) -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        outcome = pool.submit(planned, 2).result()
    assert (outcome.plan, outcome.objective_s) == (result.plan, result.objective_s)


def test_a_pickled_result_is_the_same_without_what_was_derived(result: Result) -> None:
    twin = pickle.loads(pickle.dumps(result))
    assert twin.plan is not None
    assert write_plan(twin.problem, twin.plan, twin, "m") == write_plan(result.problem, result.plan, result, "m")
    assert result.problem.graph._derived
    assert not twin.problem.graph._derived
    assert not twin.problem.cluster._derived
    assert not twin.plan._derived


def test_what_a_result_is_made_of_has_a_short_repr(result: Result) -> None:
    values = (result, result.plan, result.problem, result.problem.graph, result.problem.cluster)
    values += (examine(result.problem, result.plan)[1], explorer.trace("gpt-small"))
    for value in values:
        assert len(repr(value)) < 400
        assert repr(value).count("\n") < 2
