"""Drafts made to keep pins: stages with operators that are pinned apart are cut, and others joined for them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from solvers.pipelines.descent.space import Space
from solvers.pipelines.descent.stage_graph import Part, Parts, masks_of, tidy


def repaired(space: Space, parts: Parts) -> Parts | None:
    """The stages, or the least change of them that `Space.allows` and that takes no more devices than there are; None
    where none was found.

    Every stage is cut between operators that are pinned to different devices, where that leaves two halves of about
    the same time; then, as long as there are too few devices, stages lose replicas, and of two that follow one another
    in a topological order, and are not pinned apart, those become one that take least time together.
    """
    if space.allows(parts):
        return parts
    order = space.graph.rows(masks_of(parts)).order
    if len(order) < len(parts):
        return None
    pieces = [piece for index in order for piece in _cut(space, parts[index]._replace(host=None))]
    pieces = space.shares.squeeze(pieces)
    while space.shares.used(pieces) > space.shares.devices:
        joined = [
            (space.rough.alone_s(a.mask | b.mask, a), at)
            for at, (a, b) in enumerate(itertools.pairwise(pieces))
            if len(space.pinned_in(a.mask | b.mask)) < 2
        ]
        if not joined:
            return None
        _, at = min(joined)
        pieces[at : at + 2] = [pieces[at].holding(pieces[at].mask | pieces[at + 1].mask)]
    found = tidy(space.shares.spread(_single(space, pieces)))
    return space.levelled(found) if space.allows(found) else None


def _single(space: Space, parts: Sequence[Part]) -> list[Part]:
    """The stages, those with pinned super-operators on one device."""
    return [part.on(1) if space.pinned_in(part.mask) else part for part in parts]


def _cut(space: Space, part: Part) -> list[Part]:
    """The stage in pieces, in an order in which they may follow each other, none with operators pinned apart."""
    pieces, begin, last = [], 0, -1
    members = space.graph.members(part.mask)
    single_s = space.rough.single_s(part)
    passed = [0.0, *itertools.accumulate(single_s[member] for member in members)]
    home: list[int] = []
    for at, member in enumerate(members):
        here = space.pinned_in(1 << member)
        if here and home and here != home:
            half = (passed[begin] + passed[-1]) / 2
            cut = min(range(last + 1, at + 1), key=lambda i: abs(passed[i] - half))
            pieces.append(members[begin:cut])
            begin = cut
        if here:
            home, last = here, at
    pieces.append(members[begin:])
    masks = [sum(1 << member for member in piece) for piece in pieces]
    return _single(space, [part.holding(mask) for mask in masks]) if len(pieces) > 1 else _single(space, [part])
