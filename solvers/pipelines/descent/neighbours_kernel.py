"""The neighbourhood of a draft: what a search may change in one step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.lazy import njit
from solvers.kernels.plain import NO
from solvers.pipelines.descent.device_moves_kernel import add_devices, add_merges, add_recuts, add_splits
from solvers.pipelines.descent.facts import NOBODY, Change, Facts, Stages
from solvers.pipelines.descent.looks_kernel import after_of, allowed, least_s, levelled, look
from solvers.pipelines.descent.operator_moves_kernel import add_cascades, add_shifts, add_swaps, near_to
from solvers.pipelines.descent.setting_moves_kernel import (
    add_glue,
    add_settings,
    add_settings_of_all,
)
from solvers.pipelines.descent.stages_kernel import hash_of, mean_s, spread, tidy, works_of


class Drafts(NamedTuple):
    """Drafts of different numbers of stages, one after another."""

    of: Ints
    """[drafts, super-operators]"""
    table: Ints
    """[stages of all, 6]"""
    start: Ints
    """[drafts + 1] into table"""


@njit(cache=True)
def _packed(drafts: list[Stages], nodes: int) -> Drafts:
    start = np.zeros(len(drafts) + 1, np.int64)
    for i in range(len(drafts)):
        start[i + 1] = start[i] + len(drafts[i].table)
    of, table = np.empty((len(drafts), nodes), np.int64), np.empty((start[-1], 6), np.int64)
    for i in range(len(drafts)):
        of[i], table[start[i] : start[i + 1]] = drafts[i].of, drafts[i].table
    return Drafts(of, table, start)


@njit(cache=True)
def _pairs(rows: list[tuple[float, float]]) -> Floats:
    pairs = np.empty((len(rows), 2))
    for i in range(len(rows)):
        pairs[i, 0], pairs[i, 1] = rows[i]
    return pairs


@njit(cache=True)
def _steps(facts: Facts, stages: Stages, focus: Ints, leap: bool, all_alike: bool) -> list[Change]:
    """What one step leads to before it is known which are drafts: see `around`."""
    changes = [Change(stages, NO, NOBODY) for _ in range(0)]
    after, works = after_of(facts, stages), works_of(facts, stages)
    busy, tiny_s = works.busy_s + works.sync_s, facts.rules.glue_share * mean_s(stages.table, works)
    for stage in focus:
        near = near_to(after, stage)
        add_splits(changes, facts, stages, stage, after)
        add_merges(changes, facts, stages, stage, near)
        add_recuts(changes, facts, stages, stage, near)
        if leap:
            continue
        add_shifts(changes, facts, stages, stage, near, busy)
        add_cascades(changes, facts, stages, stage, after, busy)
        add_swaps(changes, facts, stages, stage, near)
        add_devices(changes, facts, stages, stage)
        add_glue(changes, facts, stages, stage, near, busy, tiny_s)
        add_settings(changes, facts, stages, stage, after)
    if all_alike:
        add_settings_of_all(changes, facts, stages, leap)
    return changes


@until_worth_it
@njit(cache=True)
def around(
    facts: Facts, stages: Stages, focus: Ints, below_s: float, leap: bool, all_alike: bool
) -> tuple[Drafts, Floats]:
    """(drafts one step away, each once, their looks): over_bytes and rough_s, [drafts, 2].

    focus: the stages that hold the others up; a step changes one of them and perhaps others, or, with ``all_alike``,
    all stages alike. below_s: drafts whose busiest device takes as long or longer are left out. leap: only the steps
    that change most, those that make stages more or fewer, and other micro-batches.
    """
    drafts, looks = [stages for _ in range(0)], [(0.0, 0.0) for _ in range(0)]
    seen = {hash_of(stages)}
    for changed, to_spread, but in _steps(facts, stages, focus, leap, all_alike):
        now = tidy(spread(facts, changed, but) if to_spread else changed)
        number = hash_of(now)
        if number in seen:
            continue
        seen.add(number)
        after, works = after_of(facts, now), works_of(facts, now)
        if (below_s < np.inf and least_s(facts, now, works) >= below_s) or not allowed(facts, now, works, after):
            continue
        level = levelled(facts, now, after)
        other = hash_of(level)
        if other == number or other not in seen:
            seen.add(other)
            drafts.append(level)
            one = look(facts, level, works, after)
            looks.append((one.over_bytes, one.rough_s))
    return _packed(drafts, len(stages.of)), _pairs(looks)
