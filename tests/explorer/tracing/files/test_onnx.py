"""ONNX files: what inference computes, weights as sizes, and nothing opened or run."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import random
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from explorer.question.loading import load
from explorer.tracing.files.onnx import load_onnx
from explorer.tracing.files.protobuf import field, fields, piece
from solvers.errors import InvalidProblem
from solvers.problem.graph import Amount, Phase
from tests.explorer.tracing.files.onnx_bytes import INT64, model, node, perceptron, tensor, value

has_onnx = pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="the extra [onnx] is not installed")


@pytest.fixture
def read(tmp_path: Path):
    def reader(data: bytes, **options: bool):
        path = tmp_path / "m.onnx"
        path.write_bytes(data)
        return load_onnx(path, **options)

    return reader


def test_products_and_elementwise_operators_have_flops_and_weights_are_their_sizes(read):
    workload = read(perceptron())
    operators = {o.name: o for o in workload.graph.operators}
    assert list(operators) == ["up/linear", "relu", "down/linear", "down/add"]
    assert operators["up/linear"].flops == Amount(per_sample=2 * 8 * 32)
    assert operators["down/linear"].flops == Amount(per_sample=2 * 32 * 2)
    assert operators["up/linear"].param_bytes == 4 * 8 * 32
    assert (workload.parameters, workload.graph.samples, workload.training) == (8 * 32 + 32 * 2 + 2, 4, False)
    assert any("planned for inference" in note for note in workload.notes)


def test_for_training_a_backward_is_estimated_and_reported_so(read):
    workload = read(perceptron(), training=True)
    phases = [o.phase for o in workload.graph.operators]
    assert workload.training
    assert phases.count(Phase.BACKWARD_WEIGHT) == phases.count(Phase.UPDATE) == 3
    assert any("its backward is estimated" in note for note in workload.notes)
    relu = next(o for o in workload.graph.operators if o.name == "relu")
    assert relu.saved_bytes == Amount(per_sample=4 * 32)


def test_a_model_by_name_is_one_too(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(perceptron())
    assert load(str(path)).reference == str(path)


def test_a_convolution_counts_every_weight_at_every_position(read):
    workload = read(
        model([
            node("Conv", ["x", "w"], ["y"]), tensor("w", [16, 3, 3, 3]), value(11, "x", [2, 3, 10, 10]),
            value(12, "y", [2, 16, 8, 8]),
        ])
    )  # fmt: skip
    (conv,) = workload.graph.operators
    assert conv.op_type == "aten.conv2d"
    assert conv.flops.at(2) == 2 * 2 * 8 * 8 * 16 * 3 * 3 * 3


def test_attention_is_one_operator_and_what_computes_sizes_is_none(read):
    shape = [2, 8, 16]
    workload = read(
        model([
            node("Attention", ["q", "k", "v"], ["a"]), node("Shape", ["a"], ["s"]), node("Reshape", ["a", "s"], ["y"]),
            value(11, "q", shape), value(11, "k", shape), value(11, "v", shape), value(13, "a", shape),
            value(13, "s", [3], INT64), value(12, "y", shape),
        ])
    )  # fmt: skip
    (attention,) = workload.graph.operators
    assert attention.flops.at(2) == 2 * 2 * 8 * 8 * (16 + 16)


def recurrent(kind: str, gates: int, both: bool, given: list[str]) -> bytes:
    """[steps 5, batch 3, 4] through a layer of width 6; given: which of its outputs are read."""
    ways = 2 if both else 1
    shapes = {"y": [5, ways, 3, 6], "h": [ways, 3, 6]}
    way = field(5, field(1, b"direction") + field(4, b"bidirectional" if both else b"forward") + field(20, 3))
    return model([
        node(kind, ["x", "W", "R", "B"], [given[0] if "y" in given else "", "h" if "h" in given else ""], "/cell", way),
        tensor("W", [ways, gates * 6, 4]), tensor("R", [ways, gates * 6, 6]), tensor("B", [ways, 2 * gates * 6]),
        value(11, "x", [5, 3, 4]), *(value(12, name, shapes[name]) for name in given),
    ])  # fmt: skip


@pytest.mark.parametrize("given", [["y", "h"], ["y"], ["h"]], ids=["all", "every step", "the last state"])
@pytest.mark.parametrize("both", [False, True], ids=["forward", "both ways"])
@pytest.mark.parametrize(("kind", "gates", "layer"), [("LSTM", 4, nn.LSTM), ("GRU", 3, nn.GRU), ("RNN", 1, nn.RNN)])
def test_a_layer_over_time_counts_as_torch_counts_its_products(read, kind, gates, layer, both, given):
    """torch's counter knows no LSTM: beside it stands the same as cells, a product for every step."""
    workload = read(recurrent(kind, gates, both, given))
    (operator,) = workload.graph.operators
    cells = {nn.LSTM: nn.LSTMCell, nn.GRU: nn.GRUCell, nn.RNN: nn.RNNCell}
    whole = layer(4, 6, bidirectional=both)

    def unrolled() -> None:
        for _ in range(2 if both else 1):
            cell = cells[layer](4, 6)
            for step in torch.randn(5, 3, 4):
                F.linear(step, cell.weight_ih)
                F.linear(torch.zeros(3, 6), cell.weight_hh)

    with FlopCounterMode(display=False) as counter:
        unrolled()
    assert operator.flops.at(workload.graph.samples) == counter.get_total_flops()
    assert counter.get_total_flops() == gates * 6 * (4 + 6) * 2 * 5 * 3 * (2 if both else 1)
    assert workload.parameters == sum(p.numel() for p in whole.parameters())
    assert not any("formula" in note for note in workload.notes)


def test_a_layer_over_time_saves_its_gates_also_where_only_the_last_state_is_read(read):
    saved = [
        next(o for o in read(recurrent("LSTM", 4, False, given), training=True).graph.operators).saved_bytes.at(5)
        for given in (["y"], ["h"])
    ]
    assert saved == [8 * 4 * 5 * 3 * 6] * 2, "eight rows of four bytes a number for every step and sample"


def test_a_vector_that_an_export_keeps_once_ties_no_operators_together(read):
    workload = read(
        model([
            node("Add", ["x", "zeros"], ["a"]), node("Add", ["a", "zeros"], ["y"]), tensor("zeros", [8]),
            value(11, "x", [4, 8]), value(13, "a", [4, 8]), value(12, "y", [4, 8]),
        ])
    )  # fmt: skip
    assert [o.colocation for o in workload.graph.operators] == [None, None]
    assert [o.param_bytes for o in workload.graph.operators] == [32, 32]


def size_in(read, data: bytes) -> str:
    """What a file is refused with; nothing if it is read. Any other error passes through."""
    try:
        read(data)
    except InvalidProblem as error:
        return str(error)
    return ""


# Hostile


def elsewhere(path: object) -> bytes:
    """Of a tensor: its bytes are in a file."""
    return field(14, 1) + field(13, field(1, b"location") + field(2, str(path).encode()))


OUTSIDE = ["beside.bin", "./beside.bin", "../beside.bin", "../../../etc/passwd", "/etc/passwd", "", "a\0b"]


@pytest.mark.parametrize("location", OUTSIDE)
def test_weights_in_other_files_are_sizes_and_never_opened(read, monkeypatch, tmp_path, location):
    (tmp_path / "beside.bin").write_bytes(bytes(4 * 8 * 32))
    monkeypatch.chdir(tmp_path)
    opened = []

    def watched(function):
        return lambda path, *rest, **more: (opened.append(str(path)), function(path, *rest, **more))[1]

    data = perceptron(weight=elsewhere(location))
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    for module, name in ((os, "open"), (builtins, "open"), (io, "open"), (os, "stat"), (os, "readlink")):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    workload = load_onnx(path)
    monkeypatch.undo()
    assert set(opened) == {str(path)}
    assert workload.parameters == 8 * 32 + 32 * 2 + 2
    assert workload.graph == read(perceptron()).graph
    assert any("1 weights are in other files, which are not opened" in note for note in workload.notes)


@has_onnx
@pytest.mark.parametrize("where", ["an initializer", "a constant", "a constant of a function"])
@pytest.mark.parametrize("location", ["size.bin", "/absolute", "../size.bin"])
def test_sizes_in_other_files_stay_unknown_also_where_shapes_are_inferred(read, monkeypatch, tmp_path, where, location):
    """The file would say [8, 1], so the shape would be known if it were opened."""
    inside = tmp_path / "in"
    inside.mkdir()
    for folder in (tmp_path, inside):
        (folder / "size.bin").write_bytes((8).to_bytes(8, "little") + (1).to_bytes(8, "little"))
    monkeypatch.chdir(inside)
    path = tmp_path / "size.bin" if location == "/absolute" else location
    size = tensor("size", [2], INT64, elsewhere(path))
    attribute = field(5, field(1, b"value") + field(20, 4) + size)
    parts = [value(11, "x", [4, 2]), value(12, "y", ["a", "b"])]
    reshape = node("Reshape", ["r", "size"], ["y"])
    relu, constant = node("Relu", ["x"], ["r"]), node("Constant", [], ["size"], more=attribute)
    data = {
        "an initializer": model([relu, reshape, size, *parts]),
        "a constant": model([relu, constant, reshape, *parts]),
        "a constant of a function": model(
            [relu, node("Size", [], ["size"], more=field(7, b"own")), reshape, *parts],
            field(8, field(1, b"own") + field(2, 1)) + field(25, b"".join([
                field(1, b"Size"), field(5, b"size"), field(7, bytes(piece(next(fields(memoryview(constant)))[1]))),
                field(9, field(2, 17)), field(10, b"own"),
            ])),
        ),
    }[where]  # fmt: skip
    message = size_in(read, data)
    assert "depends on values, or is not known" in message or "could not be inferred" in message


def test_millions_of_nodes_are_refused_before_any_is_kept(read):
    one = node("Relu", ["x"], ["x"])
    with pytest.raises(InvalidProblem, match="more than 50,000 nodes"):
        read(model([one * 2_000_000, value(11, "x", [1])]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "an empty file"),
        (b"\x08", "cut short"),
        (b"\xff" * 40, "more than ten bytes"),
        (b"hello world, this is no model", "not a protocol buffer"),
        (field(1, 8), "expected one graph, found 0"),
        (perceptron()[:-7], "cut short"),
        (model([node("If", ["x"], ["y"], "choose", field(5, field(1, b"then") + field(6, b"")))]), "control flow"),
        (model([node("Relu", ["nowhere"], ["y"]), value(11, "x", [2]), value(12, "y", [2])]), "'nowhere', which"),
        (model([tensor("w", [2**40, 2**40]), value(11, "x", [2])]), "has the shape"),
        (model([tensor("w", [-1]), value(11, "x", [2])]), "has the shape"),
        (model([tensor("w", [2], 8), value(11, "x", [2])]), "of ONNX's type 8"),
        (model([node("Relu", ["x"], ["x"]), value(11, "x", [2])]), "two tensors are named 'x'"),
        (model([field(15, b"")]), "sparse initializers"),
        (model([field(11, field(1, b"x") + field(2, field(4, b"")))]), "no tensor"),
    ],
)  # fmt: skip
def test_what_is_no_graph_is_refused_in_one_line(read, data, message):
    with pytest.raises(InvalidProblem, match=message) as refused:
        read(data)
    assert str(refused.value).startswith("m.onnx: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("seed", range(80))
def test_a_damaged_file_is_read_or_refused_and_never_anything_else(read, seed):
    rng = random.Random(seed)
    data = bytearray(perceptron())
    for _ in range(rng.randint(1, 6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    assert "\n" not in size_in(read, bytes(data))


@pytest.mark.skipif(importlib.util.find_spec("onnx") is not None, reason="the extra [onnx] is installed")
def test_without_the_package_a_file_that_leaves_shapes_open_says_what_to_install(read):
    with pytest.raises(InvalidProblem, match=r"pip install 'placement-explorer\[onnx\]'"):
        read(perceptron(stated=False))


# With shapes that are inferred


@has_onnx
def test_shapes_that_are_not_stated_are_inferred(read):
    assert read(perceptron(stated=False)).graph == read(perceptron()).graph


@has_onnx
def test_sizes_that_are_left_open_are_assumed_and_reported(read):
    workload = read(perceptron(stated=False, batch="batch"))
    assert workload.graph.samples == 2
    assert any("leaves sizes of inputs open; assumed: x [2, 8]" in note for note in workload.notes)


@has_onnx
def test_sizes_that_a_graph_computes_are_worked_out(read):
    """x reshaped to its own size without the last dimension: Shape, Slice, then Reshape."""
    constants = [
        tensor(name, [1], INT64, field(9, number.to_bytes(8, "little", signed=True)))
        for name, number in (("zero", 0), ("one", 1), ("all", -1))
    ]
    workload = read(
        model([
            node("Shape", ["x"], ["s"]), node("Slice", ["s", "zero", "one"], ["head"]),
            node("Concat", ["head", "all"], ["size"], more=field(5, field(1, b"axis") + field(3, 0) + field(20, 2))),
            node("Relu", ["x"], ["r"]), node("Reshape", ["r", "size"], ["y"]), *constants,
            value(11, "x", [4, 2, 3]), value(12, "y", ["a", "b"]),
        ])
    )  # fmt: skip
    (relu,) = workload.graph.operators
    assert relu.op_type == "aten.relu"


@has_onnx
def test_a_shape_that_depends_on_values_is_refused(read):
    with pytest.raises(InvalidProblem, match="depends on values"):
        read(model([node("NonZero", ["x"], ["y"]), value(11, "x", [4, 2]), value(12, "y", ["a", "b"], INT64)]))


@pytest.mark.slow
@has_onnx
def test_a_constant_too_large_to_work_out_does_not_fill_the_memory(read):
    size = tensor("size", [1], INT64, field(9, (2**40).to_bytes(8, "little")))
    data = model([node("ConstantOfShape", ["size"], ["z"]), node("Add", ["x", "z"], ["y"]), size,
                  value(11, "x", [1]), value(12, "y", ["a"])])  # fmt: skip
    assert "\n" not in size_in(read, data)
