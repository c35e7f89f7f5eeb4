"""Llama-3-70B in training, block by block: the hand calculation of docs/memory.md beside what plans are judged by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from solvers.evaluation.evaluate import evaluate
from solvers.problem.problem import Precision
from solvers.schedules.assemble import assemble
from tests.solvers.problem.llama_graph import PARAMETERS, llama


def one_replica_gb(gpus: int, zero: int, precision: Precision) -> float:
    """What data parallelism holds on each device, in 1e9 bytes."""
    p = llama(gpus, zero, precision)
    return evaluate(p, assemble(p, [tuple(range(gpus))] * len(p.graph), 1)).static_bytes[0] / 1e9


def by_hand_gb(gpus: int, zero: int, precision: Precision) -> float:
    """Weights, gradients, fp32 masters and moments, of 70.55e9 parameters."""
    n = 70.553706496
    states = 4 * n if precision is Precision.PURE else 12 * n
    return {
        0: 2 * n + 2 * n + states,
        1: 2 * n + 2 * n + states / gpus,
        2: 2 * n + (2 * n + states) / gpus,
        3: (2 * n + 2 * n + states) / gpus + 2 * 1.050681344 * (1 - 1 / gpus),
    }[zero]


def test_llama_3_70b_has_as_many_parameters_as_published() -> None:
    assert PARAMETERS == 70_553_706_496


@pytest.mark.parametrize("gpus", [8, 16, 64])
@pytest.mark.parametrize("precision", [Precision.PURE, Precision.MIXED])
def test_every_stage_of_zero_is_as_by_hand(gpus: int, precision: Precision) -> None:
    for zero in range(4):
        assert one_replica_gb(gpus, zero, precision) == pytest.approx(by_hand_gb(gpus, zero, precision), rel=1e-9)


def test_the_table_in_the_docs_is_what_is_counted() -> None:
    text = (Path(__file__).parents[3] / "docs" / "memory.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `--zero (\d)` \| ([\d.,]+) \| ([\d.,]+) \|", text, re.MULTILINE)
    assert len(rows) == 12
    for gpus, zero, pure, mixed in rows:
        for expected, precision in ((pure, Precision.PURE), (mixed, Precision.MIXED)):
            assert float(expected.replace(",", "")) == round(one_replica_gb(int(gpus), int(zero), precision), 1)
