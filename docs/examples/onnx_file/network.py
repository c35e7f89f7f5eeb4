"""Write a small ONNX file: convolutions in two branches, joined, then a classifier.

    python network.py network.onnx

Weights are initialisers of zeros: a planner needs their sizes only.
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SIDE, CLASSES, DEPTH = 64, 64, 100, 4


def convolution(name: str, source: str, channels: int, made: int) -> tuple[list[onnx.NodeProto], onnx.TensorProto]:
    """A convolution of 3 x 3 with a ReLU behind it, and its weight; the output is called ``name``."""
    weight = numpy_helper.from_array(np.zeros((made, channels, 3, 3), np.float32), f"{name}.weight")
    nodes = [
        helper.make_node("Conv", [source, f"{name}.weight"], [f"{name}.sum"], f"{name}/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", [f"{name}.sum"], [name], f"{name}/relu"),
    ]
    return nodes, weight


def network() -> onnx.ModelProto:
    """image [batch, 3, side, side] -> scores [batch, classes]."""
    nodes, weights = [], []

    def add(name: str, source: str, channels: int, made: int) -> str:
        more, weight = convolution(name, source, channels, made)
        nodes.extend(more)
        weights.append(weight)
        return name

    stem = add("stem", "image", 3, CHANNELS)
    ends = []
    for branch in ("left", "right"):
        x = stem
        for depth in range(DEPTH):
            x = add(f"{branch}.{depth}", x, CHANNELS, CHANNELS)
        ends.append(x)
    nodes.append(helper.make_node("Concat", ends, ["joined"], "joined/concat", axis=1))
    x = add("last", "joined", 2 * CHANNELS, 4 * CHANNELS)
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["pooled"], "head/pool"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"], "head/flatten"))
    nodes.append(helper.make_node("Gemm", ["flat", "head.weight"], ["scores"], "head/gemm", transB=1))
    weights.append(numpy_helper.from_array(np.zeros((CLASSES, 4 * CHANNELS), np.float32), "head.weight"))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", CLASSES])
    graph = helper.make_graph(nodes, "network", [image], [scores], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


if __name__ == "__main__":
    onnx.save(network(), sys.argv[1])
