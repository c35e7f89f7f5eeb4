"""A placement made by hand is read from a file and judged like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.question.expert import load_expert
from explorer.question.loading import load
from explorer.question.planner_choice import choose_planner
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.errors import InvalidProblem, UnsupportedProblem
from solvers.formats.workload import Workload
from solvers.plan.result import Status
from solvers.planners.expert import Expert
from solvers.planners.solve import solve
from solvers.problem.problem import Objective, Problem
from tests.explorer.cli.command import workload, write
from tests.solvers.formats.test_pipedream import text
from tests.solvers.msr_instances import FOLDER, needs_workloads, references

LATENCY = FOLDER / "latency"


def chain(tmp_path: Path, **changes: object) -> Workload:
    return load(str(write(tmp_path, workload(**changes))))


def placed(tmp_path: Path, value: object) -> Path:
    return write(tmp_path, value, "expert.json")


def test_ids_of_an_msr_file(tmp_path: Path) -> None:
    model = chain(tmp_path)
    expert = load_expert(
        str(placed(tmp_path, {"fpgas": [{"nodes": [0, 1]}, {"nodes": [2]}], "cpus": [{"nodes": [3]}]})), model
    )
    assert expert == Expert((0, 0, 1, 2))
    result = solve(make_problem(model, Settings()), expert)
    assert (result.status, result.objective_s) == (Status.FEASIBLE, pytest.approx(0.04))  # the CPU's 40 ms


def test_ids_follow_the_devices_planned_for(tmp_path: Path) -> None:
    model = chain(tmp_path)
    problem = make_problem(model, Settings(devices=4))
    file = placed(tmp_path, {"fpgas": [{"nodes": [0]}, {"nodes": [1]}, {"nodes": [2]}], "cpus": [{"nodes": [3]}]})
    assert load_expert(str(file), model, problem.cluster).placement == (0, 1, 2, 4)
    with pytest.raises(InvalidProblem, match="uses 3 fpgas, the workload has 2"):
        load_expert(str(file), model)


def test_names_of_operators_or_modules(tmp_path: Path) -> None:
    model = load(str(write(tmp_path, text(), "graph.txt")))
    expert = load_expert(str(placed(tmp_path, {"Conv2d_4": 0, "getitem_3": 0, "Add_10": 1})), model)
    assert expert.placement == (0, 0, 1, 0, 0, 1)  # backward operators follow their forward


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "expected a JSON object"),
        ({"a": "0"}, "'a': expected the index of a device, found '0'"),
        ({"a": True}, "expected the index of a device"),
        ({"a": -1}, "expected the index of a device"),
        ({"z": 0}, "there is no operator or module 'z'"),
        ({"a": 0, "b": 1, "c": 1}, "1 operator has no device, nor has a module around them: 'd'"),
        ({"a": 0}, "3 operators have no device, nor has a module around them: 'b', 'c', 'd'"),
        ({"cpus": [], "fpgas": [{"nodes": [0, 1, 2]}]}, "operator 'd' has no device, nor has its group"),
        ({"cpus": [], "fpgas": [{"nodes": [9]}]}, "no node with id 9"),
        ({"cpus": [], "fpgas": 3}, "'fpgas' must be a list"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, value: object, message: str) -> None:
    model, path = chain(tmp_path), placed(tmp_path, value)
    with pytest.raises(InvalidProblem, match=message) as refusal:
        load_expert(str(path), model)
    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)


def test_ids_need_a_workload_that_has_them(tmp_path: Path) -> None:
    model = load(str(write(tmp_path, text(), "graph.txt")))
    path = placed(tmp_path, {"cpus": [], "fpgas": [{"nodes": [1]}]})
    problem = make_problem(model, Settings(devices=2))
    for cluster in (None, problem.cluster):
        with pytest.raises(InvalidProblem, match=r"ids of an MSR 2020 workload, and .*graph.txt is none"):
            load_expert(str(path), model, cluster)


def problem_of(tmp_path: Path, **changes: object) -> Problem:
    return make_problem(chain(tmp_path, **changes), Settings())


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ((), "give the file that holds one"),
        ((0, 0), "of 2 operators, the graph has 4"),
        ((0, 0, 0, 7), "uses device 7, and there are 3 devices"),
    ],
)
def test_what_is_no_placement_of_this_problem(tmp_path: Path, placement: tuple[int, ...], message: str) -> None:
    with pytest.raises(UnsupportedProblem, match=message):
        solve(problem_of(tmp_path), Expert(placement))


@pytest.mark.parametrize(
    ("placement", "changes", "message"),
    [
        ((0, 1, 0, 1), {}, "the devices form a cycle"),
        ((0, 0, 0, 0), {"maxSizePerFPGA": 30.0}, "needs 40 bytes at its peak"),
    ],
)
def test_a_placement_that_breaks_a_rule_is_no_plan_and_a_note(
    tmp_path: Path, placement: tuple[int, ...], changes: dict[str, object], message: str
) -> None:
    result = solve(problem_of(tmp_path, **changes), Expert(placement))
    assert result.status is Status.NO_PLAN
    assert any("the placement is no plan" in note and message in note for note in result.notes)


def test_it_is_no_option_of_the_command_line() -> None:
    with pytest.raises(InvalidProblem, match="read from a file"):
        choose_planner("expert:placement=0")


def expert_file(name: str) -> Path:
    path = FOLDER / "experts" / f"{name.removeprefix('layer-')}_expert.json"
    return path if path.exists() else path.with_name(path.name.replace("training", "inference"))


@needs_workloads
@pytest.mark.parametrize("name", [n for n, r in references().items() if "expert" in r["baselines"]])
def test_published_throughput(name: str) -> None:
    model = load(str(FOLDER / "throughput" / f"{name}.json"))
    result = solve(make_problem(model, Settings()), load_expert(str(expert_file(name)), model))
    assert result.objective_s * 1e3 == pytest.approx(references()[name]["baselines"]["expert"], rel=1e-5)


def latency_references() -> dict:
    return json.loads((FOLDER / "reference.json").read_text())["latency"] if FOLDER.is_dir() else {}


@needs_workloads
@pytest.mark.parametrize("name", [n for n, r in latency_references().items() if "expert" in r])
def test_published_latency_where_memory_allows_it(name: str) -> None:
    reference = latency_references()[name]
    model = load(str(LATENCY / f"{name}.json"))
    devices = max(reference["accelerators"], 6)  # the experts had six, bert24's file has five
    settings = Settings(objective=Objective.MAKESPAN, devices=devices)
    problem = make_problem(model, settings)
    result = solve(problem, load_expert(str(expert_file(name)), model, problem.cluster))
    assert (result.plan is None) == reference["expert"]["over_memory"]
    if result.plan is None:
        problem = make_problem(model, Settings(objective=Objective.MAKESPAN, devices=devices, memory_bytes=1e15))
        result = solve(problem, load_expert(str(expert_file(name)), model, problem.cluster))
    assert result.objective_s * 1e3 == pytest.approx(reference["expert"]["value"], rel=1e-5)
