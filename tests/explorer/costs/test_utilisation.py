"""Model-FLOPs utilisation: the model's products over what the devices in use could do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.costs.devices import DEVICES
from explorer.costs.roofline import estimate
from explorer.costs.utilisation import utilisation
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Problem

KIND = "H100-80GB"
PEAK = DEVICES[KIND].peak_flops_per_s["bf16"]
TERA = 1e12


def problem_of(op_type: str, dtype: str = "bfloat16", devices: int = 2) -> Problem:
    """A product of 1 TFLOP a sample with an input gradient of 2.5 as many, and an elementwise operator."""
    operators = (
        Operator("product", op_type, flops=Amount(0, TERA)),
        Operator("gelu", "aten.gelu", flops=Amount(0, TERA)),
        Operator("product/grad", op_type, Phase.BACKWARD_INPUT, flops=Amount(0, 2.5 * TERA), forward_of=0),
    )
    shape = (1, 8, 64, 64)
    tensors = (Tensor(0, (1, 2), Amount(0, 1), shape, dtype), Tensor(1, (), Amount(0, 1), shape, dtype))
    graph = OpGraph(operators, tensors)
    cluster = uniform_cluster([Device(f"GPU {i}", KIND) for i in range(devices)], 1e9)
    return Problem(graph, cluster, estimate(graph, [KIND]), mini_batch=4, micro_batches=2, max_replicas=2)


def plan_on(*devices: int) -> Plan:
    order = tuple(Action(0, kind, batch) for batch in range(2) for kind in "FB")
    return Plan((Stage((0, 1, 2), devices, 2),), (order,) * 2)


@pytest.mark.parametrize(("op_type", "flops"), [("aten.linear", 3.5), ("aten.scaled_dot_product_attention", 3.0)])
def test_products_count_and_attention_not_twice(op_type: str, flops: float) -> None:
    """4 samples in 1 s on one device; what is elementwise does not count."""
    assert utilisation(problem_of(op_type), plan_on(0), 1.0) == pytest.approx(4 * flops * TERA / PEAK)


def test_devices_in_use_are_what_could_have_computed() -> None:
    one, two = (utilisation(problem_of("aten.linear"), plan_on(*devices), 1.0) for devices in ((0,), (0, 1)))
    assert one is not None
    assert two == pytest.approx(one / 2)


def test_convolutions_in_fp32_run_at_the_rate_of_tf32() -> None:
    share = utilisation(problem_of("aten.conv2d", "float32"), plan_on(0), 1.0)
    assert share == pytest.approx(4 * 3.5 * TERA / DEVICES[KIND].peak_flops_per_s["tf32"])


def test_where_nothing_is_known_nothing_is_stated() -> None:
    problem = problem_of("aten.linear")
    assert utilisation(problem_of("aten.gelu"), plan_on(0), 1.0) is None
    assert utilisation(problem, plan_on(0), 0.0) is None
    other = uniform_cluster([Device("GPU 0", "abacus")], 1e9)
    compute = replace(problem.compute, seconds={"abacus": problem.compute.seconds[KIND]})
    assert utilisation(replace(problem, cluster=other, compute=compute), plan_on(0), 1.0) is None
