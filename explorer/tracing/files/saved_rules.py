"""What autograd saves for the backward, by rule: for graphs that cannot be run, such as a file.

A live capture runs autograd instead. The rules are those of PyTorch's derivatives.yaml for the
operators of common models (a test compares both on every demo); an operator without a rule is taken
to save its floating inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from explorer.tracing.captured import Captured, Node, Saved, Value
from explorer.tracing.flops import recurrent_matrices

Values = Mapping[str, Value]
STATISTIC_BYTES = 4
"""Statistics of norms and of attention are kept in fp32."""


def _none(node: Node, values: Values) -> float:
    return 0.0


def _attention_statistics(node: Node, values: Values) -> float:
    query = values[node.tensor("query") or ""].shape
    return STATISTIC_BYTES * math.prod(query[:-1])


def _row_statistics(node: Node, values: Values) -> float:
    """Mean and inverse deviation of every row."""
    normalized = node.constants.get("normalized_shape")
    row = math.prod(normalized) if isinstance(normalized, (list, tuple)) else values[node.outputs[0]].shape[-1]
    return 2 * STATISTIC_BYTES * values[node.outputs[0]].numel / row


def _normalised(node: Node, values: Values) -> float:
    """The input over its root mean square, and that of every row: what is kept where the norm is not fused."""
    return values[node.outputs[0]].nbytes + _row_statistics(node, values) / 2


def _channel_statistics(node: Node, values: Values) -> float:
    training = node.constants.get("training")
    return 2 * STATISTIC_BYTES * values[node.outputs[0]].shape[1] if training else 0.0


def _noise(node: Node, values: Values) -> float:
    return values[node.outputs[0]].nbytes


def _pool_indices(node: Node, values: Values) -> float:
    return 8.0 * values[node.outputs[0]].numel


def _log_probabilities(node: Node, values: Values) -> float:
    """And the total weight, one number."""
    logits = values[node.tensors[0][1]]
    return logits.nbytes + logits.nbytes / logits.numel


def _gates(node: Node, values: Values) -> float:
    """Four gates and the tanh of the new cell state."""
    return 5.0 * values[node.outputs[0]].nbytes


def _steps(saved: float) -> Callable[[Node, Values], float]:
    """A whole recurrent layer: so many rows of its width for every step, layer and direction."""

    def extra(node: Node, values: Values) -> float:
        given, made = (values[name] for name in (node.tensors[0][1], node.outputs[0]))
        width = made.shape[-1] / (2 if node.constants.get("bidirectional") else 1)
        rows = math.prod(given.shape[:-1]) * width * made.nbytes / max(made.numel, 1)
        return saved * rows * len(recurrent_matrices(node, values)) / 2

    return extra


@dataclass(frozen=True, slots=True)
class Rule:
    """inputs: the arguments saved. output: whether the result is. rest: whether the results after the
    first are. extra: bytes made inside."""

    inputs: tuple[str, ...] = ()
    output: bool = False
    rest: bool = False
    extra: Callable[[Node, Values], float] = _none


NOTHING = Rule()
INPUT = Rule(inputs=("self", "input"))
OUTPUT = Rule(output=True)


def _all(rule: Rule, *names: str) -> dict[str, Rule]:
    return {f"aten.{name}": rule for name in names}


RULES: dict[str, Rule] = {
    **_all(NOTHING, "add", "sub", "rsub", "neg", "cat", "stack", "sum", "mean", "clone", "to", "_to_copy", "reshape",
           "contiguous", "flatten", "type_as", "constant_pad_nd", "pad", "copy_", "roll", "flip",
           "repeat", "repeat_interleave", "add_", "sub_", "cumsum"),
    **_all(INPUT, "gelu", "silu", "hardswish", "mish", "softplus", "leaky_relu", "elu", "abs", "log", "sin", "cos",
           "pow", "var", "std", "clamp", "hardtanh", "relu6", "avg_pool1d", "avg_pool2d", "avg_pool3d", "norm"),
    **_all(OUTPUT, "relu", "relu_", "sigmoid", "tanh", "softmax", "log_softmax", "exp", "sqrt", "rsqrt", "reciprocal"),
    **_all(Rule(inputs=("input", "self", "weight", "mat1", "mat2", "batch1", "batch2", "other")),
           "linear", "mm", "bmm", "addmm", "baddbmm", "matmul", "mul", "mul_", "div", "div_",
           "conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    "aten.scaled_dot_product_attention": Rule(
        ("query", "key", "value", "attn_mask"), output=True, extra=_attention_statistics
    ),
    "aten.layer_norm": Rule(("input",), extra=_row_statistics),
    "aten.rms_norm": Rule(("input",), extra=_normalised),
    "aten.batch_norm": Rule(("input",), extra=_channel_statistics),
    "aten.dropout": Rule(extra=_noise),
    "aten.embedding": Rule(("indices",)),
    # Beside the sums it returns the size of every bag and the position of its largest element.
    **_all(Rule(("indices", "offsets", "per_sample_weights"), rest=True), "embedding_bag", "_embedding_bag"),
    "aten.cross_entropy_loss": Rule(("target",), extra=_log_probabilities),
    "aten.nll_loss": Rule(("self", "target")),
    "aten.mse_loss": Rule(("self", "target")),
    "aten.max_pool1d": Rule(("self",), extra=_pool_indices),
    "aten.max_pool2d": Rule(("self",), extra=_pool_indices),
    "aten.where": Rule(("condition",)),
    "aten.masked_fill": Rule(("mask",)),
    "aten.gather": Rule(("index",)),
    "aten.scatter": Rule(("index",)),
    "aten.scatter_add": Rule(("index",)),
    "aten.topk": Rule(rest=True),
    "aten.index_select": Rule(("index",)),
    "aten.index": Rule(("indices",)),
    "aten.lstm_cell": Rule(("input", "hx"), extra=_gates),
    # Gates, states and what the products of each layer read.
    "aten.lstm": Rule(("input", "hx"), extra=_steps(8.0)),
    "aten.gru": Rule(("input", "hx"), extra=_steps(8.0)),
    "aten.rnn_tanh": Rule(("input", "hx"), extra=_steps(2.0)),
    "aten.rnn_relu": Rule(("input", "hx"), extra=_steps(2.0)),
}  # fmt: skip

PARTNERS = frozenset(
    {"aten.linear", "aten.mm", "aten.bmm", "aten.matmul", "aten.mul", "aten.mul_", "aten.div", "aten.conv1d",
     "aten.conv2d", "aten.conv3d"}
)  # fmt: skip
"""Each operand is saved for the gradient of the other only."""


def with_saved(captured: Captured) -> Captured:
    """The same with what the rules say is saved: each storage once, by the first operator that saves it;
    parameters, buffers and inputs are not counted."""
    values = captured.values
    settled = {captured.root(name) for name in (*captured.parameters, *captured.buffers, *captured.inputs)}
    saved: list[Saved] = []
    for position, node in enumerate(captured.nodes):
        if not any(values[output].requires_grad for output in node.outputs):
            continue
        if all(values[output].base is not None for output in node.outputs) and not node.mutates:
            continue
        rule = _rule(node)
        saved_names = [name for argument, name in node.tensors if argument in rule.inputs]
        if node.target in PARTNERS:
            operands = [name for _, name in node.tensors[:2]]
            saved_names = [name for name in operands if any(values[x].requires_grad for x in _others(operands, name))]
        if rule.output:
            saved_names.append(node.outputs[0])
        if rule.rest:
            saved_names += node.outputs[1:]
        for name in saved_names:
            root = captured.root(name)
            if root not in settled:
                settled.add(root)
                saved.append(Saved(position, root, values[root].nbytes))
        extra = int(rule.extra(node, values))
        if extra:
            saved.append(Saved(position, None, extra))
    return replace(captured, saved=tuple(saved))


def _others(operands: list[str], name: str) -> list[str]:
    """The operands beside one; both, for a product of a tensor with itself."""
    rest = list(operands)
    rest.remove(name)
    return rest


def _rule(node: Node) -> Rule:
    if node.target == "aten.adaptive_avg_pool2d":
        # A pool to one position is a mean, which saves nothing.
        return NOTHING if node.constants.get("output_size") in ([1, 1], (1, 1), [1], 1) else INPUT
    return RULES.get(node.target, Rule(tuple(argument for argument, _ in node.tensors)))
