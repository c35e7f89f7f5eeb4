"""Moves of devices from stage to stage, and those that make stages more or fewer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from solvers.pipelines.descent.operator_moves import Move
from solvers.pipelines.descent.recuts import recuts
from solvers.pipelines.descent.space import Space
from solvers.pipelines.descent.stage_graph import Part, mask_of, masks_of, replaced, without

FEW = 6
"""Stages of so few super-operators are cut everywhere."""

CUTS = (1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4)
"""Where larger stages are cut, as shares of their time."""


def devices(space: Space, parts: Sequence[Part], stage: int) -> Iterator[Move]:
    """A stage gets another number of devices: free ones, those of one other stage, or a few of many."""
    shares, part = space.shares, parts[stage]
    if part.host is not None:
        return
    for replicas in shares.choices(part.size):
        changed = replaced(parts, stage, part.on(replicas))
        short = shares.used(changed) - shares.devices
        if replicas == part.replicas:
            continue
        if short <= 0:
            yield "devices", shares.spread(changed, keep=stage) if replicas < part.replicas else changed
            continue
        for other, giver in enumerate(changed):
            if other != stage and giver.host is None:
                less = shares.at_most(giver.size, giver.replicas - short)
                if less:
                    yield "devices", replaced(changed, other, giver.on(less))
        yield "devices", shares.squeeze(changed, keep=stage)


def merges(space: Space, parts: Sequence[Part], stage: int) -> Iterator[Move]:
    """Two stages become one, on the devices of both or of one, and the busiest get what is over."""
    shares = space.shares
    for other in space.neighbours(parts, stage):
        keep, gone = (stage, other) if parts[stage].host is None else (other, stage)
        both = replaced(parts, keep, parts[keep].holding(parts[keep].mask | parts[gone].mask))
        if parts[keep].host == gone:
            continue
        merged = without(both, gone, keep)
        at = keep - (gone < keep)
        if merged[at].host is not None:
            yield "merge", merged
            continue
        most = shares.at_most(merged[at].size, merged[at].replicas + shares.devices - shares.used(merged))
        for replicas in sorted({most, merged[at].replicas}):
            yield "merge", shares.spread(replaced(merged, at, merged[at].on(replicas)))


def splits(space: Space, parts: Sequence[Part], stage: int) -> Iterator[Move]:
    """A stage becomes two: on its devices and the free ones, on some taken from others, or on those that
    merging two others sets free."""
    shares, whole = space.shares, parts[stage]
    if whole.mask.bit_count() < 2:
        return
    free = shares.devices - shares.used(parts)
    for upper in _cuts(space, whole):
        first, second = whole.holding(whole.mask & ~upper), whole.holding(upper)
        if whole.host is not None:
            yield "split", [*replaced(parts, stage, first), second]
            continue
        for mine in shares.choices(whole.size):
            rest = shares.at_most(whole.size, whole.replicas + free - mine)
            if rest:
                yield (
                    "split",
                    [*replaced(parts, stage, first.on(mine)), second.on(rest)],
                )
        if free == 0:
            halves = [*replaced(parts, stage, first), second.on(whole.replicas)]
            yield "split", shares.squeeze(halves)
            for a, b in _mergeable(space, parts, stage):
                changed = replaced(parts, a, parts[a].holding(parts[a].mask | parts[b].mask))
                changed[stage] = first
                left = without(changed, b, a)
                given = min(parts[b].replicas, whole.replicas)
                yield "split", shares.spread([*left, second.on(given)])


def recut(space: Space, parts: Sequence[Part], stage: int) -> Iterator[Move]:
    """A stage and one or two of its neighbours are cut anew, on their devices and the free ones."""
    near = list(space.neighbours(parts, stage))
    for others in itertools.chain(itertools.combinations(near, 1), itertools.combinations(near[:6], 2)):
        chosen = (stage, *others)
        if any(parts[i].host is not None for i in chosen) or any(part.host in chosen for part in parts):
            continue
        rest = [part for i, part in enumerate(parts) if i not in chosen]
        new = {old: at for at, old in enumerate(i for i in range(len(parts)) if i not in chosen)}
        rest = [part if part.host is None else part._replace(host=new[part.host]) for part in rest]
        for stages in recuts(space, [parts[i] for i in chosen]):
            yield "recut", space.shares.spread([*rest, *stages])


def _cuts(space: Space, part: Part) -> list[int]:
    """Sets that may be split off a stage: its components, and what follows a cut of its members in order."""
    members = space.graph.members(part.mask)
    components = space.graph.components(part.mask)
    found = components if len(components) > 1 else []
    if len(members) <= FEW:
        return [*found, *(mask_of(members[i:]) for i in range(1, len(members))), *(1 << m for m in members)]
    single_s = space.rough.single_s(part)
    each = [single_s[member] for member in members]
    passed = list(itertools.accumulate(each))
    places = {next(i for i, seconds in enumerate(passed, 1) if seconds >= cut * passed[-1]) for cut in CUTS}
    return [*found, *(mask_of(members[place:]) for place in sorted(places) if place < len(members))]


def _mergeable(space: Space, parts: Sequence[Part], but: int) -> list[tuple[int, int]]:
    """The pairs of neighbours that take least time together."""
    pairs = [
        (space.rough.alone_s(parts[a].mask | parts[b].mask, parts[a]) / parts[a].replicas, a, b)
        for a, row in enumerate(space.graph.rows(masks_of(parts)).after)
        for b in row
        if but not in (a, b) and parts[a].host is None and parts[b].host is None
    ]
    return [(a, b) for _, a, b in sorted(pairs)[:3]]
