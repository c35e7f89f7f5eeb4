"""The Python interface: the same as the command, in values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pytest

import explorer
from explorer.question.cluster_file import load_cluster
from explorer.question.planner_choice import choose_planner
from solvers.errors import InvalidProblem
from solvers.planners.registry import PLANNERS
from solvers.problem.problem import Contiguity, Problem
from solvers.search.monitor import Monitor
from tests.instances import forward_graph


def test_trace_then_plan() -> None:
    graph = explorer.trace("gpt-small")
    result = explorer.plan(graph, devices=2, memory="16GiB", planner="equal")
    assert result.plan is not None
    assert len(result.problem.cluster) == 2
    assert result.problem.cluster.devices[0].memory_bytes == 16 * 2**30
    assert 0 <= result.bound_s <= result.objective_s


def test_plan_keeps_nothing_unless_it_is_told_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACEMENT_EXPLORER_LIBRARY", str(tmp_path / "plans.sqlite"))
    graph = forward_graph([(0, 1)], 2, nbytes=8)
    explorer.plan(graph, devices=1, planner="single")
    assert list(tmp_path.iterdir()) == []
    first = explorer.plan(graph, devices=1, planner="single", library=True)
    second = explorer.plan(graph, devices=1, planner="single", library=True)
    assert second.plan == first.plan
    assert next(note for note in second.notes if note not in first.notes).startswith("known since")
    assert explorer.plan(graph, devices=1, planner="single", library=True, fresh=True).notes == first.notes
    named = explorer.plan(graph, devices=1, planner="single", library=tmp_path / "other.sqlite")
    assert named.notes == first.notes
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.sqlite", "plans.sqlite"]
    with pytest.raises(InvalidProblem, match="library must be True, False or the path of a file, found int"):
        explorer.plan(graph, devices=1, planner="single", library=7)  # type: ignore[arg-type]


def test_trace_takes_a_module_and_example_inputs() -> None:
    import torch
    from torch import nn

    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    workload = explorer.trace(module, torch.zeros(3, 4), training=False)
    assert workload.graph.samples == 3
    assert len(workload.graph) == 3
    assert not workload.training


def test_plan_takes_a_bare_graph() -> None:
    result = explorer.plan(forward_graph([(0, 1)], 2, nbytes=8), devices=1, planner="single")
    assert result.plan is not None


def test_plan_takes_devices_that_differ(tmp_path) -> None:
    graph = forward_graph([(0, 1)], 2, nbytes=8)
    given = {"objective": "makespan", "planner": "single", "links": "shared", "memory_model": "static"}
    mixed = explorer.plan(graph, device_kind=["L4-24GB", "H100-80GB"], memory=["1GiB", 2e9], **given).problem
    assert [(d.kind, d.memory_bytes) for d in mixed.cluster.devices] == [("L4-24GB", 2.0**30), ("H100-80GB", 2e9)]
    assert {link.resource for link in mixed.cluster.links} == {"host 0 root"}
    assert mixed.stated_bytes == (0.0, 0.0)
    assert mixed.contiguity == "none"
    path = tmp_path / "cluster.json"
    path.write_text('{"devices": [{"name": "a", "kind": "L4-24GB"}]}')
    for cluster in (str(path), load_cluster(str(path))):
        assert explorer.plan(graph, cluster=cluster, planner="single").problem.cluster == load_cluster(str(path))


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        explorer.nothing  # noqa: B018


@dataclass(frozen=True)
class Optioned:
    """Has an option of every type."""

    count: int = 1
    ratio: float | None = 0.5
    fast: bool = False
    how: Literal["dp", "ilp"] = "dp"
    shape: Contiguity = Contiguity.ACYCLIC
    label: str = ""

    name: ClassVar[str] = "optioned"
    source: ClassVar[str] = "test"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        return False


@pytest.fixture
def _optioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANNERS, "optioned", Optioned)


@pytest.mark.usefixtures("_optioned")
def test_options_take_the_type_of_their_field() -> None:
    chosen = choose_planner("optioned:count=3,ratio=none,fast=true,how=ilp,shape=convex,label=x y")
    assert chosen == Optioned(3, None, True, "ilp", Contiguity.CONVEX, "x y")


@pytest.mark.usefixtures("_optioned")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optioned:count=2.5", "option count: expected a whole number, found '2.5'"),
        ("optioned:ratio=x", "option ratio: expected a number"),
        ("optioned:fast=maybe", "option fast: expected true or false"),
        ("optioned:how=guess", "option how: expected dp, ilp"),
        ("optioned:shape=round", "option shape: expected one of acyclic, convex, none"),
        ("optioned:count", "expected an option as NAME=VALUE, found 'count'"),
        ("optioned:size=1", "there is no option 'size'; its options: count, ratio, fast, how, shape, label"),
        ("optoned", "there is no planner 'optoned'; did you mean 'optioned'"),
    ],
)
def test_options_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        choose_planner(text)


@pytest.mark.parametrize(("asked", "training"), [({}, True), ({"training": True}, True), ({"training": False}, False)])
def test_demos_need_no_tracing(monkeypatch: pytest.MonkeyPatch, asked: dict[str, bool], training: bool) -> None:
    monkeypatch.setattr("explorer.tracing.trace.trace_demo", None)
    assert explorer.trace("gpt-small", **asked).training is training
    assert explorer.trace("gpt-small", dtype="bf16", **asked).training is training
