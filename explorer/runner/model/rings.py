"""How a run deals tokens out to the members of a group whose attention goes round a ring, and what of it goes round."""

from __future__ import annotations

import math

from explorer.runner.model.exchanges.group import divided_along, mirrored
from explorer.runner.model.exchanges.ring import Dealt
from explorer.tracing.captured import Captured, Node
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.local import Part, laid_out
from explorer.tracing.sharding.ring import is_causal
from solvers.errors import RunError


def mirrored_leaves(part: Part) -> frozenset[int]:
    """The leaves along which each member has a chunk of the first half and its mirror image in the second: tokens of
    causal attention that goes round a ring, where they make so many chunks. Rows that are sorted by experts, and of a
    table, are found by where a share begins: such tokens are in one chunk a member."""
    choices, nodes = part.choices, part.choices.captured.nodes
    if choices.known.routes:
        return frozenset()
    labels = {nodes[at].name: (nodes[at], option) for at, option in part.labels.items()}.values()
    leaves = {option.leaf for node, option in labels if option.ring and is_causal(node)}
    leaves -= {option.leaf for node, option in labels if node.target == "aten.embedding" and option.places[0] == 0}
    lengths = choices.known.dimensions.lengths
    return frozenset(leaf for leaf in leaves if lengths[leaf] % (2 * choices.degree) == 0)


def as_dealt(part: Part, leaves: frozenset[int], name: str, member: Captured) -> str:
    """The placement of a value of a member's, with shares in mirrored chunks apart from others. leaves: those."""
    stated = member.whole[name].placement
    along = divided_along(stated)
    if along is None or not leaves:
        return stated
    choices, value = part.choices, name.partition("@")[0]
    there = leaves & set(choices.ways(value, along.dim))
    return mirrored(stated) if any(laid_out(choices, value, e, along.dim, member) == stated for e in there) else stated


def dealt(choices: Choices, call: Node, origin: Node, placement: str) -> Dealt:
    """What the members of a ring have. call: a member's attention, origin: that of the whole model; placement: of its
    queries. Raises RunError for what is not run."""
    along = divided_along(placement)
    if along is None or (along.pieces > 1 and is_causal(origin)):
        raise RunError(
            f"{call.name}: the tokens of a member are of several parts of a sample, and causal attention to such is not"
            " run round a ring; plan with another degree (--context-parallel)"
        )
    mask = origin.tensor("attn_mask")
    if mask is not None and choices.captured.values[mask].requires_grad:
        raise RunError(
            f"{call.name}: a mask that has a gradient is not run round a ring; plan with a degree for which attention"
            " is divided by heads (--context-parallel)"
        )
    keys, values = (_copies(choices, call, origin.tensor(argument) or "") for argument in ("key", "value"))
    return Dealt(along.mirrored, along.pieces, keys, values)


def _copies(choices: Choices, call: Node, name: str) -> int:
    """How many heads that follow one another are copies of one, where a plan counts what goes round before they are
    (`tracing.sharding.ring.ring_bytes`)."""
    shapes = choices.captured.values
    least = min((name, *(before for _, before in choices.copied(name))), key=lambda each: shapes[each].numel)
    times = shapes[name].numel // shapes[least].numel
    if times == 1:
        return 1
    own = {leaf for axis in range(len(shapes[least].shape)) for leaf in choices.leaves(least, axis)}
    heads = choices.leaves(name, len(shapes[name].shape) - 3)
    copies = [leaf for leaf in heads if leaf not in own]
    inside = list(heads[len(heads) - len(copies) :]) == copies
    if not inside or math.prod(choices.known.dimensions.lengths[leaf] for leaf in copies) != times:
        raise RunError(
            f"{call.name}: keys or values are repeated otherwise than head by head, which is not run round a ring; plan"
            " with a degree for which attention is divided by heads (--context-parallel)"
        )
    return times
