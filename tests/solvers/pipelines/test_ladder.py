"""Simpler questions: which they are, and that their plans are plans of the question."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import pytest

from solvers.evaluation.evaluate import judge
from solvers.pipelines.ladder import simpler
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.problem import Objective, Problem
from solvers.search.effort import Effort
from tests.instances import problem, training_graph


def chain(devices: int, max_replicas: int = 1, **options: object) -> Problem:
    edges = [(i, i + 1) for i in range(7)]
    options.setdefault("objective", Objective.ITERATION)
    return problem(
        training_graph(edges, 8, nbytes=0.01, param_bytes=10.0), [1, 2, 3, 4] * 4, devices, mini_batch=8,
        micro_batches=None, max_replicas=max_replicas, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("devices", "replicas", "question"),
    [
        (1, 1, []),
        (2, 1, []),
        (3, 1, [(2, 1)]),
        (4, 1, [(2, 1)]),
        (5, 1, [(4, 1)]),
        (16, 1, [(8, 1)]),
        (2, 2, [(2, 1)]),
        (8, 8, [(8, 1), (4, 4)]),
    ],
)
def test_the_steps_lead_down_to_two_devices_and_no_replicas(devices: int, replicas: int, question: list) -> None:
    questions = [one.question for one in simpler(chain(devices, replicas))]
    assert [(len(one.cluster), one.max_replicas) for one in questions] == question


def test_pinned_operators_keep_their_devices() -> None:
    (fewer,) = simpler(chain(4, pins={0: 3}))
    assert fewer.devices == (0, 3)
    assert fewer.question.pins == {0: 1}


def test_the_first_devices_keep_their_links() -> None:
    cluster = uniform_cluster([Device(f"GPU {i}", "gpu", 1e9) for i in range(4)], 5.0, 0.5)
    few = cluster.part((0, 1))
    assert few.devices == cluster.devices[:2]
    assert {(link.src, link.dst) for link in few.links} == {(0, 1), (1, 0)}
    assert few.link(0, 1) == cluster.link(0, 1)


@pytest.mark.parametrize("devices", [3, 4, 6])
def test_a_plan_of_a_simpler_question_is_one_of_the_question_and_takes_as_long(devices: int) -> None:
    p = chain(devices, 2)
    for one in simpler(p):
        result = solve(one.question, "graph-pipeline", effort=Effort.QUICK)
        assert result.plan is not None
        plan = one.answer(result.plan)
        assert not check(p, plan)
        assert judge(p, plan).objective_s == result.objective_s < math.inf


@pytest.mark.first(1)
@pytest.mark.parametrize("devices", [2, 3, 4, 5, 6])
def test_no_answer_is_behind_that_of_a_simpler_question(devices: int) -> None:
    p = chain(devices, 2)
    seconds = solve(p, "graph-pipeline", effort=Effort.QUICK).objective_s
    for one in simpler(p):
        assert seconds <= solve(one.question, "graph-pipeline", effort=Effort.QUICK).objective_s * (1 + 2e-6)


@pytest.mark.parametrize(
    ("devices", "replicas", "question"),
    [
        (2, 1, []),
        (5, 1, [(4, 1)]),
        (16, 1, [(15, 1)]),
        (17, 1, [(16, 1)]),
        (40, 1, [(32, 1)]),
        (6, 6, [(6, 1), (5, 5)]),
    ],
)
def test_a_ladder_of_single_steps_goes_down_one_by_one_from_sixteen(
    devices: int, replicas: int, question: list
) -> None:
    questions = [one.question for one in simpler(chain(devices, replicas), one_by_one=True)]
    assert [(len(one.cluster), one.max_replicas) for one in questions] == question


def branches(devices: int, max_replicas: int) -> Problem:
    """Branches of unequal work with messages that cost about as much: more devices than branches help little."""
    edges = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (2, 5), (3, 5), (4, 6), (5, 6), (6, 7)]
    seconds = [1, 3, 2, 4, 2, 3, 1, 2] * 2
    return problem(
        training_graph(edges, 8, nbytes=2.0, param_bytes=1.0), seconds, devices, mini_batch=8, micro_batches=None,
        max_replicas=min(max_replicas, devices), objective=Objective.ITERATION,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 8])
def test_with_auto_a_device_more_is_never_worse(replicas: int) -> None:
    values = [solve(branches(devices, replicas), effort=Effort.QUICK).objective_s for devices in (1, 2, 3, 5, 6, 7, 8)]
    for fewer_s, more_s in pairwise(values):
        assert more_s <= fewer_s * (1 + 1e-9)


def test_with_auto_every_question_of_a_ladder_is_answered_once() -> None:
    trace = solve(branches(5, 5), effort=Effort.QUICK).trace
    notes = Counter(step.note for step in trace if step.note.startswith("the same on"))
    assert "the same on 4 devices without replicas" in notes
    assert set(notes.values()) == {1}
