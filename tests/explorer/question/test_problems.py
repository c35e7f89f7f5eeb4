"""The problem that settings make of a workload: defaults, overrides and refusals."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.costs.devices import DEVICES
from explorer.costs.trained_in import precision_note
from explorer.question.problems import make_problem
from explorer.question.settings import MemoryModel, Settings
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json
from solvers.formats.problem_json import problem_json, read_problem
from solvers.formats.workload import Workload
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Device, Link, Wires, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Optimizer, Precision, Transfers

GRAPH = OpGraph(
    (
        Operator("embed", module_path="embed"),
        Operator("up", module_path="blocks.1.mlp"),
        Operator("down", module_path="blocks.1.mlp"),
        Operator("head", module_path="blocks.10"),
        Operator("head'", phase=Phase.BACKWARD_INPUT, forward_of=3, module_path="blocks.10"),
    ),
    (Tensor(0, (1,), Amount(0, 4)),),
)
TRACED = Workload(GRAPH, "demo")
STATED = Workload(
    GRAPH,
    "file.json",
    ComputeTable((1,), {"acc": np.ones((5, 1)), "cpu": np.full((5, 1), 9.0)}),
    transfer_s=(1e-3,),
    stated_bytes=(1.0,) * 5,
    cluster=uniform_cluster(
        (Device("FPGA 0", "acc", 100.0), Device("FPGA 1", "acc", 100.0), Device("CPU", "cpu")), 1e9
    ),
    objective=Objective.MAX_LOAD,
    transfers=Transfers.BLOCKING,
    execution=Execution.CALL,
    costs_from="stated",
)
GPUS = (Device("a", "L4-24GB", 5e9), Device("b", "H100-80GB", 7e9))
OWN = Cluster((*GPUS, Device("c", "cpu")), (Link(0, 1, 1e9, resource="wire"), Link(1, 2, 1e9, resource="wire")))
SLOW = Cluster(GPUS, (Link(0, 1, 0.5),))
LATE = Cluster(GPUS, (Link(0, 1, 1.0, 1e300),))
CROWD = Cluster(tuple(Device(str(i), "L4-24GB") for i in range(16_385)))


def test_a_traced_model_gets_four_h100s_and_64_samples() -> None:
    problem = make_problem(TRACED, Settings())
    assert [device.kind for device in problem.cluster.devices] == ["H100-80GB"] * 4
    assert {device.memory_bytes for device in problem.cluster.devices} == {DEVICES["H100-80GB"].memory_bytes}
    assert (problem.objective, problem.transfers, problem.mini_batch) == (Objective.ITERATION, Transfers.LINKS, 64)
    assert problem.micro_batches is None
    assert problem.cluster.transfer_s(25e9, 0, 3) == pytest.approx(1 + 10e-6)
    assert problem.costs_from.startswith("roofline estimate")


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("devices", [1, 3, 8])
def test_the_mini_batch_does_not_depend_on_the_devices(devices: int, objective: Objective) -> None:
    assert make_problem(TRACED, Settings(devices=devices, objective=objective)).mini_batch == 64


def test_a_model_traced_with_a_larger_batch_is_planned_for_that() -> None:
    assert make_problem(Workload(replace(GRAPH, samples=100), "demo"), Settings()).mini_batch == 100


@pytest.mark.first(1)
@pytest.mark.parametrize("devices", [3, 5, 6, 7])
def test_replicas_of_any_number_of_devices_share_the_default_mini_batch_or_leave_some_out(devices: int) -> None:
    problem = make_problem(TRACED, Settings(devices=devices, max_replicas=0))
    assert problem.micro_batch_choices() == (1, 2, 4, 8, 16, 32, 64)
    for planner in ("auto", "equal", "data-parallel"):
        assert solve(problem, planner, time_limit_s=5).plan is not None


def test_a_file_gives_its_own_cluster_and_one_sample_a_micro_batch() -> None:
    problem = make_problem(STATED, Settings())
    assert problem.cluster is STATED.cluster
    assert problem.compute is STATED.compute
    assert (problem.objective, problem.transfers, problem.execution) == ("max-load", "blocking", "call")
    assert (problem.mini_batch, problem.micro_batches) == (8, 8)


def test_latency_of_a_file_is_of_one_sample() -> None:
    problem = make_problem(STATED, Settings(objective=Objective.MAKESPAN))
    assert (problem.mini_batch, problem.micro_batches) == (1, 1)


def test_settings_override_the_file() -> None:
    problem = make_problem(STATED, Settings(devices=3, memory_bytes=50.0, cpus=2))
    assert [device.name for device in problem.cluster.devices] == ["FPGA 0", "FPGA 1", "FPGA 2", "CPU", "CPU1"]
    assert [device.memory_bytes for device in problem.cluster.devices] == [50.0] * 3 + [math.inf] * 2
    assert problem.cluster.transfer_s(1e9, 0, 2) == pytest.approx(1.0)


def test_devices_per_node_make_two_levels() -> None:
    settings = Settings(devices=4, devices_per_node=2, bandwidth_bytes_per_s=10e9, latency_s=0.0)
    cluster = make_problem(TRACED, settings).cluster
    assert [device.node for device in cluster.devices] == [0, 0, 1, 1]
    assert cluster.transfer_s(10e9, 0, 1) == pytest.approx(1.0)
    assert cluster.transfer_s(12.5e9, 1, 2) == pytest.approx(1.0)


def test_cpus_alone_are_a_cluster() -> None:
    problem = make_problem(TRACED, Settings(devices=0, cpus=1))
    assert [device.kind for device in problem.cluster.devices] == ["cpu"]


def test_a_pin_on_a_module_pins_what_is_in_it() -> None:
    assert make_problem(TRACED, Settings(pins={"blocks.1": 2})).pins == {1: 2, 2: 2}


def test_a_pin_on_an_operator_takes_its_backward_along() -> None:
    problem = make_problem(TRACED, Settings(pins={"blocks": 2, "head": 1}))
    assert problem.pins == {1: 2, 2: 2, 3: 1, 4: 1}


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({"head": 1, "head'": 0}, "'head' on device 1 and \"head'\" on device 0, which must share one"),
        ({"embed": 1, "up": 0}, "they share table"),
    ],
)
def test_pins_that_tear_apart_what_shares_a_device_are_refused(pins: dict[str, int], message: str) -> None:
    tied = tuple(replace(o, colocation="table") if o.name in ("embed", "up") else o for o in GRAPH.operators)
    with pytest.raises(InvalidProblem, match=message):
        make_problem(replace(TRACED, graph=replace(GRAPH, operators=tied)), Settings(pins=pins))


def test_a_device_may_hold_both_ends_of_a_model_where_its_middle_would_go_with_them() -> None:
    heavy = tuple(replace(o, flops=Amount(0.0, 1.0), forward_of=None, phase=Phase.FORWARD) for o in GRAPH.operators)
    graph = OpGraph(heavy, tuple(Tensor(i, (i + 1,), Amount(0, 4)) for i in range(4)))
    tied = (replace(TRACED, graph=graph), (("embed", "head'"),))
    assert make_problem(tied[0], Settings()).contiguity is Contiguity.ACYCLIC
    assert make_problem(tied[0], Settings(together=tied[1])).contiguity is Contiguity.NONE
    settings = Settings(together=tied[1], contiguity=Contiguity.ACYCLIC)
    assert make_problem(tied[0], settings).contiguity is Contiguity.ACYCLIC
    assert make_problem(tied[0], Settings(together=(("up", "down"),))).contiguity is Contiguity.ACYCLIC


def test_a_pin_on_an_operator_wins_over_one_on_its_module() -> None:
    assert make_problem(TRACED, Settings(pins={"up": 0, "blocks.1.mlp": 1, "blocks": 3})).pins == {
        1: 0, 2: 1, 3: 3, 4: 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(devices=0), "leaves no device"),
        (Settings(devices=-1), "devices must be at least 0, found -1"),
        (Settings(device_kind="H100-80G"), "no device kind 'H100-80G'.*did you mean 'H100-80GB'"),
        (Settings(device_kind="cpu"), "'cpu' is not an accelerator"),
        (Settings(device_kind=("L4-24GB", "cpu")), "'cpu' is not an accelerator"),
        (Settings(device_kind=("L4-24GB", "L4-24G")), "no device kind 'L4-24G'; there are: .*did you mean 'L4-24GB'"),
        (
            Settings(devices=3, device_kind=("L4-24GB", "H100-80GB")),
            "--device-kind 1xL4-24GB,1xH100-80GB is 2 accelerators, and --devices is 3; leave one of them out",
        ),
        (Settings(memory_bytes=(1e9, 2e9)), "--memory gives 2 sizes for 4 accelerators; give one, or one for each"),
        (Settings(devices=2, memory_bytes=(1e9, -1.0)), "memory must be more than 0, found -1"),
        (Settings(bandwidth_bytes_per_s=1e-300), "bandwidth must be at least 1 byte/s, found 1e-300"),
        (Settings(bandwidth_bytes_per_s=math.nan), "bandwidth must be at least 1 byte/s, found nan"),
        (Settings(latency_s=1e300), "latency must be >= 0 and at most 3600 s, found 1e"),
        (Settings(cluster=OWN, devices=2, links=Wires.SHARED), "leave out --devices, --links"),
        (Settings(cluster=OWN, memory_bytes=(1e9,)), "--memory gives 1 sizes for 2 accelerators"),
        (Settings(cluster=SLOW), "link 0 -> 1: the bandwidth must be at least 1 byte/s, found 0.5"),
        (Settings(cluster=LATE), "link 0 -> 1: the latency must be >= 0 and at most 3600 s, found 1e"),
        (Settings(cluster=CROWD), "number of devices must be at most 16,384, found 16,385"),
        (Settings(cluster=Cluster((Device("a", "abacus"),))), "unknown device kind 'abacus'; the catalogue has: V100"),
        (Settings(memory_bytes=0.0), "memory must be more than 0"),
        (Settings(memory_bytes=math.nan), "memory must be more than 0"),
        (Settings(bandwidth_bytes_per_s=-1.0), "bandwidth must be at least 1 byte/s, found -1"),
        (Settings(latency_s=-1.0), "latency must be >= 0"),
        (Settings(devices_per_node=0), "devices per node must be at least 1"),
        (Settings(training=False), "demo: holds training, so it cannot be planned for inference"),
        (Settings(mini_batch=0), "mini_batch must be at least 1"),
        (Settings(mini_batch=8, micro_batches=3), "must divide"),
        (Settings(pins={"hed": 0}), "no operator or module 'hed'; did you mean 'head'"),
        (Settings(pins={"head": 4}), "there is no device 4"),
    ],
)
def test_refuses_what_makes_no_problem(settings: Settings, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        make_problem(TRACED, settings)


def test_a_file_has_no_times_for_another_kind() -> None:
    with pytest.raises(InvalidProblem, match="no device kind 'H100-80GB' with compute times in this workload"):
        make_problem(STATED, Settings(device_kind="H100-80GB"))


def test_a_file_without_cpu_times_has_no_cpus() -> None:
    assert STATED.compute is not None
    without_cpus = replace(STATED, compute=ComputeTable((1,), {"acc": STATED.compute.seconds["acc"]}), cluster=None)
    with pytest.raises(InvalidProblem, match=r"file\.json: has no compute times for device kind 'cpu'"):
        make_problem(without_cpus, Settings(cpus=1))


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (TRACED, {"objective": "speed"}, "no objective 'speed'; there are: max-load, makespan, iteration"),
        (TRACED, {"pipeline": "x"}, "no pipeline 'x'"),
        (TRACED, {"devices": "2"}, "devices must be a whole number, found '2'"),
        (TRACED, {"devices": 2.5}, "devices must be a whole number, found 2.5"),
        (TRACED, {"time_limit_s": -1.0}, "more than 0 seconds"),
        (TRACED, {"time_limit_s": 0}, "more than 0 seconds"),
        (TRACED, {"time_limit_s": math.nan}, "more than 0 seconds, found nan"),
        (TRACED, {"devices": 0}, "devices=0 leaves no device"),
        (TRACED, {"micro_batches": 0}, "the number of micro-batches must be at least 1, found 0"),
        (STATED, {"micro_batches": 0}, "the number of micro-batches must be at least 1, found 0"),
        (STATED, {"micro_batches": 0, "objective": "makespan"}, "must be at least 1, found 0"),
        (TRACED, {"micro_batches": -2}, "the number of micro-batches must be at least 1, found -2"),
        (TRACED, {"mini_batch": 10, "micro_batches": 4}, "must divide the mini-batch of 10 samples, found 4"),
        (TRACED, {"mini_batch": 0}, "at least 1 sample, found 0"),
        (3, {}, "expected what explorer.trace returns, found int; trace it first"),
        ("gpt-smal", {}, "there is no demo model or file 'gpt-smal'; did you mean 'gpt-small'?"),
    ],
)
def test_plan_refuses_in_one_line_what_the_command_line_refuses(model: Any, given: Any, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        explorer.plan(model, **given)


def times(changes: dict[str, Any]) -> Workload:
    """STATED with other times of its five operators."""
    assert STATED.compute is not None
    tables = {kind: np.broadcast_to(np.array(changes[kind], float)[..., None], (5, 1)) for kind in changes}
    return replace(STATED, compute=ComputeTable((1,), STATED.compute.seconds | tables))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"acc": 0.0}, r"file\.json: every compute time of device kind 'acc' is 0"),
        ({"acc": math.inf, "cpu": math.inf}, r"file\.json: operator 'embed' and 4 more can run on none of the devices"),
        (
            {"acc": [1, math.inf, 1, 1, 1], "cpu": math.inf},
            r"file\.json: operator 'up' can run on none of the devices \(acc, cpu\)",
        ),
    ],
)
def test_times_that_make_no_plan_or_any_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        make_problem(times(changes), Settings())
    with pytest.raises(InvalidProblem, match=message):
        explorer.plan(times(changes))


def test_a_kind_that_runs_nothing_may_stand_beside_one_that_runs_all() -> None:
    assert make_problem(times({"cpu": math.inf}), Settings()).cluster == STATED.cluster


def test_trace_asks_for_example_inputs() -> None:
    with pytest.raises(InvalidProblem, match="needs example inputs"):
        explorer.trace(object())  # type: ignore[arg-type]


def test_replicas_are_allowed_up_to_the_accelerators_there_are() -> None:
    assert make_problem(STATED, Settings()).max_replicas == 1
    assert make_problem(STATED, Settings(max_replicas=0)).max_replicas == 2
    assert make_problem(STATED, Settings(max_replicas=9)).max_replicas == 2
    with pytest.raises(InvalidProblem, match="at least 1"):
        make_problem(STATED, Settings(max_replicas=-1))


def test_subgraphs_are_handed_on() -> None:
    latency = Settings(objective=Objective.MAKESPAN, subgraphs_per_device=2)
    assert make_problem(STATED, latency).subgraphs_per_device == 2
    assert make_problem(STATED, latency).is_latency
    with pytest.raises(InvalidProblem, match="number of subgraphs must be at least 1, found 0"):
        make_problem(STATED, Settings(subgraphs_per_device=0))


def test_subgraphs_say_nothing_of_other_objectives() -> None:
    with pytest.raises(InvalidProblem, match="objective makespan with execution call, found max-load with call"):
        make_problem(STATED, Settings(objective=Objective.MAX_LOAD, subgraphs_per_device=2))


def test_one_sample_is_not_replicated() -> None:
    with pytest.raises(InvalidProblem, match="leave out --replicate"):
        make_problem(STATED, Settings(objective=Objective.MAKESPAN, max_replicas=2))


def test_in_sequence_every_operator_waits_for_the_one_before_it():
    parted = OpGraph((Operator("a"), Operator("b"), Operator("c")), (Tensor(0, (1, 2), Amount(0, 4)),))
    workload = replace(
        STATED,
        graph=parted,
        stated_bytes=(1.0,) * 3,
        compute=ComputeTable((1,), {"acc": np.ones((3, 1)), "cpu": np.ones((3, 1))}),
    )
    together = make_problem(workload, Settings())
    chained = make_problem(workload, Settings(in_sequence=True))
    assert together.graph.successors == ((1, 2), (), ())
    assert chained.graph.successors == ((1, 2), (2,), ()) or chained.graph.successors == ((1, 2), (), (1,))
    assert chained.graph.operators == together.graph.operators


@pytest.mark.parametrize(
    ("settings", "contiguity"),
    [
        (Settings(), Contiguity.ACYCLIC),
        (Settings(objective=Objective.MAX_LOAD), Contiguity.ACYCLIC),
        (Settings(objective=Objective.MAKESPAN), Contiguity.NONE),
        (Settings(objective=Objective.MAKESPAN, execution=Execution.CALL), Contiguity.ACYCLIC),
        (Settings(objective=Objective.MAKESPAN, contiguity=Contiguity.ACYCLIC), Contiguity.ACYCLIC),
        (Settings(objective=Objective.MAKESPAN, contiguity=Contiguity.CONVEX), Contiguity.CONVEX),
        (Settings(contiguity=Contiguity.NONE), Contiguity.NONE),
    ],
)
def test_single_operators_of_one_pass_may_go_anywhere_unless_set_otherwise(
    settings: Settings, contiguity: Contiguity
) -> None:
    assert make_problem(TRACED, settings).contiguity is contiguity


def test_the_calls_of_a_file_keep_to_acyclic_sets() -> None:
    assert make_problem(STATED, Settings(objective=Objective.MAKESPAN)).contiguity is Contiguity.ACYCLIC
    by_operator = Settings(objective=Objective.MAKESPAN, execution=Execution.OPERATOR)
    assert make_problem(STATED, by_operator).contiguity is Contiguity.NONE


def test_a_kind_for_each_accelerator_makes_as_many() -> None:
    problem = make_problem(TRACED, Settings(device_kind=("L4-24GB", "H100-80GB", "L4-24GB"), cpus=1))
    devices = problem.cluster.devices
    assert [(device.name, device.kind) for device in devices] == [
        ("GPU 0", "L4-24GB"), ("GPU 1", "H100-80GB"), ("GPU 2", "L4-24GB"), ("CPU 0", "cpu"),
    ]  # fmt: skip
    assert [device.memory_bytes for device in devices[:2]] == [24e9, 80e9]
    assert set(problem.compute.seconds) == {"L4-24GB", "H100-80GB", "cpu"}
    assert problem.mini_batch == 64


def test_a_cap_for_each_accelerator() -> None:
    cluster = make_problem(TRACED, Settings(devices=2, cpus=1, memory_bytes=(3e9, 1e9))).cluster
    assert [device.memory_bytes for device in cluster.devices] == [3e9, 1e9, DEVICES["cpu"].memory_bytes]


def test_kinds_of_a_file_are_those_it_has_times_for() -> None:
    problem = make_problem(STATED, Settings(device_kind=("acc", "acc", "acc")))
    assert [device.name for device in problem.cluster.devices] == ["FPGA 0", "FPGA 1", "FPGA 2", "CPU"]
    with pytest.raises(InvalidProblem, match="no device kind 'L4-24GB' with compute times in this workload"):
        make_problem(STATED, Settings(device_kind=("acc", "L4-24GB")))


def test_shared_links_are_one_wire_a_host() -> None:
    cluster = make_problem(TRACED, Settings(links=Wires.SHARED, devices_per_node=2)).cluster
    assert {link.resource for link in cluster.links if link.src // 2 == link.dst // 2} == {
        "host 0 root", "host 1 root",
    }  # fmt: skip
    assert make_problem(TRACED, Settings(links=Wires.DEDICATED)).cluster == make_problem(TRACED, Settings()).cluster


def test_the_links_of_a_file_can_be_made_to_share_a_wire() -> None:
    cluster = make_problem(STATED, Settings(links=Wires.SHARED)).cluster
    assert {link.resource for link in cluster.links} == {"host 0 root"}
    assert cluster.transfer_s(1e9, 0, 1) == pytest.approx(1.0)


def test_a_whole_cluster_is_taken_as_it_is_but_for_the_caps() -> None:
    assert make_problem(TRACED, Settings(cluster=OWN)).cluster == OWN
    capped = make_problem(TRACED, Settings(cluster=OWN, memory_bytes=(2e9, 1e9))).cluster
    assert [device.memory_bytes for device in capped.devices] == [2e9, 1e9, math.inf]
    assert capped.links == OWN.links


def test_static_memory_counts_what_every_operator_keeps() -> None:
    keeping = tuple(
        replace(o, param_bytes=10.0, saved_bytes=Amount(1.0, 3.0)) if o.phase is Phase.FORWARD else o
        for o in GRAPH.operators
    )
    workload = replace(TRACED, graph=replace(GRAPH, operators=keeping))
    settings = Settings(memory_model=MemoryModel.STATIC, optimizer=Optimizer.SGD, mini_batch=8)
    assert make_problem(workload, settings).stated_bytes == (10 * 2 + 1 + 3 * 8,) * 4 + (0,)
    assert make_problem(workload, replace(settings, memory_model=MemoryModel.PEAK)).stated_bytes is None
    inference = replace(workload, graph=OpGraph(keeping[:4], GRAPH.tensors), training=False)
    assert make_problem(inference, settings).stated_bytes == (10,) * 4


def test_sizes_that_a_file_states_stay() -> None:
    assert make_problem(STATED, Settings(memory_model=MemoryModel.STATIC)).stated_bytes == STATED.stated_bytes


KINDS = st.sampled_from(sorted(DEVICES.keys() - {"cpu"}))


@given(
    st.builds(
        Settings,
        device_kind=KINDS | st.lists(KINDS, min_size=2, max_size=2).map(tuple),
        devices=st.just(2),
        memory_bytes=st.none() | st.tuples(*[st.floats(1.0, 1e12)] * 2),
        cpus=st.integers(0, 2),
        links=st.none() | st.sampled_from(Wires),
        devices_per_node=st.none() | st.just(1),
        memory_model=st.sampled_from(MemoryModel),
        objective=st.sampled_from(Objective),
        transfers=st.none() | st.sampled_from(Transfers),
    )
    | st.builds(Settings, cluster=st.just(OWN), memory_model=st.sampled_from(MemoryModel))
)
def test_what_settings_make_survives_a_file(settings: Settings) -> None:
    problem = make_problem(TRACED, settings)
    value = json.loads(dump_json(problem_json(problem)))
    again = read_problem(Field(value, "problem"), problem.graph)
    assert (again.cluster, again.stated_bytes, again.contiguity) == (
        problem.cluster, problem.stated_bytes, problem.contiguity,
    )  # fmt: skip
    assert problem_json(again) == problem_json(problem)


def in_16_bits(workload: Workload) -> Workload:
    graph = workload.graph
    tensors = tuple(replace(tensor, dtype="bfloat16") for tensor in graph.tensors)
    return replace(workload, graph=OpGraph(graph.operators, tensors, graph.samples, graph.name))


def test_mixed_precision_is_of_16_bit_weights_alone() -> None:
    mixed = Settings(precision=Precision.MIXED, optimizer=Optimizer.ADAMW)
    problem = make_problem(in_16_bits(TRACED), mixed)
    assert (problem.precision, problem.optimizer) == (Precision.MIXED, Optimizer.ADAMW)
    for workload, message in ((TRACED, "has no dtype"), (in_16_bits(STATED), "states its sizes")):
        with pytest.raises(InvalidProblem, match=message) as caught:
            make_problem(workload, mixed)
        assert "\n" not in str(caught.value)


def test_what_a_16_bit_model_is_taken_to_train_in_is_stated() -> None:
    graph = in_16_bits(TRACED).graph
    operators = tuple(replace(o, param_bytes=8.0) if o.phase is Phase.FORWARD else o for o in graph.operators)
    workload = replace(TRACED, graph=OpGraph(operators, graph.tensors, graph.samples))
    problem = make_problem(workload, Settings())
    assert precision_note(problem) == (
        "bf16 weights without fp32 masters: 8 bytes a parameter with adam; --precision mixed counts 16"
    )
    for quiet in (Settings(precision=Precision.MIXED), Settings(optimizer=Optimizer.NONE)):
        assert precision_note(make_problem(workload, quiet)) is None
    assert precision_note(make_problem(TRACED, Settings())) is None


def test_zero_needs_replicas_training_and_sizes_that_are_counted() -> None:
    assert make_problem(TRACED, Settings(zero=2, max_replicas=0)).zero == 2
    inference = replace(TRACED, training=False)
    for workload, settings, message in (
        (TRACED, Settings(zero=2), "--replicate"),
        (TRACED, Settings(zero=4, max_replicas=0), "1, 2 or 3"),
        (inference, Settings(zero=1, max_replicas=0), "in inference"),
        (STATED, Settings(zero=1, max_replicas=0), "states sizes as a whole"),
        (TRACED, Settings(zero=1, max_replicas=0, memory_model=MemoryModel.STATIC), "--memory-model static"),
    ):
        with pytest.raises(InvalidProblem, match=message) as caught:
            make_problem(workload, settings)
        assert "\n" not in str(caught.value)


def test_links_to_hosts_are_those_of_the_kinds_or_as_set() -> None:
    given = {"devices": 2, "device_kind": "1xH100-80GB,1xGB200-186GB"}
    assert make_problem(TRACED, Settings(**given)).host_links == {}
    links = make_problem(TRACED, Settings(**given, offload=True)).host_links
    assert links == {"H100-80GB": 63e9, "GB200-186GB": 225e9}
    links = make_problem(TRACED, Settings(**given, offload=True, host_link="55GB/s")).host_links
    assert set(links.values()) == {55e9}


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"host_link": "1GB/s"}, "give one of them"),
        ({"offload_optimizer": True, "optimizer": "sgd"}, "there are none"),
        ({"offload_optimizer": True, "optimizer": "adafactor"}, "adafactor"),
        ({"offload_optimizer": True, "memory_model": "static"}, "static"),
        ({"offload": True, "objective": "max-load"}, "objective iteration"),
        ({"offload": True, "memory_model": "static"}, "static"),
    ],
)
def test_offloading_that_cannot_be_is_refused(question: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidProblem, match=why):
        make_problem(TRACED, Settings(**question))
