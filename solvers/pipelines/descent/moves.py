"""The neighbourhood of a draft: what a search may change in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from solvers.pipelines.descent.device_moves import devices, merges, recut, splits
from solvers.pipelines.descent.operator_moves import Move, cascades, shifts, swaps
from solvers.pipelines.descent.setting_moves import glue, settings, settings_of_all, sizes_of_all
from solvers.pipelines.descent.space import Space
from solvers.pipelines.descent.stage_graph import Parts, tidy

OF_STAGE = (shifts, cascades, swaps, devices, splits, merges, recut, glue, settings)
"""Kinds of steps that begin at one stage."""


def always(_: Parts) -> bool:
    return True


def around(
    space: Space,
    parts: Parts,
    focus: Sequence[int],
    may_help: Callable[[Parts], bool] = always,
    *,
    all_alike: bool = True,
) -> Iterator[tuple[str, Parts]]:
    """Drafts one step away, each once, and the kind of step. focus: the stages that hold the others up; a
    step changes one of them and perhaps others, or, with ``all_alike``, all stages alike. may_help: what is not worth
    checking is left out."""
    seen = {parts}
    for kind, changed in steps(space, parts, focus, all_alike=all_alike):
        now = tidy(changed)
        if now in seen:
            continue
        seen.add(now)
        if may_help(now) and space.allows(now):
            level = space.levelled(now)
            if level is now or level not in seen:
                seen.add(level)
                yield kind, level


def steps(space: Space, parts: Parts, focus: Sequence[int], *, all_alike: bool = True) -> Iterator[Move]:
    """The same before it is known which of them lead to drafts."""
    for stage in focus:
        for kind_of_step in OF_STAGE:
            yield from kind_of_step(space, parts, stage)
    if all_alike:
        yield from settings_of_all(space, parts)


def leaps(space: Space, parts: Parts, stage: int) -> Iterator[Move]:
    """The steps that change most: those that make stages more or fewer, and other micro-batches."""
    for kind_of_step in (recut, merges, splits):
        yield from kind_of_step(space, parts, stage)
    yield from sizes_of_all(space, parts)
