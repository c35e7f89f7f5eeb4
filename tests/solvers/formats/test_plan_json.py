"""plan.json holds all that a plan was judged by, and notices when that was changed."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from solvers.errors import InvalidPlan, InvalidProblem, PlacementError
from solvers.formats.plan_json import read_plan, write_plan
from solvers.plan.plan import Action, Message, Plan, Stage
from solvers.plan.result import Result, Status, StopReason
from solvers.problem.problem import Problem
from tests.instances import forward_graph
from tests.instances import problem as make
from tests.solvers.formats.graphs import planned

PROBLEM = make(forward_graph([(0, 1)], 2, nbytes=8), [1.0, 2.0])
PLAN = Plan((Stage((0,), (0,)), Stage((1,), (1,))), ((Action(0, "F"),), (Action(1, "F"),)), "none")


@settings(deadline=None, max_examples=40)
@given(planned())
def test_round_trip_loses_nothing(case: tuple[Problem, Plan]) -> None:
    problem, plan = case
    read = read_plan(write_plan(problem, plan, None, "somewhere"))
    assert (read.plan, read.result, read.reference) == (plan, None, "somewhere")
    for name in ("graph", "cluster", "objective", "contiguity", "transfers", "execution", "pipeline", "transfer_s",
                 "stated_bytes", "mini_batch", "micro_batches", "training", "optimizer", "precision", "zero", "pins",
                 "costs_from"):  # fmt: skip
        assert getattr(read.problem, name) == getattr(problem, name)
    for kind, table in problem.compute.seconds.items():
        np.testing.assert_array_equal(read.problem.compute.seconds[kind], table)
    assert read.problem.as_traced.graph == problem.as_traced.graph
    for kind, table in problem.as_traced.compute.seconds.items():
        np.testing.assert_array_equal(read.problem.as_traced.compute.seconds[kind], table)


def test_keeps_the_result() -> None:
    result = Result(
        PROBLEM, PLAN, Status.FEASIBLE, StopReason.TIME_LIMIT, 3.0, 2.0, 0.5, "equal", {"a": 1, "b": math.inf}, 7,
        notes=("said",),
    )  # fmt: skip
    read = read_plan(write_plan(PROBLEM, PLAN, result)).result
    assert read is not None
    assert (read.status, read.stop_reason, read.objective_s, read.bound_s) == ("FEASIBLE", "TIME_LIMIT", 3.0, 2.0)
    assert (read.planner, read.planner_options, read.seed, read.notes) == ("equal", {"a": 1, "b": None}, 7, ("said",))


def broken(change: str) -> dict:
    value = json.loads(write_plan(PROBLEM, PLAN))
    exec(change, {"value": value, "plan": value["plan"], "problem": value["problem"], "graph": value["graph"]})
    return value


def test_a_graph_that_does_not_fit_its_hash_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="graph_sha256: the embedded graph is not the one that was planned"):
        read_plan(broken("graph['operators'][0].update(param_bytes=1)"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("value.update(version='1\\n2')", r"reads versions 1, 2 and 3 of placement-explorer/plan, found '1\\n2'"),
        ("value.update(version=99)", "this program reads versions 1, 2 and 3 of placement-explorer/plan, found 99"),
        ("plan['stages'][0].update(operators=[5])", r"plan.stages\[0\].operators\[0\]: expected an integer"),
        ("plan['stages'][0].update(devices=[5])", r"plan.stages\[0\].devices\[0\]: expected an integer from 0 to 1"),
        ("plan['stages'][0].update(operators=[])", r"plan.stages\[0\]: a stage has no operators"),
        ("plan.update(order=[[]])", "plan.order: expected a list of 2, found a list of 1"),
        ("plan.update(order=[['0X0'], []])", "'0X0' is not an action"),
        ("plan.update(order=[['7F0'], []])", "7F0 names stage 7, but there are 2 stages"),
        ("plan['order'].reverse()", r"plan.order\[0\]\[0\]: 1F0 is on device 0, but stage 1 runs on device 1"),
        ("plan.update(order=[['0F0'], []])", r"plan.stages\[1\]: no action in the order runs operator 'b'"),
        ("problem.update(mini_batch=0)", "problem.mini_batch: expected an integer >= 1"),
        ("problem.update(micro_batches=3)", "problem: micro_batches must divide"),
        ("problem.update(pins=[[0, 9]])", "there is no device 9"),
        ("problem.update(objective='speed')", "problem.objective: expected one of max-load"),
    ],
)  # fmt: skip
def test_refusal_says_where_and_what(change: str, message: str) -> None:
    with pytest.raises((InvalidProblem, InvalidPlan), match=message) as caught:
        read_plan(broken(change))
    assert isinstance(caught.value, PlacementError)
    assert "\n" not in str(caught.value)


STATED = replace(PLAN, messages=(("0->1", (Message(Action(0, "F"), 1),)), ("1->0", ())))


def test_a_stated_order_of_messages_is_version_2() -> None:
    text = write_plan(PROBLEM, STATED)
    assert json.loads(text)["version"] == 2
    assert json.loads(text)["plan"]["messages"] == {"0->1": ["0F0>1"], "1->0": []}
    assert read_plan(text).plan == STATED


def test_without_one_files_are_those_of_version_1() -> None:
    value = json.loads(write_plan(PROBLEM, PLAN))
    assert value["version"] == 1
    assert list(value["plan"]) == ["pipeline", "stages", "order"]
    assert read_plan(value).plan == PLAN
    value |= {"version": 2, "plan": value["plan"] | {"messages": {}}}
    assert read_plan(value).plan == PLAN


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("value.update(version=1)", "plan.messages: unknown field"),
        ("value.update(version=4)", "this program reads versions 1, 2 and 3 of placement-explorer/plan, found 4"),
        ("del plan['messages']", "plan.messages: missing"),
        ("plan.update(messages=[])", "plan.messages: expected an object, found a list of 0"),
        ("plan.update(messages={'0->1': [3]})", r"plan.messages\['0->1'\]\[0\]: expected a text"),
        ("plan.update(messages={'0->1': ['0F0']})", r"plan.messages\['0->1'\]\[0\]: '0F0' is not a message"),
        ("plan.update(messages={'0->1': ['7F0>1']})", "7F0>1 names stage 7 and device 1, but there are 2 stages"),
        ("plan.update(messages={'0->1': ['0F0>1', '0F9>1']})", r"\['0->1'\]\[1\]: 0F9>1 does not cross this link"),
        ("plan.update(messages={'0->1': ['0F0>1'] * 2})", r"0F0>1 is there twice \(first at messages\['0->1'\]"),
        ("plan.update(messages={'0->1': []})", r"plan.messages\['0->1'\]: 0F0>1 is missing"),
        ("plan.update(messages={'x\\n': []})", r"plan.messages\['x '\]: there is no such link"),
        ("problem.update(transfers='lane')", "plan.messages: their order is stated, but the transfer model is lane"),
    ],
)  # fmt: skip
def test_a_spoiled_order_of_messages_is_refused(change: str, message: str) -> None:
    value = json.loads(write_plan(PROBLEM, STATED))
    exec(change, {"value": value, "plan": value["plan"], "problem": value["problem"]})
    with pytest.raises((InvalidProblem, InvalidPlan), match=message) as caught:
        read_plan(value)
    assert "\n" not in str(caught.value)
