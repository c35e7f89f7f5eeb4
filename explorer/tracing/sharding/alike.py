"""Layers that a model repeats, divided alike where that costs no more.

The cheapest division is seldom the only one: of layers that are equal one may be divided by columns where another is
by rows, in the same time. Equal layers are planned as one (`solvers.coarsening.blocks`), run again as one, and easier
to read, so a division in which they are alike is taken where it takes no longer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.local import laid_out
from explorer.tracing.sharding.program import Division, Labels, Prices, cost_s
from solvers.coarsening.blocks import numbered_members

EQUAL = 1e-9
"""Relative difference of costs that is rounding."""
Block = tuple[int, ...]
"""Positions of the calls of a layer that have options, in their order."""


def alike(choices: Choices, prices: Prices, division: Division) -> Division:
    """A division with equal layers divided alike, all of them or all but the first or last, of which the cheapest; the
    one given where each takes longer."""
    labels, cost = dict(division.labels), division.cost_s
    for blocks in _families(choices):
        choose_from = [
            (cost_s(choices, prices, each), each)
            for some in (blocks, blocks[:-1], blocks[1:], blocks[1:-1])
            for each in _as_one(choices, labels, some)
        ]
        least = min((each_s for each_s, _ in choose_from), default=cost)
        if least <= cost * (1 + EQUAL):
            alikes = (each for each_s, each in choose_from if each_s <= least * (1 + EQUAL))
            labels, cost = dict(next(alikes, labels)), min(cost, least)
    return replace(division, labels=labels, cost_s=cost, bound_s=min(division.bound_s, cost))


def _as_one(choices: Choices, labels: Labels, blocks: Sequence[Block]) -> Iterator[Labels]:
    """With all blocks divided as each of them is; nothing where they are alike already."""
    chosen = [tuple(choices.options[at].index(labels[at]) for at in block) for block in blocks]
    if len(set(chosen)) < 2:
        return
    for numbers in dict.fromkeys(chosen):
        yield dict(labels) | {
            at: choices.options[at][number] for block in blocks for at, number in zip(block, numbers, strict=True)
        }


def _families(choices: Choices) -> Iterator[list[Block]]:
    """Equal layers in their order, of the outermost modules that number theirs; a layer is in one family."""
    members: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at in choices.options:
        for container, path in numbered_members(choices.captured.nodes[at].module_path):
            members[container][path].append(at)
    taken: set[int] = set()
    for container in sorted(members, key=lambda name: (name.count("."), name)):
        equal: dict[object, list[Block]] = defaultdict(list)
        for path, calls in members[container].items():
            if taken.isdisjoint(calls):
                equal[tuple(_signature(choices, at, len(path)) for at in calls)].append(tuple(calls))
        for blocks in equal.values():
            if len(blocks) > 1 and not _share_parameters(choices, blocks):
                taken |= {at for block in blocks for at in block}
                yield blocks


def _signature(choices: Choices, at: int, depth: int) -> object:
    """Of a call what must be equal: what it is, where in its layer, its shapes, and its options."""
    captured = choices.captured
    node = captured.nodes[at]
    options = tuple(
        tuple(laid_out(choices, name, state, None) for name, state in zip(node.outputs, option.outputs, strict=True))
        + option.places
        for option in choices.options[at]
    )
    shapes = tuple(captured.values[name].shape for _, name in node.tensors)
    return node.target, node.module_path[depth:], shapes, options


def _share_parameters(choices: Choices, blocks: Sequence[Block]) -> bool:
    """Whether two layers read one parameter, which all readers divide alike."""
    captured, read = choices.captured, []
    for block in blocks:
        names = {choices.source(name) for at in block for _, name in captured.nodes[at].tensors}
        read.append(names & captured.parameters.keys())
    return len(set().union(*read)) < sum(map(len, read))
