"""Drafts made to keep pins: stages with operators that are pinned apart are cut, and others joined for them."""

from __future__ import annotations

import itertools

import numpy as np

from solvers.kernels.arrays import Ints
from solvers.pipelines.descent.facts import HOST, NOBODY, REPLICAS, Facts, Stages
from solvers.pipelines.descent.looks_kernel import after_of, tidied
from solvers.pipelines.descent.space import Parts, Space
from solvers.pipelines.descent.stages_kernel import (
    holds_pinned,
    members_of,
    seconds_on,
    single_s,
    spread,
    squeeze,
    used_devices,
    without,
)
from solvers.pipelines.timing.stages_kernel import topological


def repaired(space: Space, parts: Parts) -> Parts | None:
    """The stages, or the least change of them that `Space.allows` and that takes no more devices than there are; None
    where none was found.

    Every stage is cut between operators that are pinned to different devices, where that leaves two halves of about
    the same time; then, as long as there are too few devices, stages lose replicas, and of two that follow one another
    in a topological order, and are not pinned apart, those become one that take least time together.
    """
    if space.allows(parts):
        return parts
    facts = space.near(parts.stages)
    order = topological(after_of(facts, parts.stages))
    if len(order) < len(parts):
        return None
    stages = squeeze(facts, _separated(facts, parts.stages, order), NOBODY)
    while used_devices(stages.table) > facts.rules.devices:
        joined = [
            (seconds_on(facts, np.where(stages.of == at + 1, at, stages.of), at, stages.table[at], 1), at)
            for at in range(len(stages.table) - 1)
            if len(_homes(facts, stages.of, (at, at + 1))) < 2
        ]
        if not joined:
            return None
        _, at = min(joined)
        stages = without(stages, at + 1, at)
    spread_out = Parts(tidied(spread(facts, _single(facts, stages), NOBODY)))
    return space.levelled(spread_out) if space.allows(spread_out) else None


def _homes(facts: Facts, of: Ints, chosen: tuple[int, ...]) -> set[int]:
    """The devices to which super-operators of some stages are pinned."""
    return set(facts.rules.pinned[np.isin(of, chosen)].tolist()) - {-1}


def _single(facts: Facts, stages: Stages) -> Stages:
    """The stages, those with pinned super-operators on one device."""
    table = stages.table.copy()
    table[holds_pinned(facts, stages), REPLICAS] = 1
    return Stages(stages.of, table)


def _separated(facts: Facts, stages: Stages, order: Ints) -> Stages:
    """The stages in an order, on devices of their own, in pieces none of which has operators pinned apart."""
    of = np.empty_like(stages.of)
    rows: list[Ints] = []
    for stage in order.tolist():
        for piece in _pieces(facts, stages, stage):
            of[piece] = len(rows)
            rows.append(stages.table[stage])
    table = np.array(rows, np.int64)
    table[:, HOST] = np.arange(len(table))
    return _single(facts, Stages(of, table))


def _pieces(facts: Facts, stages: Stages, stage: int) -> list[Ints]:
    """The members of a stage in pieces, in an order in which they may follow each other."""
    members = members_of(stages.of, stage)
    passed = [0.0, *itertools.accumulate(single_s(facts, stages.table[stage])[members].tolist())]
    pinned = facts.rules.pinned[members].tolist()
    cuts, last, home = [0], -1, -1
    for at, here in enumerate(pinned):
        if here >= 0 and home >= 0 and here != home:
            half = (passed[cuts[-1]] + passed[-1]) / 2
            cuts.append(min(range(last + 1, at + 1), key=lambda i: abs(passed[i] - half)))
        if here >= 0:
            home, last = here, at
    return np.split(members, cuts[1:])
