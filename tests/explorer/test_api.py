"""The Python interface: the same as the command, in values."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pytest
import torch

import explorer
from explorer.question.cluster_file import load_cluster
from explorer.question.planner_choice import choose_planner
from explorer.words.arguments import in_python
from solvers.errors import InvalidPlan, InvalidProblem, PlacementError
from solvers.planners.baselines import SingleDevice
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


def test_plan_keeps_nothing_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACEMENT_EXPLORER_LIBRARY", str(tmp_path / "plans.sqlite"))
    graph = forward_graph([(0, 1)], 2, nbytes=8)
    explorer.plan(graph, devices=1, planner="single")
    assert list(tmp_path.iterdir()) == []
    first = explorer.plan(graph, devices=1, planner="single", library=True)
    second = explorer.plan(graph, devices=1, planner="single", library=True)
    assert second.plan == first.plan
    assert next(note for note in second.notes if note not in first.notes).startswith("cached result of")
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


def test_a_model_is_planned_by_its_name() -> None:
    named, traced = (
        explorer.plan(model, devices=2, planner="equal") for model in ("gpt-small", explorer.trace("gpt-small"))
    )
    assert (named.plan, named.problem.graph) == (traced.plan, traced.problem.graph)


@pytest.mark.parametrize(
    "dtype",
    ["bfloat16", "torch.bfloat16", "BF16", torch.bfloat16],
    ids=["long", "torch", "upper", "value"],
)
def test_a_dtype_is_called_as_people_call_it(dtype: object) -> None:
    assert explorer.trace("gpt-small", dtype=dtype).graph == explorer.trace("gpt-small", dtype="bf16").graph


def test_no_dtype_of_that_name() -> None:
    with pytest.raises(InvalidProblem, match=r"no dtype 'int7' to trace in; there are: bf16, fp16, fp32"):
        explorer.trace("gpt-small", dtype="int7")


def test_one_list_of_names_is_one_group_that_stays_together() -> None:
    graph = explorer.trace("gpt-small")
    flat, nested = (
        explorer.plan(graph, devices=2, planner="equal", together=together).problem.graph
        for together in (["blocks.0", "blocks.1"], [["blocks.0", "blocks.1"]])
    )
    assert flat == nested != graph.graph


@pytest.mark.parametrize("together", ["blocks.0", ["blocks.0", ["blocks.1", "blocks.2"]], [[1, 2]], 3])
def test_what_is_no_list_of_names_is_no_group(together: object) -> None:
    with pytest.raises(InvalidProblem, match="together must be a list of operators or modules, or several such lists"):
        explorer.plan("gpt-small", devices=2, together=together)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"time_limit_s": "5"}, "time_limit_s must be a number, found '5'"),
        ({"gap": "0.1"}, "gap must be a number, found '0.1'"),
        ({"zero": 1}, "and no stage may have replicas; allow them (max_replicas)"),
        ({"device_kind": "cpu"}, "ask for CPUs with devices=0 cpus=1"),
        ({"micro_batches": 5000}, "give fewer (micro_batches)"),
        ({"planner": "data-parallel"}, "allow replicas (max_replicas)"),
        ({"cluster": "dgx-h100", "devices": 2}, "leave out devices"),
    ],
)
def test_messages_name_the_arguments(question: dict[str, object], message: str) -> None:
    with pytest.raises(PlacementError) as refused:
        explorer.plan("gpt-small", **{"devices": 2, **question})
    assert message in str(refused.value)
    assert "--" not in str(refused.value)


def test_a_command_line_in_a_message_stays_one() -> None:
    question = "measure it with `placement-explorer calibrate --zero`; leave out --contiguity none"
    assert (
        in_python(question, {"zero", "contiguity"}, {"none"}, {})
        == "measure it with `placement-explorer calibrate --zero`; leave out contiguity='none'"
    )


def test_completion_shows_what_there_is() -> None:
    assert {"trace", "plan", "load", "Result", "InvalidProblem", "__version__"} <= set(dir(explorer))
    assert all(getattr(explorer, name) is not None for name in dir(explorer))
    assert not {"hand_in", "TYPE_CHECKING", "Any", "annotations"} & set(dir(explorer))


def test_a_result_says_what_its_plan_costs_in_every_way() -> None:
    result = explorer.plan("gpt-small", devices=2, planner="equal")
    assert result.metrics.iteration_s == result.objective_s
    assert result.metrics.makespan_s > 0
    assert len(result.metrics.peak_memory_bytes) == 2


def test_a_result_that_was_exported_is_loaded(tmp_path: Path) -> None:
    result, path = explorer.plan("gpt-small", devices=2, planner="equal"), tmp_path / "plan.json"
    explorer.export(result, "plan", str(path))
    loaded = explorer.load(str(path))
    assert (loaded.plan, loaded.objective_s, loaded.status) == (result.plan, result.objective_s, result.status)
    path.write_text(path.read_text().replace(f'"objective_s":{result.objective_s!r}', '"objective_s":1e9'))
    with pytest.raises(InvalidPlan, match="the plan breaks a rule"):
        explorer.load(str(path))


@dataclass(frozen=True)
class Interrupted:
    """Offers one plan, if any, and is interrupted while it searches on."""

    offers: bool

    name: ClassVar[str] = "interrupted"
    source: ClassVar[str] = "test"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        if self.offers:
            SingleDevice()(problem, monitor)
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            monitor.check()


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Python leaves SIGINT ignored in what a shell starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_keeps_the_best_plan() -> None:
    result = explorer.plan("gpt-small", devices=2, planner=Interrupted(True))
    assert result.plan is not None
    assert result.stop_reason == explorer.StopReason.CANCELLED
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_without_a_plan_is_what_it_always_is() -> None:
    with pytest.raises(KeyboardInterrupt):
        explorer.plan("gpt-small", devices=2, planner=Interrupted(False))


def test_ctrl_c_is_left_to_whoever_handles_it() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        result = explorer.plan("gpt-small", devices=2, planner=Interrupted(True), should_stop=lambda: bool(received))
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.stop_reason, received) == (explorer.StopReason.CANCELLED, [signal.SIGINT])


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


@pytest.mark.parametrize(
    ("question", "training"), [({}, True), ({"training": True}, True), ({"training": False}, False)]
)
def test_demos_need_no_tracing(monkeypatch: pytest.MonkeyPatch, question: dict[str, bool], training: bool) -> None:
    monkeypatch.setattr("explorer.tracing.trace.trace_demo", None)
    assert explorer.trace("gpt-small", **question).training is training
    assert explorer.trace("gpt-small", dtype="bf16", **question).training is training
