"""Copies of tied parameters: who holds them, what that takes, and where there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import judge
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import read_plan, write_plan
from solvers.plan.plan import Plan
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from solvers.problem.problem import ComputeTable, Objective, Problem
from solvers.problem.tied import Copies, copies_of, copying, tied, with_copies
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.instances import training_graph
from tests.oracle.compare import disagreement

NAME = "embedding.weight = head.weight"


def ends(readers: tuple[int, ...] = (0, 2), names: str = NAME) -> Problem:
    """An embedding of 40 bytes, a layer of 10, and a head that reads the embedding's and has 3 of its own; 1 s each,
    2 micro-batches, two devices."""
    sizes = (40.0, 10.0, 3.0)
    operators = tuple(
        Operator(name, param_bytes=size, colocation=names if i in readers else None)
        for i, (name, size) in enumerate(zip(("embedding", "layer", "head"), sizes, strict=True))
    )
    tensors = tuple(Tensor(i, (i + 1,), Amount(per_sample=1.0)) for i in range(2))
    cluster = uniform_cluster((Device("GPU 0", "gpu"), Device("GPU 1", "gpu")), 1e9, 0.0)
    table = ComputeTable((1,), {"gpu": np.ones((3, 1))})
    return Problem(OpGraph(operators, tensors), cluster, table, mini_batch=2, micro_batches=2, training=False)


def separate(problem: Problem) -> Plan:
    return assemble(problem, [(0,), (0,), (1,)], 2)


def test_without_copies_both_ends_share_a_device_and_with_them_they_need_not() -> None:
    problem = ends()
    assert "must share a device" in judge(problem, separate(problem)).violation
    copied = copying(problem)
    plan = separate(copied)
    assert judge(copied, plan).feasible
    assert check(copied, plan) == ()
    assert solve(problem, "brute-force").objective_s == pytest.approx(6.0)
    assert solve(copied, "brute-force").objective_s == pytest.approx(5.0)


def test_each_reader_holds_a_copy_in_all_three_implementations() -> None:
    copied = copying(ends())
    plan = separate(copied)
    schedule = simulate(copied, plan)
    assert [curve.static_bytes for curve in schedule.memory] == [50.0, 43.0]
    assert verify(copied, plan, schedule) == ()
    assert not disagreement(copied, plan, Objective.ITERATION)
    assert copies_of(copied, plan.placement()) == (Copies(NAME, (0, 1), 40.0),)


def test_a_copy_that_is_not_counted_is_noticed() -> None:
    copied = copying(ends())
    operators = tuple(
        replace(o, param_bytes=3.0 if o.name == "head" else o.param_bytes) for o in copied.graph.operators
    )
    without = replace(copied, graph=replace(copied.graph, operators=operators))
    assert verify(copied, separate(copied), simulate(without, separate(without)))


def test_three_readers_hold_three() -> None:
    graph = with_copies(ends((0, 1, 2)).graph)
    assert [o.param_bytes for o in graph.operators] == [40.0, 50.0, 53.0]
    assert {o.colocation for o in graph.operators} == {None}


def test_a_parameter_under_one_name_is_read_on_one_device() -> None:
    """A layer that is unrolled over time would be copied at every step."""
    problem = ends(names="layer.weight")
    assert tied(problem.graph) == {}
    assert with_copies(problem.graph) is problem.graph


def test_a_file_says_that_there_are_copies_and_holds_the_graph_as_traced() -> None:
    copied = copying(ends())
    plan = separate(copied)
    text = write_plan(copied, plan, reference="ends")
    again = read_plan(text)
    assert again.problem.copy_tied
    assert again.problem.graph == copied.graph
    assert again.problem.as_traced.graph == ends().graph
    assert write_plan(again.problem, again.plan, reference="ends") == text
    assert "copy_tied" not in write_plan(ends(), assemble(ends(), [(0,)] * 3, 2))


def test_where_copies_would_be_wrong_or_of_nothing_they_are_refused() -> None:
    table = ComputeTable((1,), {"gpu": np.ones((6, 1))})
    training = replace(ends(), graph=training_graph([(0, 1)], 3), compute=table, training=True)
    with pytest.raises(InvalidProblem, match="gradients would have to be added up between devices"):
        copying(training)
    with pytest.raises(InvalidProblem, match="sizes are stated"):
        copying(replace(ends(), stated_bytes=(1.0, 1.0, 1.0)))
    with pytest.raises(InvalidProblem, match="no tied parameters"):
        copying(ends(names="layer.weight"))
