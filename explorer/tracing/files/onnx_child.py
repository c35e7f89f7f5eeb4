"""The child of `onnx_shapes`: a model without weights on stdin, the same with all shapes on stdout.

Run as a script, isolated, and imports nothing of this package. Integers that follow from shapes (of which exports
compute the sizes of slices and reshapes) are worked out until no shape changes.
"""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from typing import Any

MOST = 4096
"""Elements of what is worked out."""
ROUNDS = 12
ALLOWED = frozenset(
    ("Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Floor", "Gather", "Greater",
     "Identity", "Less", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Range", "ReduceMax", "ReduceMin",
     "ReduceProd", "ReduceSum", "Reshape", "ScatterND", "Slice", "Split", "Squeeze", "Sub", "Transpose", "Unsqueeze",
     "Where")
)  # fmt: skip
"""Operators that sizes are computed with."""


def limited(nbytes: int, seconds: int) -> None:
    """Bounds on memory and time, where the system can be asked for them."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (nbytes, nbytes))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def inferred(model: Any) -> Any:
    """``model`` with the shape of everything that follows from its inputs."""
    from onnx import helper, inliner, numpy_helper, shape_inference

    if model.functions:
        model = inliner.inline_local_functions(model)
    known = {}
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= MOST:
            with suppress(ValueError, RuntimeError):  # its bytes were left out
                known[tensor.name] = numpy_helper.to_array(tensor)
    for _ in range(ROUNDS):
        model = shape_inference.infer_shapes(model, data_prop=True)
        if not _worked_out(model, known, helper, numpy_helper):
            break
    return model


def _worked_out(model: Any, known: dict[str, Any], helper: Any, numpy_helper: Any) -> bool:
    """Put what is known now in place of the nodes that compute it; whether there was any."""
    import numpy as np

    shapes = {}
    for value in (*model.graph.input, *model.graph.value_info):
        dims = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            shapes[value.name] = tuple(dim.dim_value for dim in dims)
    shapes.update((tensor.name, tuple(tensor.dims)) for tensor in model.graph.initializer)
    remaining, made = [], 0
    for node in model.graph.node:
        values = _of_node(node, shapes, known, np, numpy_helper, model)
        if values is None:
            remaining.append(node)
            continue
        made += 1
        for name, value in zip(node.output, values, strict=False):
            value = np.asarray(value)
            known[name], shapes[name] = value, value.shape
            model.graph.initializer.append(numpy_helper.from_array(value, name))
    del model.graph.node[:]
    model.graph.node.extend(remaining)
    return made > 0


def _of_node(
    node: Any, shapes: dict[str, tuple[int, ...]], known: dict[str, Any], np: Any, numpy_helper: Any, model: Any
) -> list[Any] | None:
    """The values that a node gives, or None."""
    from onnx.reference import ReferenceEvaluator

    if node.op_type == "Shape" and node.input[0] in shapes and not node.attribute:
        return [np.array(shapes[node.input[0]], np.int64)]
    if node.op_type == "Constant":
        tensors = [a.t for a in node.attribute if a.name == "value"]
        if tensors and math.prod(tensors[0].dims) > MOST:
            return None
    elif (
        node.op_type not in ALLOWED
        or not all(name in known for name in node.input if name)
        or _numel(node, [known[name] for name in node.input if name]) > MOST
    ):
        return None
    try:
        feeds = {name: known[name] for name in node.input if name}
        opset = {entry.domain: entry.version for entry in model.opset_import}
        outputs: Any = ReferenceEvaluator(node, opsets=opset).run(None, feeds)
    except Exception:  # what it cannot work out stays a node
        return None
    return outputs if all(np.size(value) <= MOST for value in outputs) else None


def _numel(node: Any, given: list[Any]) -> float:
    """Elements that a node would give or read, before it does."""
    most = max((value.size for value in given), default=0)
    if node.op_type == "ConstantOfShape":
        return math.prod(int(size) for size in given[0].ravel())
    if node.op_type == "Expand":
        return max(most, 1) * math.prod(max(1, int(size)) for size in given[1].ravel())
    if node.op_type == "Range":
        start, limit, step = (float(value) for value in given)
        return abs((limit - start) / step) if step else math.inf
    return math.prod(value.size for value in given) if len(given) > 1 and most > 64 else most


if __name__ == "__main__":
    limited(int(sys.argv[1]), int(sys.argv[2]))
    import onnx

    result = inferred(onnx.load_model_from_string(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(result.SerializeToString())
