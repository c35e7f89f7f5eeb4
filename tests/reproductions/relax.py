"""From a sequential plan to pipelines whose branches run beside each other.

A sequential planner puts branches one after the other and cuts the line: its stages hold pieces of several
branches, and are deeper than the graph asks for. What follows a stage is told by tensors alone, so a draft
of its stages is relaxed already; that leaves the stages that hold pieces that have nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from solvers.coarsening.coarsen import Condensed
from solvers.pipelines.descent.recuts import by_branch
from solvers.pipelines.descent.space import Space
from solvers.pipelines.descent.stage_graph import Part, Parts, masks_of, parts_of, tidy, union
from solvers.plan.drafts import Draft

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
    order = space.graph.rows(masks_of(parts)).order
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
    return sum(
        space.rough.alone_s(mask, stretch[0]) >= least_s
        for mask in space.graph.components(union(part.mask for part in stretch))
    )


def _branches(space: Space, stretch: Sequence[Part], least_s: float) -> list[Part]:
    """Stages of the components of a stretch of stages, on its devices, which are shared out by work."""
    total = sum(part.replicas for part in stretch)
    count = min(total, _pieces(space, stretch, least_s))
    if count < 2:
        return list(stretch)
    components = space.graph.components(union(part.mask for part in stretch))
    return by_branch(space, stretch[0]._replace(replicas=1), components, count, len(stretch), total)
