"""The search over degrees of tensor parallelism: a table of the best plan for each, and the best of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.question.models.example import of_degree, searches_degrees
from explorer.question.settings import Settings
from explorer.sweeps.degrees import DegreesResult, degrees_to_try, search_degrees
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.plan.result import Status
from solvers.planners.baselines import EqualSplit
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Device, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from solvers.problem.problem import ComputeTable
from tests.explorer.cli.command import Command

DEVICES = 4


def cluster(node: int = DEVICES, memory: float = 1e12) -> Cluster:
    return uniform_cluster([Device(f"G{i}", "k", memory, node=i // node) for i in range(DEVICES)], 1e9)


def traced(seconds: dict[int, float], saved: float = 0.0) -> dict[int, Workload]:
    """A chain of 8 operators that take so long each, by degree; each holds its share of ``saved`` B."""
    workloads = {}
    for degree, each in seconds.items():
        operators = tuple(Operator(f"o{i}", param_bytes=saved / degree) for i in range(8))
        tensors = tuple(Tensor(i, (i + 1,), Amount(0, 1.0)) for i in range(7))
        graph = OpGraph(operators, tensors, samples=1, tensor_parallel=degree)
        compute = ComputeTable((1, 2), {"k": np.array([[each, 2 * each]] * 8)})
        workloads[degree] = Workload(graph, f"m{degree}", compute=compute)
    return workloads


def search(models: dict[int, Workload], devices: Cluster, **settings: object) -> DegreesResult:
    def at(degree: int) -> Workload:
        if degree not in models:
            raise InvalidProblem(f"7 heads cannot be divided over {degree} devices")
        return models[degree]

    options = Settings(cluster=devices, mini_batch=8, **settings)  # type: ignore[arg-type]
    return search_degrees(at, options, devices, EqualSplit(), terms={}, solver=solve)


def test_degrees_divide_every_node() -> None:
    assert degrees_to_try(cluster())[0] == [1, 2, 4]
    tried, refused = degrees_to_try(cluster(node=2))
    assert tried == [1, 2]
    assert "spans nodes" in refused[4]


def test_the_best_degree_is_that_of_the_fastest_plan() -> None:
    models = traced({1: 1e-3, 2: 0.3e-3, 4: 0.25e-3})
    outcome = search(models, cluster(), max_replicas=0)
    assert outcome.workload is models[2]
    rows = {(row.data, row.tensor, row.pipeline): row for row in outcome.result.by_degrees}
    assert set(rows) == {(1, 1, 4), (2, 1, 2), (4, 1, 1), (1, 2, 2), (2, 2, 1), (1, 4, 1)}
    assert outcome.result.objective_s == min(row.objective_s for row in rows.values())
    for (data, tensor, pipeline), row in rows.items():
        assert row.objective_s >= outcome.result.bound_s
        if pipeline == 1:  # every device does its share of the samples, and a whole model
            assert row.objective_s == pytest.approx(8 / data * 8 * {1: 1e-3, 2: 0.3e-3, 4: 0.25e-3}[tensor], rel=1e-3)


def test_a_degree_whose_bound_is_no_better_is_left_out() -> None:
    outcome = search(traced({1: 1e-3, 2: 1e-4, 4: 1.0}), cluster(), max_replicas=0)
    assert outcome.workload.graph.tensor_parallel == 2
    assert any("cannot be faster, by their bounds" in note for note in outcome.result.notes)
    assert any(row.tensor == 4 and row.objective_s < math.inf for row in outcome.result.by_degrees)


def test_the_bound_holds_for_all_degrees() -> None:
    models = traced({1: 1e-3, 2: 0.6e-3, 4: 0.4e-3})
    outcome = search(models, cluster(), max_replicas=0)
    for degree in models:
        alone = search({degree: models[degree]}, cluster(), max_replicas=0)
        assert outcome.result.bound_s <= alone.result.objective_s
        assert outcome.result.objective_s <= alone.result.objective_s


def test_what_has_no_plan_has_a_reason() -> None:
    outcome = search({**traced({1: 1e-3, 2: 1e-3}, saved=100.0)}, cluster(memory=1500.0), max_replicas=0)
    rows = {(row.data, row.tensor, row.pipeline): row for row in outcome.result.by_degrees}
    assert "the fullest device needs" in rows[4, 1, 1].reason
    assert "7 heads" in rows[1, 4, 1].reason
    assert rows[1, 1, 4].objective_s < math.inf
    assert all((row.objective_s == math.inf) == bool(row.reason) for row in rows.values())


def test_where_nothing_fits_it_says_so() -> None:
    outcome = search(traced({1: 1e-3, 2: 1e-3, 4: 1e-3}, saved=1e6), cluster(memory=350.0), max_replicas=0)
    assert outcome.result.plan is None
    assert outcome.result.status in (Status.INFEASIBLE, Status.NO_PLAN)
    assert all(row.reason for row in outcome.result.by_degrees)


def test_no_degree_at_all_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="cannot be divided over 1"):
        search({}, cluster())


def test_a_name_may_leave_the_degree_open() -> None:
    assert searches_degrees("gpt,tensor-parallel=auto")
    assert not searches_degrees("gpt,tensor-parallel=4")
    assert of_degree("gpt,batch=8,tensor-parallel=auto", 4) == "gpt,batch=8,tensor-parallel=4"
    assert of_degree("gpt,batch=8,tensor-parallel=4,sequence-parallel=0", 1) == "gpt,batch=8"


def test_auto_is_the_best_of_the_degrees_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "plan.json"
    question = ("gpt-small", "--devices", 4, "--planner", "equal", "--replicate", 0, "--json", "--no-library")
    ran = Command(capsys)("plan", *question, "--tensor-parallel", "auto", "-o", place)
    assert ran.status == 0, ran.err
    best = ran.json
    alone = [Command(capsys)("plan", *question, "--tensor-parallel", n).json["objective_s"] for n in (1, 2, 4)]
    assert best["objective_s"] == min(alone)
    assert {row["tensor"] for row in best["by_degrees"]} == {1, 2, 4}
    assert best["degrees"]["tensor"] == [1, 2, 4][alone.index(min(alone))]
    assert sum(map(len, best["sent_bytes"].values())) == 6 * len(best["nodes"])
    file = explorer.load(str(place))
    assert [json.loads(json.dumps(row))["tensor"] for row in best["by_degrees"]] == [r.tensor for r in file.by_degrees]
    assert Command(capsys)("check", place).status == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("plan", "gpt-small", "--tensor-parallel", "some"), "must be auto or a whole number"),
        (("plan", "gpt-small", "--tensor-parallel", 0), "must be auto or a whole number"),
        (("plan", "gpt-small", "--tensor-parallel", "auto", "--expert", "x.json"), "leave out --expert"),
        (("plan", "gpt-small", "--tensor-parallel", "auto", "--start", "x.json"), "leave out --start"),
        (("trace", "gpt-small", "--tensor-parallel", "auto"), "auto is for plans"),
        (("plan", "gpt-small", "--tensor-parallel", 8, "--devices", 8), "heads"),
        (("plan", "gpt-small", "--tensor-parallel", 4, "--devices", 8, "--devices-per-node", 2), "one node"),
    ],
)
def test_what_is_no_degree_is_refused_in_a_line(
    flags: tuple[object, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Command(capsys)(*flags)
    assert ran.status == 2
    assert words in ran.err
    assert len(ran.err.strip().splitlines()) == 1
