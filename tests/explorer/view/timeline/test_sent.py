"""What devices send in an iteration, beside a count message by message."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.view.timeline.sent import sent_bytes
from solvers.evaluation.evaluate import evaluate
from solvers.plan.plan import Plan
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.collectives import KINDS, exchange_kind
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Objective, Problem
from solvers.schedules.assemble import assemble

MINI_BATCH, COUNT = 8, 4


def graph() -> OpGraph:
    """Two layers that each gather before and scatter after, of a group of 4, with an update that adds up a norm's."""
    layer = Operator("a", "aten.linear", param_bytes=100.0, frozen_bytes=20.0)
    gather = Operator("gather", "collective.all_gather", exchanged_bytes=Amount(0, 3.0), exchange_steps=3)
    loss = Operator("loss", "aten.cross_entropy_loss", param_bytes=40.0, exchanged_bytes=Amount(0, 7.0))
    forward = [layer, gather, loss]
    backward = [
        Operator("loss/grad", "aten.cross_entropy_loss", Phase.BACKWARD_INPUT, forward_of=2),
        replace(gather, name="gather/grad", phase=Phase.BACKWARD_INPUT, forward_of=1, exchanged_bytes=Amount(0, 5.0)),
        Operator("a/grad", "aten.linear", Phase.BACKWARD_WEIGHT, forward_of=0),
    ]  # fmt: skip
    update = [Operator("a/update", "update", Phase.UPDATE, forward_of=0, exchanged_bytes=Amount(11.0))]
    tensors = [Tensor(i, (i + 1,), Amount(0, 10.0 + i)) for i in range(5)]
    tensors += [Tensor(i, (5 - i,)) for i in range(3)] + [Tensor(5, (6,), Amount(100.0))]
    return OpGraph((*forward, *backward, *update), tuple(tensors), samples=2, tensor_parallel=4)


def problem(devices: int, **changed: object) -> Problem:
    whole = graph()
    cluster = uniform_cluster([Device(f"G{i}", "k", 1e12) for i in range(devices)], 1e9)
    compute = ComputeTable((1, 2), {"k": np.ones((len(whole), 2))})
    fields = {"mini_batch": MINI_BATCH, "max_replicas": devices, "training": True, **changed}
    return Problem(whole, cluster, compute, objective=Objective.ITERATION, **fields)  # type: ignore[arg-type]


def counted(question: Problem, plan: Plan) -> dict[str, list[float]]:
    """Collectives, pass by pass and replica by replica; each ring step by step, every step a share of the whole."""
    sent = {kind: [0.0] * len(question.cluster) for kind in KINDS}
    for stage in plan.stages:
        ring = stage.devices
        for number in stage.operators:
            operator = question.graph.operators[number]
            for device in ring:
                if operator.phase is Phase.UPDATE:
                    sent["all_reduce"][device] += operator.exchanged_bytes.at(1)
                    continue
                for _ in range(MINI_BATCH // stage.micro_batch_size):
                    for _ in range(2 if stage.recompute and operator.phase is Phase.FORWARD else 1):
                        nbytes = operator.exchanged_bytes.at(stage.micro_batch_size // len(ring))
                        sent[exchange_kind(operator)][device] += nbytes
        for number in stage.operators:
            operator = question.graph.operators[number]
            if operator.phase is not Phase.FORWARD or len(ring) == 1:
                continue
            for device in ring:
                for _ in range(len(ring) - 1):
                    part = operator.param_bytes / len(ring), operator.trained_bytes / len(ring)
                    if question.zero == 0:
                        sent["all_reduce"][device] += 2 * part[1]
                        continue
                    rounds = MINI_BATCH // stage.micro_batch_size
                    sent["reduce_scatter"][device] += part[1] * (rounds if question.zero > 1 else 1)
                    sent["all_gather"][device] += part[1] if question.zero < 3 else 2 * rounds * part[0]
    return sent


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(("devices", "cut"), [(1, False), (2, False), (4, True), (2, True)])
def test_collectives_are_counted_to_the_byte(zero: int, recompute: bool, devices: int, cut: bool) -> None:
    question = problem(devices, zero=zero if devices > 1 + cut else 0, recompute=True)
    half = devices // 2 if cut else devices
    first, second = tuple(range(half)), tuple(range(half, devices)) if cut else tuple(range(devices))
    placement = [second if o in (1, 2, 3, 4) else first for o in range(len(question.graph))]
    plan = assemble(question, placement, COUNT)
    plan = replace(plan, stages=tuple(replace(stage, recompute=recompute) for stage in plan.stages))
    sent = sent_bytes(question, plan)
    expected = counted(question, plan)
    for kind in KINDS[:-1]:
        assert sent[kind].tolist() == pytest.approx(expected[kind], rel=1e-12), kind
    assert set(sent) == set(KINDS)


def test_messages_are_those_that_cross() -> None:
    question = problem(2, max_replicas=1)
    plan = assemble(question, [(0,), (1,), (1,), (1,), (1,), (0,), (0,)], COUNT)
    sent = sent_bytes(question, plan)["point_to_point"]
    assert sent.tolist() == [10.0 * MINI_BATCH, 14.0 * MINI_BATCH]
    assert sent.sum() == evaluate(question, plan).cut_bytes


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [("all_gather", "all_gather", "reduce_scatter"), ("reduce_scatter", "reduce_scatter", "all_gather"),
     ("all_to_all", "all_to_all", "all_to_all"), ("all_reduce", "all_reduce", "all_reduce")],
)  # fmt: skip
def test_the_backward_is_the_mirror_image(name: str, forward: str, backward: str) -> None:
    one = Operator("x", f"collective.{name}")
    assert exchange_kind(one) == forward
    assert exchange_kind(replace(one, phase=Phase.BACKWARD_INPUT)) == backward
