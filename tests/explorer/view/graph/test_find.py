"""Operators by words of their names, or by an expression over one of their attributes."""

from __future__ import annotations

import pytest

from explorer.view.graph.find import attribute_pattern, find
from explorer.view.graph.skeleton import skeleton
from solvers.formats.workload import Workload
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor

OPERATORS = (
    Operator("layers.0.norm1/layer_norm", op_type="aten.layer_norm", module_path="layers.0.norm1"),
    Operator("layers.0.fc/linear", op_type="aten.linear", module_path="layers.0.fc"),
    Operator("layers.10.fc/addmm", op_type="aten.addmm", module_path="layers.10.fc"),
)
TENSORS = (Tensor(0, (1,), Amount(8.0), (8, 1024), "float32"), Tensor(1, (2,), Amount(8.0), (8, 4096), "bfloat16"))
OUTLINE = skeleton(Workload(OpGraph(OPERATORS, TENSORS), "small"))


@pytest.mark.parametrize(
    ("wanted", "boxes"),
    [
        ("fc", [1, 2]),
        ("FC 10", [2]),
        ("/norm[12]", [0]),
        ("/\\.fc\\/(linear|addmm)$/", [1, 2]),
        ("type:linear|addmm", [1, 2]),
        ("module:^layers\\.0\\.", [0, 1]),
        ("shape:x4096", [1]),
        ("shape:bfloat", [1]),
        ("type:", []),
        ("/(", []),
    ],
)
def test_words_and_expressions(wanted, boxes):
    shown = find(OUTLINE, None, wanted)
    assert sorted(int(item["box"][2:]) for item in shown["items"]) == boxes
    assert shown["matches"] == len(boxes)


@pytest.mark.parametrize("slow", ["/(a+)+$", "/(a|a)*b", "/.*.*.*x", "/(?=a)", "/(a)\\1", "/a{1,99}"])
def test_an_expression_that_could_take_long_is_none(slow):
    assert attribute_pattern(slow) is None
