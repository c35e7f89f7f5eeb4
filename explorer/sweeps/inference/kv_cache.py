"""The KV cache of a decoder: what attention at one token reads of all tokens before it, and holds for them.

Keys and values of a token are counted as they are made, before heads are repeated for groups of queries (Ainslie et
al., GQA, EMNLP 2023). Latent attention (DeepSeek-V2, 2024, section 2.1) keeps one vector a token in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.tracing.captured import Captured, Node, Value
from solvers.errors import InvalidProblem
from solvers.problem.collectives import ATTENTION

MOVES = frozenset(
    f"aten.{name}"
    for name in (
        "expand", "reshape", "view", "_unsafe_view", "clone", "contiguous", "repeat", "repeat_interleave", "unsqueeze",
        "transpose", "permute", "flatten", "unflatten",
    )
)  # fmt: skip
"""Calls that repeat or rearrange what they read: seen through for the number of heads of keys and values."""


@dataclass(frozen=True, slots=True)
class Latent:
    """Elements of a token that latent attention keeps: a compressed vector, which is read as value too, and the part
    of the key that positions rotate. Every member of a tensor-parallel group keeps all of it."""

    rank: int
    rotary: int

    @classmethod
    def parse(cls, written: str) -> Latent:
        """ "512+64" -> rank and rotary part. Raises InvalidProblem."""
        parts = written.split("+")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 7 for part in parts):
            raise InvalidProblem(f"expected RANK+ROTARY elements of a token, such as 512+64; found {written[:40]!r}")
        if int(parts[0]) < 1:
            raise InvalidProblem(f"the rank of a latent cache must be at least 1, found {written!r}")
        return cls(*map(int, parts))


def attention_calls(captured: Captured) -> tuple[int, ...]:
    """Positions of the calls of attention, in the order of the forward."""
    return tuple(at for at, node in enumerate(captured.nodes) if node.target == ATTENTION)


def check_decoder(prefill: Captured, decode: Captured, *, causal: bool) -> None:
    """Raises InvalidProblem, in one line, unless all attention is causal self-attention, the same calls over a prompt
    and over one token.

    prefill: captured over a prompt of at least two tokens.
    decode: captured over one token.
    causal: whether masks that the model makes itself are taken as causal.
    """
    name, calls = prefill.name, [prefill.nodes[at] for at in attention_calls(prefill)]
    if not calls:
        raise InvalidProblem(
            f"{name}: calls no scaled_dot_product_attention, so there is no KV cache to count; decoders are models of"
            " causal self-attention (transformers: attn_implementation='sdpa')"
        )
    for node in calls:
        query, key = _value(prefill, node, "query"), _value(prefill, node, "key")
        where = f"{name}: the attention of {node.module_path or node.name}"
        if query.shape[-2] != key.shape[-2]:
            raise InvalidProblem(
                f"{where} reads {key.shape[-2]:,} tokens with {query.shape[-2]:,} queries; only self-attention can be"
                " decoded here (encoder-decoders are not)"
            )
        if node.constants.get("is_causal"):
            continue
        if node.tensor("attn_mask") is None:
            raise InvalidProblem(f"{where} is not causal, so tokens cannot come one by one; plan it with --inference")
        if not causal:
            raise InvalidProblem(
                f"{where} has a mask, whose values the graph does not hold; if it is causal, say so: --causal"
            )
    once = [decode.nodes[at] for at in attention_calls(decode)]
    if [node.module_path for node in once] != [node.module_path for node in calls]:
        raise InvalidProblem(f"{name}: calls other attention for one token than for a prompt, so it cannot be decoded")
    for node in once:
        if (queries := _value(decode, node, "query").shape[-2]) != 1:
            raise InvalidProblem(
                f"{name}: for one token the attention of {node.module_path or node.name} has {queries:,} queries; the"
                " model has a length of its own in place of that of its inputs"
            )


def cached_elements(captured: Captured, at: int) -> tuple[int, int]:
    """Elements of the keys and of the values that the attention at a position caches for a token of a sample.

    captured: over one token a sample.
    """
    makers = {output: node for node in captured.nodes for output in node.outputs}
    node = captured.nodes[at]
    key, value = (_least(captured, makers, node, argument) // captured.samples for argument in ("key", "value"))
    return key, value


def _least(captured: Captured, makers: dict[str, Node], node: Node, argument: str) -> int:
    """The fewest elements on the way to an argument through calls that repeat or rearrange."""
    name = node.tensor(argument)
    assert name is not None
    least = captured.values[name].numel
    while (made := makers.get(name)) is not None and made.target in MOVES and made.tensors:
        name = made.tensors[0][1]
        least = min(least, captured.values[name].numel)
    return least


def with_cache(captured: Captured, tokens: int, latent: Latent | None = None) -> Captured:
    """A decoder over one token whose attention reads a cache of so many tokens, the new one among them.

    The cache is a buffer of each call, with the FLOPs, bytes and room that follow from its shape: of all samples.
    """
    values, buffers, nodes = dict(captured.values), list(captured.buffers), list(captured.nodes)
    for at in attention_calls(captured):
        node = nodes[at]
        key, value = _value(captured, node, "key"), _value(captured, node, "value")
        widths: Sequence[int] = cached_elements(captured, at) if latent is None else (latent.rank + latent.rotary,)
        held = []
        for number, width in enumerate(widths):
            shape = (captured.samples, tokens, width)
            one = Value(f"{node.name}.kv_cache.{number}", shape, (tokens * width, width, 1), key.dtype)
            values[one.name] = one
            buffers.append(one.name)
            held.append(one.name)
        read = (key.shape[-1], value.shape[-1]) if latent is None else (widths[0], latent.rank)
        names = []
        for which, like, width, base in zip(("key", "value"), (key, value), read, (held[0], held[-1]), strict=True):
            whole = (*like.shape[:-2], tokens, width)
            seen = replace(like, name=f"{node.name}.cached_{which}", shape=whole, strides=(0,) * len(whole), base=base)
            values[seen.name] = seen
            names.append((which, seen.name))
        rest = [(argument, name) for argument, name in node.tensors if argument not in ("query", "key", "value")]
        new = [(f"new_{argument}", name) for argument, name in node.tensors if argument in ("key", "value")]
        query = _value(captured, node, "query")
        if latent is not None:  # as wide as what it is multiplied with
            wide = replace(query, name=f"{node.name}.query", shape=(*query.shape[:-1], read[0]), base=query.name)
            values[wide.name] = query = wide
        constants = {**node.constants, "is_causal": False}
        nodes[at] = replace(node, tensors=(("query", query.name), *names, *rest, *new), constants=constants)
    return replace(
        captured, values=values, buffers=tuple(buffers), nodes=tuple(nodes), whole={}, saved_whole=(), saved=()
    )


def _value(captured: Captured, node: Node, argument: str) -> Value:
    name = node.tensor(argument)
    assert name is not None
    return captured.values[name]
