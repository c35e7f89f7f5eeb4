"""Attention to some of all keys, and what it says of how much of the whole softmax that is: the logarithm of the sum of
its exponentials, by which results of several blocks of keys become one.

Tensors are [samples, heads, tokens, width], with as many heads of queries as of keys. Where torch has a kernel that
gives that logarithm it is called; else one block of scores is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NARROW = (torch.bfloat16, torch.float16)
"""Types of which a GPU has a kernel."""
WIDEST = 256
"""A head of which it has one, in entries; and a multiple of 8."""


@dataclass(frozen=True)
class Block:
    """How a block is attended to. scale: of scores. causal: whether a query sees no keys that come after its own place.
    mask: is added to scores, or says which count. dropout: by what entries of the softmax are multiplied, 0 where they
    are dropped."""

    scale: float
    causal: bool = False
    mask: Tensor | None = None
    dropout: Tensor | None = None

    def has_kernel(self, query: Tensor, value: Tensor) -> bool:
        """Whether torch has one for such tensors here."""
        if self.mask is not None or self.dropout is not None or query.shape[-1] != value.shape[-1]:
            return False
        if query.device.type == "cpu":
            return True
        fits = query.dtype in NARROW and query.shape[-1] % 8 == 0 and query.shape[-1] <= WIDEST
        return query.device.type == "cuda" and torch.version.hip is None and fits


def attended(query: Tensor, key: Tensor, value: Tensor, block: Block) -> tuple[Tensor, Tensor]:
    """(the values that the queries found in the block, the logarithms of their sums, [samples, heads, tokens])."""
    if not block.has_kernel(query, value):
        scores = _scores(query, key, block)
        total = scores.logsumexp(-1)
        return _weights(scores, total, block.dropout).to(value.dtype) @ value, total
    if query.device.type == "cpu":
        result, total = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, block.causal, scale=block.scale
        )
    else:
        result, total, *_ = torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, 0.0, block.causal, scale=block.scale
        )
    return result, total


def gradients(
    gradient: Tensor, given: tuple[Tensor, Tensor, Tensor], result: Tensor, total: Tensor, block: Block
) -> tuple[Tensor, Tensor, Tensor]:
    """What the queries, keys and values of a block (``given``) have of a gradient. found, total: of all blocks."""
    query, key, value = given
    if not block.has_kernel(query, value):
        return _gradients(gradient, given, result, total, block)
    if query.device.type == "cpu":
        result = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            gradient, query, key, value, result, total, 0.0, block.causal, scale=block.scale
        )
    else:
        nothing = torch.zeros((), dtype=torch.int64, device=query.device)  # no random numbers: nothing is dropped
        result = torch.ops.aten._scaled_dot_product_flash_attention_backward(
            gradient, query, key, value, result, total.contiguous(), None, None, query.shape[-2], key.shape[-2], 0.0,
            block.causal, nothing, nothing, scale=block.scale,
        )  # fmt: skip
    first, second, third = result
    return first, second, third


def merged(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Values and logarithms of two blocks as those of both together."""
    total = torch.logaddexp(one[1], other[1])
    first, second = (result * (own - total).exp().nan_to_num(0.0).unsqueeze(-1) for result, own in (one, other))
    return first + second, total


def _scores(query: Tensor, key: Tensor, block: Block) -> Tensor:
    scores = (query @ key.mT).to(_wide(query.dtype)) * block.scale
    if block.causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    if block.mask is None:
        return scores
    if block.mask.dtype is torch.bool:
        return scores.masked_fill(~block.mask, -torch.inf)
    return scores + block.mask


def _weights(scores: Tensor, total: Tensor, dropout: Tensor | None) -> Tensor:
    """Of the keys of a block; nothing of those of a query that sees no key at all."""
    weights = (scores - total.unsqueeze(-1)).exp().nan_to_num(0.0)
    return weights if dropout is None else weights * dropout


def _gradients(
    gradient: Tensor, given: tuple[Tensor, Tensor, Tensor], result: Tensor, total: Tensor, block: Block
) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = given
    wide = _wide(query.dtype)
    weights = _weights(_scores(query, key, block), total, None)
    dropped = weights if block.dropout is None else weights * block.dropout
    of_value = dropped.to(gradient.dtype).mT @ gradient
    of_weights = (gradient @ value.mT).to(wide)
    if block.dropout is not None:
        of_weights = of_weights * block.dropout
    mean = (gradient.to(wide) * result.to(wide)).sum(-1, keepdim=True)
    of_scores = (weights * (of_weights - mean) * block.scale).to(query.dtype)
    return of_scores @ key, of_scores.mT @ query, of_value


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in NARROW else dtype
