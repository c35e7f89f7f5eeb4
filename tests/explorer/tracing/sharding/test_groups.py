"""A tensor-parallel group is one device to a planner: its members' memory, links and exchanges."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.cli.reports.run_report import exchanges_by_rank
from explorer.question.models.example import says_degree
from explorer.question.nodes.groups import ANY_MEMBERS, Members, divider, grouped, members_of, with_exchanges
from explorer.question.settings import Settings
from explorer.runner.bundles.outcome import MeasuredExchange, Outcome, RunStatus
from explorer.runner.bundles.result_json import outcome_text, read_outcome
from explorer.sweeps.divided import DividedModel
from explorer.view.timeline.sent import sent_bytes, within_groups
from solvers.errors import InvalidProblem, PlacementError
from solvers.formats.json_fields import Field
from solvers.formats.op_graph_json import graph_hash, graph_json, read_op_graph
from solvers.formats.plan_json import read_plan
from solvers.plan.degrees import pipeline_depth
from solvers.problem.cluster import Device, Link, two_level_cluster, uniform_cluster
from solvers.problem.collectives import Axis
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable
from tests.explorer.cli.command import Command

GPUS = tuple(Device(f"GPU {i}", "H100-80GB", 80e9 - i, node=i // 4) for i in range(8))
NODES = two_level_cluster(GPUS, 450e9, 2e-6, 50e9, 1e-5)


def test_members_that_follow_one_another_are_one_device() -> None:
    cluster, link, across = grouped(NODES, 2, "m")
    assert across is None
    assert [device.name for device in cluster.devices] == ["GPU 0-1", "GPU 2-3", "GPU 4-5", "GPU 6-7"]
    assert [device.node for device in cluster.devices] == [0, 0, 1, 1]
    assert cluster.devices[0].memory_bytes == 80e9 - 1
    assert link is not None
    assert (link.bandwidth_bytes_per_s, link.latency_s) == (450e9, 2e-6)
    between = cluster.link(1, 2)
    assert between is not None
    assert between.bandwidth_bytes_per_s == 50e9


def test_a_degree_of_one_changes_nothing() -> None:
    assert grouped(NODES, 1, "m") == (NODES, None, None)
    assert divider(None, None, None) is None
    assert divider(1, None, None) is None


@pytest.mark.parametrize(
    ("degree", "devices", "words"),
    [
        (3, GPUS, "8 devices make no groups of 3"),
        (8, GPUS, "devices of one node"),
        (2, (GPUS[0], replace(GPUS[1], kind="L4-24GB")), "devices of one kind"),
        (2, (*GPUS[:2], Device("c", "cpu")), "no CPUs"),
    ],
)
def test_groups_that_do_not_fit_are_refused(degree: int, devices: tuple[Device, ...], words: str) -> None:
    with pytest.raises(InvalidProblem, match=words):
        grouped(uniform_cluster(devices, 1e9), degree, "m", axis=Axis.TENSOR)


def test_groups_of_tokens_or_experts_may_be_whole_nodes() -> None:
    cluster, link, _ = grouped(NODES, 8, "m", axis=Axis.EXPERT)
    assert [device.name for device in cluster.devices] == ["GPU 0-7"]
    assert link is not None
    assert link.bandwidth_bytes_per_s == 50e9
    six = two_level_cluster((*GPUS[1:5], *GPUS[6:]), 450e9, 2e-6, 50e9, 1e-5)
    with pytest.raises(InvalidProblem, match="devices of whole nodes"):
        grouped(six, 2, "m", axis=Axis.CONTEXT)


def test_inner_groups_are_within_nodes_and_their_like_may_be_in_others() -> None:
    cluster, link, across = grouped(NODES, 8, "m", axis=Axis.CONTEXT, outer_degree=2)
    assert [device.name for device in cluster.devices] == ["GPU 0-7"]
    assert link is not None
    assert across is not None
    assert [one.bandwidth_bytes_per_s for one in (link, across)] == [450e9, 50e9]
    both = grouped(NODES, 4, "m", axis=Axis.CONTEXT, outer_degree=2)[1:]
    assert [one.bandwidth_bytes_per_s for one in both if one is not None] == [450e9, 450e9]
    with pytest.raises(InvalidProblem, match="devices of one node"):
        grouped(two_level_cluster((*GPUS[1:], GPUS[0]), 450e9, 2e-6, 50e9, 1e-5), 8, "m", outer_degree=2)


def test_members_without_a_link_are_refused() -> None:
    cluster = replace(uniform_cluster(GPUS[:2], 1e9), links=(Link(0, 1, 1e9),))
    with pytest.raises(InvalidProblem, match="links to one another"):
        grouped(cluster, 2, "m")


@pytest.mark.parametrize("degree", [0, -1, 65])
def test_a_degree_that_is_none_is_refused(degree: int) -> None:
    with pytest.raises(InvalidProblem, match="from 1 to 64"):
        divider(degree, None, None)


def test_calls_are_divided_by_the_times_of_the_devices_of_the_plan() -> None:
    assert members_of(NODES, 2, "m") == Members("H100-80GB", 450e9, 2e-6)
    unknown = uniform_cluster([Device("a", "mine"), Device("b", "mine")], 1e9)
    assert members_of(unknown, 2, "m") == ANY_MEMBERS
    settings = Settings(devices=2, device_kind="L4-24GB", bandwidth_bytes_per_s=32e9)
    divided = DividedModel("gpt-small,tensor-parallel=2", settings=settings).as_named()
    assert any("on L4-24GB at 32 GB/s" in note for note in divided.notes)
    assert divided.graph.tensor_parallel == 2


def test_tokens_without_a_group_are_refused() -> None:
    with pytest.raises(InvalidProblem, match="add --tensor-parallel"):
        divider(None, 1, None)


GRAPH = OpGraph(
    (
        Operator("a", exchanged_bytes=Amount(10.0, 5.0), exchange_steps=3),
        Operator("b"),
        Operator("a/update", phase=Phase.UPDATE, forward_of=0, exchanged_bytes=Amount(7.0), exchange_steps=1),
    ),
    (Tensor(0, (1,), Amount(0, 4)),),
    tensor_parallel=4,
)


def test_an_exchange_takes_its_steps_and_its_bytes() -> None:
    table = ComputeTable((1, 2), {"k": np.ones((3, 2))})
    times = with_exchanges(table, GRAPH, Link(0, 1, 10.0, 0.5)).seconds["k"]
    assert times.tolist() == [[1 + 1.5 + 1.5, 1 + 1.5 + 2.0], [1, 1], [1 + 0.5 + 0.7, 1 + 0.5 + 0.7]]


def test_a_divided_graph_comes_back_from_its_file() -> None:
    again = read_op_graph(Field(json.loads(json.dumps(graph_json(GRAPH))), "graph"))
    assert again == GRAPH
    assert graph_hash(GRAPH) != graph_hash(replace(GRAPH, tensor_parallel=1))


def test_a_plan_of_groups_is_planned_checked_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "plan.json"
    ran = Command(capsys)(
        "plan", "gpt-small", "--tensor-parallel", 2, "--devices", 4, "--planner", "equal", "--json", "-o", place
    )
    assert ran.status == 0, ran.err
    plan = json.loads(ran.out)
    assert plan["model"] == "gpt-small,tensor-parallel=2"
    assert plan["degrees"]["tensor"] == 2
    assert plan["degrees"]["pipeline"] == 2
    assert plan["degrees"]["data"] == 1
    assert len(plan["metrics"]["peak_memory_bytes"]) == 2
    file = explorer.load(str(place))
    assert file.problem.graph.tensor_parallel == 2
    assert pipeline_depth(file.problem, file.plan) == 2
    assert {kind: nbytes.tolist() for kind, nbytes in sent_bytes(file.problem, file.plan).items()} == plan["sent_bytes"]
    assert Command(capsys)("check", place).status == 0
    assert Command(capsys)("simulate", place).status == 0


def test_a_plan_of_groups_is_not_written_as_plain_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "plan.json"
    assert (
        Command(capsys)(
            "plan", "gpt-small", "--tensor-parallel", 2, "--devices", 4, "--planner", "equal", "-o", place
        ).status
        == 0
    )
    ran = Command(capsys)("export", place, "--to", "deepspeed", "-o", tmp_path / "x.py")
    assert ran.status == 2
    assert "tensors" in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_exchanges_of_a_run_stand_beside_those_that_were_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every rank, for an iteration; a rank that the plan does not have is left out."""
    place = tmp_path / "plan.json"
    question = ("--tensor-parallel", 2, "--devices", 4, "--planner", "equal", "-o", place)
    assert Command(capsys)("plan", "gpt-small", *question).status == 0
    file = read_plan(place.read_text())
    planned = within_groups(file.problem, file.plan)
    exchanges = [
        MeasuredExchange(rank, iteration, kind, nbytes[device] / 2, 1.0, 1.25)
        for rank, device in enumerate((*file.plan.devices_used(), 0))
        for iteration in (0, 1)
        for kind, nbytes in planned.items()
        for _ in range(2 * bool(nbytes[device]))
    ]
    devices = file.plan.devices_used()
    outcome = Outcome(RunStatus.DONE, iterations_s=(1.0,) * 3, rank_devices=devices, exchanges=tuple(exchanges))
    assert read_outcome(outcome_text(outcome)) == outcome
    by_rank = exchanges_by_rank(file, outcome)
    assert len(by_rank) == len(devices) == 2
    for device, kinds in zip(devices, by_rank, strict=True):
        assert kinds.keys() == {kind for kind, nbytes in planned.items() if nbytes[device]}
        for kind, each in kinds.items():
            sent = pytest.approx(planned[kind][device])
            assert each == {"times": 2, "sent_bytes": sent, "planned_bytes": sent, "seconds": 0.5}
    assert exchanges_by_rank(file, Outcome(RunStatus.DONE, rank_devices=devices)) == []


@pytest.mark.parametrize(
    ("model", "stated"),
    [
        ("gpt", False),
        ("gpt,tensor-parallel=2", True),
        ("gpt,tensor-parallel-of=blocks:2", True),
        ("gpt,batch=x", False),
    ],
)
def test_a_name_says_a_degree_or_not(model: str, stated: bool) -> None:
    assert says_degree(model) is stated


def test_half_the_devices_make_no_group(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Command(capsys)("plan", "gpt-small", "--tensor-parallel", 2, "--devices", 3)
    assert ran.status == 2
    assert "3 devices make no groups of 2" in ran.err


def test_a_module_of_ones_own_is_divided() -> None:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    whole = explorer.trace(module, torch.zeros(4, 8))
    graph = explorer.trace(module, torch.zeros(4, 8), tensor_parallel=2)
    assert graph.graph.tensor_parallel == 2
    assert sum(o.param_bytes for o in graph.graph.operators) < sum(o.param_bytes for o in whole.graph.operators)
    with pytest.raises(PlacementError, match="nothing can be divided over 7"):
        explorer.trace(module, torch.zeros(4, 8), tensor_parallel=7)
