"""Which call of PyTorch an operator of ONNX is, for sizes, FLOPs and what a backward would save."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.tracing.captured import Node, Value
from explorer.tracing.files.onnx_model import OnnxNode

SAME = {
    "Abs": "abs", "Add": "add", "And": "logical_and", "ArgMax": "argmax", "ArgMin": "argmin", "Cast": "_to_copy",
    "Ceil": "ceil", "Clip": "clamp", "Concat": "cat", "Cos": "cos", "CumSum": "cumsum", "Div": "div", "Elu": "elu",
    "Equal": "eq", "Erf": "erf", "Exp": "exp", "Floor": "floor", "GatherElements": "gather", "GatherND": "index",
    "Gelu": "gelu", "GlobalAveragePool": "mean", "GlobalMaxPool": "amax", "Greater": "gt", "GreaterOrEqual": "ge",
    "HardSwish": "hardswish", "HardSigmoid": "hardtanh", "LeakyRelu": "leaky_relu", "Less": "lt",
    "LessOrEqual": "le", "Log": "log", "LogSoftmax": "log_softmax", "Max": "maximum", "Mean": "mean",
    "Min": "minimum", "Mish": "mish", "Mod": "remainder", "Mul": "mul", "Neg": "neg", "Not": "logical_not",
    "Or": "logical_or", "PRelu": "prelu", "Pad": "constant_pad_nd", "Pow": "pow", "Range": "arange",
    "Reciprocal": "reciprocal", "ReduceL2": "linalg_vector_norm", "ReduceLogSumExp": "logsumexp",
    "ReduceMax": "amax", "ReduceMean": "mean", "ReduceMin": "amin", "ReduceProd": "prod", "ReduceSum": "sum",
    "ReduceSumSquare": "sum", "Relu": "relu", "Resize": "upsample_nearest2d", "Round": "round",
    "ScatterElements": "scatter", "ScatterND": "index_put", "Selu": "selu", "Sigmoid": "sigmoid", "Sign": "sign",
    "Sin": "sin", "Softmax": "softmax", "Softplus": "softplus", "Sqrt": "sqrt", "Sub": "sub", "Sum": "add",
    "Tan": "tan", "Tanh": "tanh", "Tile": "repeat", "TopK": "topk", "Trilu": "triu", "Upsample": "upsample_nearest2d",
    "Where": "where", "AveragePool": "avg_pool2d", "MaxPool": "max_pool2d", "DepthToSpace": "pixel_shuffle",
    "ConstantOfShape": "full", "Dropout": "dropout", "EyeLike": "zeros_like",
}  # fmt: skip
"""Operators whose inputs play no roles of their own."""

ROLES = {
    "Conv": ("conv", ("input", "weight", "bias")),
    "ConvTranspose": ("conv_transpose", ("input", "weight", "bias")),
    "LayerNormalization": ("layer_norm", ("input", "weight", "bias")),
    "RMSNormalization": ("rms_norm", ("input", "weight")),
    "SimplifiedLayerNormalization": ("rms_norm", ("input", "weight")),
    "BatchNormalization": ("batch_norm", ("input", "weight", "bias", "running_mean", "running_var")),
    "InstanceNormalization": ("instance_norm", ("input", "weight", "bias")),
    "GroupNormalization": ("group_norm", ("input", "weight", "bias")),
    "Attention": ("scaled_dot_product_attention", ("query", "key", "value", "attn_mask")),
}
"""Those whose inputs do."""

RECURRENT = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}
"""Layers over time: X, W, R, B, lengths, the first states and peepholes go in, Y of every step and the last states
come out, each of which may be left out."""

VIEWS = {"Transpose": "permute", "Reshape": "reshape", "Flatten": "flatten", "Squeeze": "squeeze", "Split": "split",
         "Unsqueeze": "unsqueeze", "Expand": "expand", "Identity": "alias", "Slice": "slice"}  # fmt: skip
"""Those that look into their first input, where the strides allow it."""

STATES = {"BatchNormalization": (3, 4)}
"""Inputs that are kept and not trained."""

Call = tuple[str, list[tuple[str, str]], dict[str, object]]
"""A target, (argument, value) in order, constants."""


def call_of(node: OnnxNode, values: Mapping[str, Value], parameters: Mapping[str, str]) -> Call:
    """values: of everything that the node reads and whose shape counts. What is not known is named ``onnx.*``."""
    read = [name for name in node.inputs if name in values]
    kind = node.op_type if node.domain in ("", "ai.onnx", "com.microsoft") else f"{node.domain}.{node.op_type}"
    if kind in ROLES and len(read) >= 2:
        target, roles = ROLES[kind]
        if target.startswith("conv"):
            target += f"{max(1, min(3, len(values[read[1]].shape) - 2))}d"
        given = [(role, name) for role, name in zip(roles, node.inputs, strict=False) if name in values]
        row = values[read[0]].shape[-1:]
        return f"aten.{target}", given, {"normalized_shape": list(row)} if "norm" in target else {}
    if kind in ("MatMul", "Gemm", "Einsum") and len(read) >= 2:
        return _product(node, read, values, parameters)
    if kind in RECURRENT and len(read) >= 3:
        roles = ("input", "params", "params", "params", "lengths", "hx", "hx", "params")
        given = [(role, name) for role, name in zip(roles, node.inputs, strict=False) if name in values]
        return f"aten.{RECURRENT[kind]}", given, {}
    if kind == "Gather" and len(read) == 2:
        table = ("aten.embedding", "weight", "indices") if read[0] in parameters else ("aten.index", "self", "indices")
        return table[0], [(table[1], read[0]), (table[2], read[1])], {}
    if kind == "Gather" and read == [node.inputs[0]]:  # at places that are known: one of them is a view
        return "aten.select", [("self", read[0])], {}
    if kind in VIEWS:
        return f"aten.{VIEWS[kind]}", [("self", name) for name in read[:1]], {}
    if kind in SAME:
        roles = ("condition", "self", "other") if kind == "Where" else ("self", "other")
        given = [(role, name) for role, name in zip((*roles, *["tensors"] * len(read)), read, strict=False)]
        return f"aten.{SAME[kind]}", given, {"train": False} if kind == "Dropout" else {}
    return f"onnx.{kind}", [(f"input_{i}", name) for i, name in enumerate(read)], {}


def _product(node: OnnxNode, read: list[str], values: Mapping[str, Value], parameters: Mapping[str, str]) -> Call:
    if node.op_type == "Einsum":
        return "aten.einsum", [("tensors", name) for name in read], {"equation": node.attributes.get("equation")}
    left, right = read[:2]
    if node.op_type == "MatMul":
        if right in parameters and len(values[right].shape) == 2:
            return "aten.linear", [("input", left), ("weight", right)], {}
        return "aten.matmul", [("self", left), ("other", right)], {}
    bias = [("bias", name) for name in read[2:3]]
    if node.attributes.get("transA"):
        equation = "km,nk->mn" if node.attributes.get("transB") else "km,kn->mn"
        return "aten.einsum", [("tensors", left), ("tensors", right), *bias], {"equation": equation}
    return "aten.linear", [("input", left), ("weight", right), *bias], {}


def strides_of(
    call: Node, source: Value | None, shape: tuple[int, ...], attributes: Mapping[str, object]
) -> tuple[int, ...]:
    """Of an output: those of a view where it is one, else row-major. attributes: of the node in ONNX."""
    axis, order = attributes.get("axis", 0), attributes.get("perm")
    if source is not None and call.target == "aten.select" and isinstance(axis, int):
        axis %= len(source.shape)
        if source.shape[:axis] + source.shape[axis + 1 :] == shape:
            return source.strides[:axis] + source.strides[axis + 1 :]
    if source is not None and call.target == "aten.permute" and len(source.shape) == len(shape):
        at = order if isinstance(order, list) else list(reversed(range(len(shape))))
        if sorted(at) == list(range(len(shape))):
            return tuple(source.strides[dim] for dim in at)
    if source is not None and call.target in ("aten.slice", "aten.split", "aten.alias"):
        return source.strides
    if source is not None and call.target == "aten.expand":
        lead = len(shape) - len(source.shape)
        pairs = zip(source.shape, source.strides, shape[lead:], strict=True)
        return (0,) * lead + tuple(stride if size == wide else 0 for size, stride, wide in pairs)
    if source is not None and call.target in ("aten.squeeze", "aten.unsqueeze"):
        left = [stride for size, stride in zip(source.shape, source.strides, strict=True) if size != 1]
        return tuple(left.pop(0) if size != 1 and left else 1 for size in shape)
    return row_major(shape)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides without gaps, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
