"""A model that is not the one that was planned is recognised by what differs, not by what the plan's question adds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.runner.model.same_model import check_same
from solvers.errors import RunError
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor

TRACED = OpGraph(
    (
        Operator("table", param_bytes=8.0),
        Operator("body", flops=Amount(4.0)),
        Operator("table.W", phase=Phase.BACKWARD_WEIGHT, forward_of=0),
    ),
    (Tensor(0, (1,)), Tensor(1, (2,))),
)


def with_operator(position: int, **changes: object) -> OpGraph:
    operators = list(TRACED.operators)
    operators[position] = replace(operators[position], **changes)
    return replace(TRACED, operators=tuple(operators))


@pytest.mark.parametrize(
    "planned",
    [
        with_operator(0, gradient_sum_bytes=8.0),
        with_operator(0, buffer_bytes=2.0),
        with_operator(2, workspace_bytes=Amount(8.0)),
    ],
)
def test_room_that_a_question_adds_is_of_the_same_model(planned):
    check_same(TRACED, planned, "m")
    with pytest.raises(RunError, match=r"m: .*\(operator body has other sizes\); plan it again"):
        check_same(with_operator(1, flops=Amount(5.0)), planned, "m")


def test_another_name_another_size_and_another_number_are_reported():
    with pytest.raises(RunError, match="operator body of the plan is now head"):
        check_same(with_operator(1, name="head"), TRACED, "m")
    with pytest.raises(RunError, match="operator table has other sizes"):
        check_same(with_operator(0, param_bytes=9.0), TRACED, "m")
