"""An update takes as long as its optimizer goes through memory: counted by hand on one matrix and one vector."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.costs.devices import DEVICES
from explorer.costs.efficiency import SHARES, WorkClass
from explorer.costs.roofline import estimate
from explorer.costs.updates import TRACED, accesses, over_traced
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.tracing.backward import ADAM_ACCESSES
from solvers.formats.workload import Workload
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Optimizer, Precision
from tests.explorer.tracing.models import demo

KIND = "H100-80GB"
SIDE = 4096
MATRIX = 2.0 * SIDE * SIDE  # bytes, bf16
SUMS = 2.0 * 2 * SIDE
VECTOR = 2.0 * 2**24


def trained() -> OpGraph:
    """A matrix and a vector in bf16, each with its update as a trace states it: 7 accesses a byte."""
    updates = (
        Operator("m/update", "update", Phase.UPDATE, moved_bytes=Amount(ADAM_ACCESSES * MATRIX), forward_of=0),
        Operator("v/update", "update", Phase.UPDATE, moved_bytes=Amount(ADAM_ACCESSES * VECTOR), forward_of=1),
    )
    owners = (
        Operator("m", param_bytes=MATRIX, factorable_bytes=MATRIX - SUMS),
        Operator("v", param_bytes=VECTOR),
    )
    return OpGraph((*owners, *updates), (Tensor(0, (1,), Amount(8.0), (4,), "bfloat16"),))


def moved(optimizer: Optimizer, precision: Precision = Precision.PURE) -> list[float]:
    """Bytes of the two updates, as the estimate's seconds say."""
    seconds = estimate(trained(), [KIND], None, optimizer, precision).seconds[KIND][2:, 0]
    return [float(value) * DEVICES[KIND].memory_bytes_per_s * SHARES[WorkClass.MEMORY] for value in seconds]


BY_HAND = {
    # read gradient and weight, write weight
    Optimizer.NONE: (3 * MATRIX, 3 * VECTOR),
    Optimizer.SGD: (3 * MATRIX, 3 * VECTOR),
    # and read and write the velocity
    Optimizer.MOMENTUM: (5 * MATRIX, 5 * VECTOR),
    # and read and write two moments
    Optimizer.ADAM: (7 * MATRIX, 7 * VECTOR),
    Optimizer.ADAMW: (7 * MATRIX, 7 * VECTOR),
    # read the gradient three times and the weight twice, write the weight; read what there is of a second moment three
    # times and write it once
    Optimizer.ADAFACTOR: (6 * MATRIX + 4 * SUMS, 10 * VECTOR),
}


@pytest.mark.parametrize("optimizer", Optimizer)
def test_a_step_moves_what_its_optimizer_reads_and_writes(optimizer: Optimizer) -> None:
    assert moved(optimizer) == pytest.approx(BY_HAND[optimizer], rel=1e-12)


@pytest.mark.parametrize(
    ("optimizer", "mixed"),
    [
        # of a weight of 2 bytes: gradient 2, master read and written 8, weight written 2
        (Optimizer.SGD, 12),
        (Optimizer.MOMENTUM, 12 + 8),
        (Optimizer.ADAM, 12 + 16),
        (Optimizer.ADAMW, 12 + 16),
    ],
)
def test_in_mixed_precision_a_step_goes_through_masters(optimizer: Optimizer, mixed: int) -> None:
    numbers = VECTOR / 2
    assert moved(optimizer, Precision.MIXED)[1] == pytest.approx(mixed * numbers, rel=1e-12)
    assert moved(optimizer, Precision.MIXED_FP32_GRADIENTS)[1] == pytest.approx((mixed + 2) * numbers, rel=1e-12)


def test_without_masters_none_is_as_in_pure_precision() -> None:
    assert accesses(Optimizer.NONE, Precision.MIXED) == accesses(Optimizer.NONE, Precision.PURE) == 3.0


def test_adam_is_what_graphs_state_to_the_last_bit() -> None:
    assert TRACED == ADAM_ACCESSES
    graph = demo("gpt-small").graph
    assert (over_traced(graph, Optimizer.ADAM, Precision.PURE) == 1.0).all()
    assert (over_traced(graph, Optimizer.ADAMW, Precision.PURE) == 1.0).all()
    sgd = over_traced(graph, Optimizer.SGD, Precision.PURE)
    updates = np.array([operator.phase is Phase.UPDATE for operator in graph.operators])
    assert (sgd[updates] == 3 / 7).all()
    assert (sgd[~updates] == 1.0).all()


def test_an_update_of_no_known_parameter_is_scaled_as_one_that_cannot_be_factored() -> None:
    graph = OpGraph((Operator("step", "update", Phase.UPDATE, moved_bytes=Amount(7.0)),), ())
    assert over_traced(graph, Optimizer.ADAFACTOR, Precision.PURE).tolist() == [10 / 7]


def test_a_question_prices_updates_as_it_asks() -> None:
    """The settings' optimizer and precision, and no other operator's time."""
    workload = Workload(trained(), "two")
    adam, sgd, mixed = (
        make_problem(workload, Settings(devices=1, device_kind=KIND, **question)).compute.seconds[KIND]  # type: ignore[arg-type]
        for question in ({}, {"optimizer": Optimizer.SGD}, {"precision": Precision.MIXED})
    )
    assert (sgd[2:] / adam[2:]).ravel() == pytest.approx(3 / 7, rel=1e-12)
    assert (mixed[2:] / adam[2:]).ravel() == pytest.approx(2.0, rel=1e-12)
    assert (sgd[:2] == adam[:2]).all()
    assert (mixed[:2] == adam[:2]).all()
