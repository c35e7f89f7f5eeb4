"""Attention whose queries stay where they are while keys and values go round all members of a group.

Every member has as many tokens of queries, keys and values as each other. In one round it attends to the keys that it
has, and passes them on to the next member; after as many rounds as there are members it has attended to all (Liu et
al., 2023, ring attention). In the backward keys and values go round once more, and their gradients after them.
"""

from __future__ import annotations

from explorer.tracing.captured import ITEM_BYTES, Captured, Exchange, Node
from explorer.tracing.sharding.choices import Choices, Collective, Option
from solvers.problem.collectives import RING

GOES_ROUND = Collective(RING)


def ring_bytes(choices: Choices, node: Node, of: Captured) -> int:
    """Of the keys and values of all members, as they were before they were repeated for the queries of a group."""
    total = 0
    for argument in ("key", "value"):
        name = node.tensor(argument) or ""
        entries = min(of.values[each].numel for each in (name, *(before for _, before in choices.copied(name))))
        total += entries * ITEM_BYTES.get(of.values[name].dtype, 4)
    return total


def times_back(choices: Choices, node: Node) -> int:
    """How often as many bytes as in the forward go round in the backward: keys and values, and their gradients."""
    values = choices.captured.values
    if not values[node.outputs[0]].requires_grad:
        return 0
    return 1 + any(values[node.tensor(argument) or ""].requires_grad for argument in ("key", "value"))


def round_exchange(choices: Choices, node: Node, of: Captured) -> Exchange:
    """What a member sends: the share of every member but the next one, a message a round."""
    sent = GOES_ROUND.sent_bytes(ring_bytes(choices, node, of), choices.degree)
    steps, times = GOES_ROUND.steps(choices.degree), times_back(choices, node)
    return Exchange(sent, steps, times * sent, times * steps)


def rounds(choices: Choices, node: Node, option: Option) -> int:
    """How often the member that has most to do attends to as many keys as it has queries; 1 without a ring.

    A causal mask hides half of them, which the cost model counts, from every member alike where each has a chunk of the
    first half of the tokens and its mirror image in the second ("zigzag"). Tokens that cannot be dealt out so are in
    one chunk each, and the last member sees those of all others whole.
    """
    if not option.ring:
        return 1
    return choices.degree if not is_causal(node) or is_even(choices, node) else 2 * choices.degree - 1


def is_causal(node: Node) -> bool:
    """Whether a token attends to those before it only."""
    return bool(node.constants.get("is_causal"))


def is_even(choices: Choices, node: Node) -> bool:
    """Whether tokens can be dealt out so that a causal mask leaves every member as much."""
    tokens = choices.captured.values[node.tensor("query") or ""].shape[-2]
    return tokens % (2 * choices.degree) == 0
