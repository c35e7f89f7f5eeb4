"""Moves that leave the stages' operators alone: shared devices, slack, recomputation, micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from solvers.pipelines.descent.operator_moves import Move
from solvers.pipelines.descent.space import Space
from solvers.pipelines.descent.stage_graph import Part, masks_of, replaced
from solvers.problem.problem import Pipeline

MOST_SLACK = 4
MOST_BLOCK = 4


def glue(space: Space, parts: Sequence[Part], stage: int) -> Iterator[Move]:
    """A stage or a single super-operator that takes next to no time goes on the devices of a neighbour as a
    stage of its own, or a stage that shares devices changes them or gets its own."""
    part = parts[stage]
    tiny_s = space.glue_s(parts)
    hosts = [
        host
        for host in space.neighbours(parts, stage)
        if parts[host].host is None and parts[host].replicas in space.shares.choices(part.size)
    ]
    if part.host is not None:
        for host in hosts:
            if host != part.host:
                yield "glue", replaced(parts, stage, part._replace(host=host, replicas=parts[host].replicas))
        yield "unglue", replaced(parts, stage, part._replace(host=None, replicas=1))
    elif space.rough.busy_s(part) <= tiny_s and not any(other.host == stage for other in parts):
        for host in hosts:
            hosted = part._replace(host=host, replicas=parts[host].replicas)
            yield "glue", space.shares.spread(replaced(parts, stage, hosted))
    if part.mask.bit_count() > 1:
        homes = [stage, *hosts] if part.host is None else hosts
        for member in _ends(space, part.mask):
            if space.rough.single_s(part)[member] / part.replicas <= tiny_s:
                alone = part._replace(mask=1 << member, slack=0, recompute=False)
                rest = replaced(parts, stage, part._replace(mask=part.mask ^ alone.mask))
                for host in homes:
                    yield "glue", [*rest, alone._replace(host=host, replicas=parts[host].replicas)]


def _ends(space: Space, mask: int) -> list[int]:
    """Members of a set that nothing in it precedes, or follows: at most eight, from both ends."""
    before, after = space.graph.before, space.graph.after
    ends = [m for m in space.graph.members(mask) if not before[m] & mask or not after[m] & mask]
    return ends if len(ends) <= 8 else ends[:4] + ends[-4:]


def settings(space: Space, parts: Sequence[Part], stage: int) -> Iterator[Move]:
    """One stage recomputes or not, keeps more or fewer in flight, runs more or fewer in a row, or has larger
    or smaller micro-batches."""
    part = parts[stage]
    if space.problem.recompute:
        yield "recompute", replaced(parts, stage, part._replace(recompute=not part.recompute))
    if _takes_turns(space):
        for slack in (part.slack - 1, part.slack + 1, part.slack + 2):
            if 0 <= slack <= MOST_SLACK:
                yield "slack", replaced(parts, stage, part._replace(slack=slack))
        ahead = [stage in row for row in space.graph.rows(masks_of(parts)).after]
        if any(ahead):
            yield "slack", [p._replace(slack=min(MOST_SLACK, p.slack + a)) for p, a in zip(parts, ahead, strict=True)]
        for block in (part.block // 2, part.block * 2):
            if 1 <= block <= MOST_BLOCK:
                yield "block", replaced(parts, stage, part._replace(block=block))
    if space.problem.mixed_micro_batches:
        for size in (part.size // 2, part.size * 2):
            if space.shares.allowed(size):
                sizes = [p.size if i != stage else size for i, p in enumerate(parts)]
                yield "size", space.shares.resized(parts, sizes)


def settings_of_all(space: Space, parts: Sequence[Part]) -> Iterator[Move]:
    """The same for all stages at once."""
    if space.problem.recompute:
        for recompute in (False, True):
            yield "recompute", [part._replace(recompute=recompute) for part in parts]
    if _takes_turns(space):
        for slack in range(MOST_SLACK):
            yield "slack", [part._replace(slack=slack) for part in parts]
        for block in (1, 2, MOST_BLOCK):
            yield "block", [part._replace(block=block) for part in parts]
    yield from sizes_of_all(space, parts)
    yield "devices", space.shares.spread(parts)


def sizes_of_all(space: Space, parts: Sequence[Part]) -> Iterator[Move]:
    """All micro-batches half or twice as large."""
    for halve, double in ((2, 1), (1, 2)):
        sizes = [part.size * double // halve for part in parts]
        if all(map(space.shares.allowed, sizes)):
            yield "size", space.shares.resized(parts, sizes)


def _takes_turns(space: Space) -> bool:
    """Whether forwards and backwards take turns, so that slack and blocks mean something."""
    return space.problem.has_backward() and space.problem.pipeline is not Pipeline.GPIPE
