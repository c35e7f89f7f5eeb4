"""Attention whose queries are divided along tokens: a second reading, from placements and shapes alone.

Each member has the queries of some tokens. Either it has all keys and values, or those of the same tokens, and then
they go round: each member sends on every share but that of the next member, keys and values once in the forward, and in
the backward once more, with their gradients after them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from solvers.problem.collectives import UNSUMMED, WHOLE, DividedCall, DividedTensor, Division, shard
from solvers.verify.placements import Call, digit_of

ATTENTION = "aten.scaled_dot_product_attention"
ITSELF = frozenset(
    f"aten.{name}"
    for name in (
        "view", "reshape", "flatten", "unflatten", "_unsafe_view", "transpose", "permute", "t", "unsqueeze", "squeeze",
        "expand", "expand_as", "detach", "alias", "clone", "contiguous", "repeat_interleave",
    )
)  # fmt: skip
"""Calls that return the entries that they read, in another order, or several times."""


def along_tokens(call: Call, placements: Sequence[str]) -> tuple[str, bool] | None:
    """What such an attention makes, and whether keys and values go round; None where it is none, or is not allowed."""
    if call.target != ATTENTION or len(call.made) != 1:
        return None
    given = {
        name: (placement, digit_of(placement, shape, call.members), len(shape))
        for name, placement, shape in zip(call.arguments, placements, call.shapes, strict=True)
    }
    _, query, rank = given["query"]
    if query is None or query.dim != rank - 2:
        return None
    placement, mask, rank = given.get("attn_mask", (WHOLE, None, 0))
    if not _is_whole(placement) and (mask is None or (mask.dim, mask.outer) != (rank - 2, query.outer)):
        return None
    keys, values = given["key"], given["value"]
    made = shard(query.dim, query.outer)
    if _is_whole(keys[0]) and _is_whole(values[0]):
        return made, False
    return (made, True) if keys[1] == values[1] == query else None


def _is_whole(placement: str) -> bool:
    return placement in (WHOLE, UNSUMMED)


def goes_round(division: Division, call: DividedCall) -> tuple[list[DividedTensor], int]:
    """The tensors that go round all members in the forward: keys and values as they were before they were repeated;
    and how often as much does in the backward."""
    maker = {output: one for one in division.calls for output in one.outputs}
    rings = []
    for argument in ("key", "value"):
        number = call.inputs[call.arguments.index(argument)]
        least = division.tensors[number]
        while (one := maker.get(number)) is not None and (one.target in ITSELF or one.target.startswith("collective.")):
            number = one.inputs[0]
            least = min(least, division.tensors[number], key=lambda tensor: math.prod(tensor.shape))
        rings.append(least)
    if not division.tensors[call.outputs[0]].differentiable:
        return rings, 0
    return rings, 1 + any(one.differentiable for one in rings)
