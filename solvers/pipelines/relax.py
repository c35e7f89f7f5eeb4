"""From a sequential plan to pipelines whose branches run beside each other.

A sequential planner puts branches one after the other and cuts the line: its stages hold pieces of several
branches, and are deeper than the graph asks for. What follows a stage is told by tensors alone, so a draft
of its stages is relaxed already; that leaves the stages that hold pieces that have nothing to do with each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from solvers.coarsen import Condensed
from solvers.drafts import Draft
from solvers.pipelines.space import Space
from solvers.pipelines.stage_graph import Part, Parts, mask_of, parts_of, tidy

WORTH = 0.25
"""Pieces below this share of the mean stage's time do not make a branch."""


def relaxed(condensed: Condensed, draft: Draft, space: Space | None = None) -> list[Draft]:
    """Drafts to start a search from: this one, and where they differ from it that with every stage of several
    pieces split, its devices shared out by work, and that in which stretches of stages whose operators
    fall into branches are cut anew, branch by branch, on as many devices."""
    space = space or Space(condensed)
    parts = parts_of(draft)
    found = [parts]
    if all(part.host is None for part in parts):
        for changed in (_apart(space, parts), _regrouped(space, parts)):
            other = tidy(changed)
            if space.allows(other) and (level := space.levelled(other)) not in found:
                found.append(level)
    return [space.graph.draft(each) for each in found]


def _apart(space: Space, parts: Parts) -> list[Part]:
    """Every stage split into its components, as far as its own devices go."""
    least_s = _least_s(space, parts)
    return [piece for part in parts for piece in _branches(space, [part], least_s)]


def _regrouped(space: Space, parts: Parts) -> list[Part]:
    """Longest stretches of stages, in order, that fall into branches together, cut branch by branch."""
    order = space.graph.order(tuple([part.mask for part in parts]))
    row = [parts[index] for index in order]
    least_s = _least_s(space, parts)
    found: list[Part] = []
    start = 0
    while start < len(row):
        ends = range(len(row), start, -1)
        end = next((e for e in ends if _pieces(space, row[start:e], least_s) > 1), start + 1)
        found += _branches(space, row[start:end], least_s)
        start = end
    return found


def _least_s(space: Space, parts: Parts) -> float:
    """Seconds on one device from which on a piece makes a branch."""
    return WORTH * sum(space.rough.busy_s(part) * part.replicas for part in parts) / space.shares.used(parts)


def _pieces(space: Space, stretch: Sequence[Part], least_s: float) -> int:
    """How many components of the stages together are worth a stage."""
    if len({part.size for part in stretch}) > 1:
        return 0
    alone = stretch[0]._replace(replicas=1)
    return sum(
        space.rough.busy_s(alone._replace(mask=mask)) >= least_s for mask in space.graph.components(_union(stretch))
    )


def _branches(space: Space, stretch: Sequence[Part], least_s: float) -> list[Part]:
    """Stages of the components of a stretch of stages, on its devices, which are shared out by work."""
    total = sum(part.replicas for part in stretch)
    count = min(total, _pieces(space, stretch, least_s))
    if count < 2:
        return list(stretch)
    components = space.graph.components(_union(stretch))
    like = stretch[0]._replace(replicas=1)

    def seconds(mask: int) -> float:
        return space.rough.busy_s(like._replace(mask=mask))

    groups = [0] * count
    for component in sorted(components, key=lambda mask: (-seconds(mask), mask)):
        least = min(range(len(groups)), key=lambda g: seconds(groups[g]) if groups[g] else 0.0)
        groups[least] |= component
    devices = [1] * len(groups)
    for _ in range(total - len(groups)):
        neediest = max(range(len(groups)), key=lambda g: seconds(groups[g]) / devices[g])
        devices[neediest] += 1
    found: list[Part] = []
    for group, given in zip(groups, devices, strict=True):
        runs = list(_cut(space, like, group, max(1, round(len(stretch) * given / total))))
        replicas = space.shares.at_most(like.size, given // len(runs)) if given >= len(runs) else 1
        found += [like._replace(mask=mask, replicas=replicas) for mask in runs]
    return found


def _cut(space: Space, like: Part, mask: int, stages: int) -> Iterator[int]:
    """A set cut, in its order, into at most so many runs of about the same time."""
    members = space.graph.members(mask)
    each = [space.rough.busy_s(like._replace(mask=1 << member)) for member in members]
    passed = list(itertools.accumulate(each))
    whole = passed[-1] or 1.0
    stage = [int(stages * (end - own / 2) / whole) for end, own in zip(passed, each, strict=True)]
    for _, run in itertools.groupby(zip(members, stage, strict=True), key=lambda pair: pair[1]):
        yield mask_of(member for member, _ in run)


def _union(parts: Sequence[Part]) -> int:
    mask = 0
    for part in parts:
        mask |= part.mask
    return mask
