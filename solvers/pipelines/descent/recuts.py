"""Stages cut anew: the operators of a few stages shared out again over their devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from solvers.pipelines.descent.space import Space
from solvers.pipelines.descent.stage_graph import Part, union

MOST_STAGES = 4
"""A stretch is cut into at most so many stages more than it had, or components beside each other."""


def in_runs(space: Space, like: Part, mask: int, stages: int, devices: int) -> list[Part]:
    """A set cut, in its order, into at most so many stages of about the same time, on at most so many devices."""
    runs = space.rough.runs(mask, like, min(stages, devices))
    like = like.on(space.shares.at_most(like.size, devices // len(runs)))
    return [like.holding(run) for run in runs]


def by_branch(
    space: Space, like: Part, components: Sequence[int], groups: int, stages: int, devices: int
) -> list[Part]:
    """Components as so many groups of about the same time beside each other, which share the devices by work;
    each in as many runs as keep to ``stages`` on all the devices."""
    sets = [0] * groups
    for component in sorted(components, key=lambda mask: (-space.rough.alone_s(mask, like), mask)):
        least = min(range(groups), key=lambda g: (space.rough.alone_s(sets[g], like) if sets[g] else 0.0, sets[g] != 0))
        sets[least] |= component
    shares = [1] * groups
    for _ in range(devices - groups):
        neediest = max(range(groups), key=lambda g: space.rough.alone_s(sets[g], like) / shares[g])
        shares[neediest] += 1
    return [
        part
        for mask, share in zip(sets, shares, strict=True)
        for part in in_runs(space, like, mask, max(1, round(stages * share / devices)), share)
    ]


def recuts(space: Space, stretch: Sequence[Part]) -> Iterator[list[Part]]:
    """Other ways to cut what a few stages hold: into fewer and more stages, and by its components."""
    if len({part.size for part in stretch}) > 1:
        return
    devices = sum(part.replicas for part in stretch if part.host is None)
    like = stretch[0]._replace(slack=min(part.slack for part in stretch), host=None)
    whole = union(part.mask for part in stretch)
    for stages in range(1, min(len(stretch) + MOST_STAGES, devices) + 1):
        yield in_runs(space, like, whole, stages, devices)
    components = space.graph.components(whole)
    for groups in range(2, min(len(components), devices, MOST_STAGES) + 1):
        for stages in sorted({1, len(stretch), 2 * len(stretch), devices}):
            yield by_branch(space, like, components, groups, stages, devices)
