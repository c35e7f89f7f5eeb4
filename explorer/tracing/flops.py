"""Floating-point operations of one call, from shapes alone (a multiply-add counts as two).

The formulas of products, convolutions and attention are those of torch.utils.flop_counter (a test
compares them); LSTMs are its missing case. Everything else is counted as a few operations per
element: it is bound by memory, not by arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from explorer.tracing.captured import Node, Value

Shape = tuple[int, ...]
Values = Mapping[str, Value]


def flops(node: Node, values: Values, weights: frozenset[str] = frozenset()) -> float:
    """FLOPs of ``node`` as it was captured. weights: those of its tensors that are parameters, or look into one."""
    formula = FORMULAS.get(node.target)
    if formula is not None:
        return float(formula(node, values))
    if node.target in BAGS:
        return _bag(node, values)
    if not node.outputs or node.target in PURE_COPIES:
        return 0.0
    read = [name for _, name in node.tensors if name not in weights or has_formula(node.target)]
    touched = [values[name].numel for name in (*node.outputs, *read)]
    return float(PER_ELEMENT.get(node.target, 1) * max(touched, default=0))


def has_formula(target: str) -> bool:
    """Whether the FLOPs of such calls are known, be it as a few an element."""
    return target in FORMULAS or target in BAGS or target.rstrip("_") in SIMPLE


def _shape(node: Node, values: Values, *arguments: str) -> Shape:
    for argument in arguments:
        name = node.tensor(argument)
        if name is not None:
            return values[name].shape
    return ()


def _output(node: Node, values: Values) -> Shape:
    return values[node.outputs[0]].shape


def _product(left: str, right: str) -> Callable[[Node, Values], float]:
    """[..., m, k] x [k, n] or [..., k, n]: 2 x elements of the result x k."""

    def formula(node: Node, values: Values) -> float:
        k = (_shape(node, values, left) or (1,))[-1]
        return 2.0 * math.prod(_output(node, values)) * k

    return formula


def _convolution(node: Node, values: Values) -> float:
    """2 x positions x weights: every output position of an image uses each weight once (transposed:
    every input position)."""
    weight = _shape(node, values, "weight")
    transposed = "transpose" in node.target or bool(node.constants.get("transposed"))
    image = _shape(node, values, "input", "self") if transposed else _output(node, values)
    spatial = image[-(len(weight) - 2) :]
    batch = image[0] if len(image) == len(weight) else 1
    return 2.0 * batch * math.prod(spatial) * math.prod(weight)


def _attention(node: Node, values: Values) -> float:
    """Two products: queries x keys and scores x values. A causal mask is not discounted."""
    query, key = _shape(node, values, "query"), _shape(node, values, "key")
    value = _shape(node, values, "value")
    heads, tokens = math.prod(query[:-2]), query[-2]
    return 2.0 * heads * tokens * key[-2] * (query[-1] + value[-1])


def _cell(gates: int) -> Callable[[Node, Values], float]:
    """A recurrent cell: two products of [batch, in] x [in, gates x width]."""

    def formula(node: Node, values: Values) -> float:
        state = _output(node, values)
        inputs, hidden = _shape(node, values, "w_ih"), _shape(node, values, "w_hh")
        return 2.0 * state[0] * (math.prod(inputs) + math.prod(hidden)) + 2.0 * gates * math.prod(state)

    return formula


def _recurrent(node: Node, values: Values) -> float:
    """A whole LSTM or GRU: every matrix of every layer and direction once per step and sample."""
    rows = (_shape(node, values, "input") or _output(node, values))[:-1]
    return 2.0 * math.prod(rows) * sum(math.prod(shape) for shape in recurrent_matrices(node, values))


def recurrent_matrices(node: Node, values: Values) -> list[Shape]:
    """[gates x width, in] of every product of a recurrent layer. PyTorch has two for each direction (and a third where
    states are projected), ONNX stacks those of both directions: [directions, gates x width, in]."""
    shapes = [values[name].shape for argument, name in node.tensors if argument == "params"]
    stacked = [shape for shape in shapes if len(shape) == 3]
    return [shape[1:] for shape in stacked for _ in range(shape[0])] or [s for s in shapes if len(s) == 2]


def _einsum(node: Node, values: Values) -> float:
    """2 x the product of every index of the equation (one contraction)."""
    equation = str(node.constants.get("equation", "")).replace(" ", "")
    shapes = [values[name].shape for _, name in node.tensors]
    sizes: dict[str, int] = {}
    for letters, shape in zip(equation.split("->")[0].split(","), shapes, strict=False):
        if "." in letters or len(letters) != len(shape):
            return 2.0 * math.prod(_output(node, values)) * (shapes[0][-1] if shapes and shapes[0] else 1)
        sizes.update(zip(letters, shape, strict=True))
    return 2.0 * math.prod(sizes.values())


def _bag(node: Node, values: Values) -> float:
    """Every element of every row looked up is added, and multiplied first if the rows have weights."""
    table, indices = (values[name] for _, name in node.tensors[:2])
    weighted = node.tensor("per_sample_weights") is not None
    return (2.0 if weighted else 1.0) * indices.numel * math.prod(table.shape[1:])


def _grouped(left: str, right: str) -> Callable[[Node, Values], float]:
    """Rows sorted by the matrix (the expert) that they are multiplied with: every row meets one matrix, however
    they are spread. Without rows of groups in the result, each group is a piece of the sum."""

    def formula(node: Node, values: Values) -> float:
        a, b, out = _shape(node, values, left), _shape(node, values, right), _output(node, values)
        pieces = out[0] if len(a) == len(b) == 2 and len(out) == 3 else 1
        return 2.0 * math.prod(out) * a[-1] / pieces

    return formula


def _vector(left: str, right: str) -> Callable[[Node, Values], float]:
    """[m, k] x [k] or [k] x [k]: 2 x elements of the matrix."""

    def formula(node: Node, values: Values) -> float:
        return 2.0 * max(math.prod(_shape(node, values, left)), math.prod(_shape(node, values, right)))

    return formula


def _bilinear(node: Node, values: Values) -> float:
    """[m, i] x [o, i, j] x [m, j], the first product before the second."""
    rows = math.prod(_output(node, values)[:-1])
    out, inner, other = _shape(node, values, "weight")
    return 2.0 * rows * out * (inner * other + other)


FORMULAS: dict[str, Callable[[Node, Values], float]] = {
    "aten.linear": _product("input", "weight"),
    "aten.mm": _product("self", "mat2"),
    "aten.bmm": _product("self", "mat2"),
    "aten.matmul": _product("self", "other"),
    "aten.addmm": _product("mat1", "mat2"),
    "aten.baddbmm": _product("batch1", "batch2"),
    "aten.conv1d": _convolution,
    "aten.conv2d": _convolution,
    "aten.conv3d": _convolution,
    "aten.convolution": _convolution,
    "aten.conv_transpose1d": _convolution,
    "aten.conv_transpose2d": _convolution,
    "aten.conv_transpose3d": _convolution,
    "aten.scaled_dot_product_attention": _attention,
    "aten.lstm_cell": _cell(gates=4),
    "aten.gru_cell": _cell(gates=3),
    "aten.rnn_tanh_cell": _cell(gates=1),
    "aten.rnn_relu_cell": _cell(gates=1),
    "aten.lstm": _recurrent,
    "aten.gru": _recurrent,
    "aten.rnn_tanh": _recurrent,
    "aten.rnn_relu": _recurrent,
    "aten.einsum": _einsum,
    "aten._grouped_mm": _grouped("self", "mat2"),
    "aten._scaled_grouped_mm": _grouped("self", "mat2"),
    "aten._scaled_mm": _product("self", "mat2"),
    "aten._int_mm": _product("self", "mat2"),
    "aten.addbmm": lambda node, values: 2.0 * math.prod(_shape(node, values, "batch1")) * _output(node, values)[-1],
    "aten.mv": _vector("self", "vec"),
    "aten.addmv": _vector("mat", "vec"),
    "aten.dot": _vector("self", "tensor"),
    "aten.vdot": _vector("self", "other"),
    "aten.bilinear": _bilinear,
    # What transformers calls where torch's own grouped product does not run (its `integrations/moe.py`).
    "transformers.grouped_mm_fallback": _grouped("input", "weight"),
}
"""Operators that arithmetic may bound."""

GROUPED = frozenset(name for name in FORMULAS if "grouped_mm" in name)
"""Products of rows with the matrix of their group: how many rows each group has is in the values."""

RECURRENT = frozenset({"aten.lstm", "aten.gru", "aten.rnn_tanh", "aten.rnn_relu"})
"""Layers that hold a chain of products over time."""

PRODUCTS = frozenset(FORMULAS)
"""Operators that are products of matrices, or convolutions, or attention."""

BAGS = frozenset({"aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only"})
"""Operators that look rows up and add them: of the table, the indices and where each bag begins."""

PER_ELEMENT = {
    "aten.layer_norm": 8, "aten.rms_norm": 5, "aten.batch_norm": 8, "aten.group_norm": 8, "aten.softmax": 5,
    "aten.log_softmax": 5, "aten.cross_entropy_loss": 6, "aten.gelu": 8, "aten.silu": 5,
    "aten.sigmoid": 4, "aten.tanh": 4, "aten.dropout": 2,
}  # fmt: skip
"""Operations per element where it is more than one: orders of magnitude, for the display only."""

PURE_COPIES = frozenset(
    {"aten.cat", "aten.stack", "aten.clone", "aten.contiguous", "aten.reshape", "aten.embedding", "aten.copy_",
     "aten.index_select", "aten.gather", "aten.index", "aten.zeros", "aten.ones", "aten.full", "aten.arange",
     "aten.empty", "aten.to", "aten._to_copy", "aten.constant_pad_nd", "aten.pad", "aten.flatten"}
)  # fmt: skip
"""Operators that only move bytes."""

ELEMENTWISE = frozenset(
    f"aten.{name}"
    for name in (
        "abs", "add", "addcdiv", "addcmul", "amax", "amin", "argmax", "argmin", "bitwise_and", "bitwise_not",
        "bitwise_or", "ceil", "celu", "clamp", "clamp_max", "clamp_min", "conj", "cos", "cumprod", "cumsum", "div",
        "elu", "eq", "erf", "exp", "expm1", "fill", "floor", "fmod", "ge", "glu", "gt", "hardtanh", "instance_norm",
        "isfinite", "le", "leaky_relu", "lerp", "linalg_norm", "linalg_vector_norm", "log", "log1p", "logaddexp",
        "logical_and", "logical_not", "logical_or", "logsumexp", "lt", "masked_fill", "max", "maximum", "mean", "min",
        "minimum", "mul", "native_batch_norm", "native_group_norm", "native_layer_norm", "ne", "neg", "norm", "pow",
        "prelu", "prod", "reciprocal", "relu", "relu6", "remainder", "round", "rsqrt", "rsub", "selu", "sign", "sin",
        "softplus", "sqrt", "square", "std", "std_mean", "sub", "sum", "tan", "var", "var_mean", "where",
        "_fused_rms_norm", "_weight_norm", "_weight_norm_interface", "_prelu_kernel", "fake_quantize_per_tensor_affine",
    )
)  # fmt: skip
"""Operators of about one operation an element, or one for each that a reduction reads."""

MOVES = frozenset(
    f"aten.{name}"
    for name in (
        "_pad_enum", "bernoulli", "complex", "concat", "concatenate", "diag", "diag_embed", "dropout", "empty_like",
        "expand_copy", "flip", "hstack", "index_add", "index_copy", "index_fill", "index_put", "lift_fresh_copy",
        "masked_select", "new_empty", "new_full", "new_ones", "new_zeros", "nonzero", "ones_like", "pixel_shuffle",
        "repeat", "repeat_interleave", "roll", "scatter", "scatter_add", "take", "take_along_dim", "tile", "tril",
        "triu", "type_as", "vstack", "zero", "zeros_like", "upsample_bicubic2d", "upsample_bilinear2d",
        "upsample_nearest2d", "grid_sampler",
    )
)  # fmt: skip
"""More that move bytes, or weigh a few of them."""

SIMPLE = frozenset(PER_ELEMENT) | PURE_COPIES | ELEMENTWISE | MOVES
"""Operators that a few operations an element describe; each in place, too."""
