"""The neighbourhood of a draft: what a search may change in one step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from solvers.pipelines.device_moves import devices, merges, splits
from solvers.pipelines.operator_moves import cascades, shifts, swaps
from solvers.pipelines.setting_moves import glue, settings, settings_of_all
from solvers.pipelines.space import Space
from solvers.pipelines.stage_graph import Parts, tidy

OF_STAGE = (shifts, cascades, swaps, devices, splits, merges, glue, settings)
"""Kinds of steps that begin at one stage."""


def around(space: Space, parts: Parts, focus: Sequence[int]) -> Iterator[tuple[str, Parts]]:
    """Drafts one step away, each once, and the kind of step. focus: the stages that hold the others up; a
    step changes one of them and perhaps others, or all stages alike."""
    seen = {parts}
    for kind, changed in _steps(space, parts, focus):
        now = tidy(changed)
        if now not in seen:
            seen.add(now)
            if space.allows(now) and ((level := space.levelled(now)) is now or level not in seen):
                seen.add(level)
                yield kind, level


def _steps(space: Space, parts: Parts, focus: Sequence[int]) -> Iterator[tuple[str, Parts]]:
    for stage in focus:
        for steps in OF_STAGE:
            for kind, changed in steps(space, parts, stage):
                yield kind, tuple(changed)
    for kind, changed in settings_of_all(space, parts):
        yield kind, tuple(changed)
