"""Which modules are open when a model is first shown: those that do most of the work, as many as can be read."""

from __future__ import annotations

from collections import defaultdict

from explorer.view.graph.elements import graph_view, module_parts, owners
from explorer.view.graph.layered_layout import LEGIBLE_PX, label_px
from explorer.view.plan_types import Skeleton

READABLE = 60
"""Boxes that still read well at once."""
FEW = 12
MANY = 600
"""Boxes that still show where the model goes, by their colours: better than fewer than FEW."""
ALIKE = 0.5
"""Of the heaviest module's work: modules with as much are opened together with it ..."""
SIBLING = 0.1
"""... and with as much, those beside them in the same parent, so that the blocks of a model look alike."""


def first_view(
    skeleton: Skeleton, canvas: tuple[float, float] | None = None, *, most: int = READABLE, many: int = MANY
) -> frozenset[str]:
    """The modules to show as their parts at first, so that no box stands for much more of the work than others.

    The heaviest are opened, and again, while there are at most ``most`` boxes; where that leaves fewer than FEW, until
    there are more, up to ``many``. canvas: (width, height) in pixels that the drawing is fitted to: then the last
    state whose names can be read there, unless that leaves fewer than FEW boxes, which say less than more of them
    without names.
    """
    states = _states(skeleton, most, many)
    if canvas is None:
        return states[-1]
    for expanded in reversed(states):
        view = graph_view(skeleton, expanded, canvas[0] / canvas[1], canvas[1])
        if len(view.boxes) < FEW:
            break
        if label_px(view.layout, canvas) >= LEGIBLE_PX:
            return expanded
    return states[-1]


def _states(skeleton: Skeleton, most: int, many: int) -> list[frozenset[str]]:
    """What is open, from nothing to as much as so many boxes allow; each has more boxes than the one before."""
    work, anchors = _inside(skeleton)
    expanded: frozenset[str] = frozenset()
    boxes = set(owners(skeleton, expanded))
    states = [expanded]
    while True:
        shut = {name[2:] for name in boxes if name.startswith("m:")}
        shut = {path for path in shut if len(anchors[path]) > 1}  # the others are one box, open or shut
        if not shut:
            return states
        heaviest = max(work[path] for path in shut)
        heavy = {path for path in shut if work[path] >= ALIKE * heaviest}
        parents = {path.rpartition(".")[0] for path in heavy} - {""}
        expanded |= heavy
        expanded |= {p for p in shut if p.rpartition(".")[0] in parents and work[p] >= SIBLING * heaviest}
        opened = set(owners(skeleton, expanded))
        if len(opened) > (many if len(boxes) < FEW else most):
            return states
        if len(opened) == len(boxes):  # wrappers with one part each: what is inside is the same box
            states.pop()
        states.append(expanded)
        boxes = opened


def _inside(skeleton: Skeleton) -> tuple[dict[str, float], dict[str, set[int]]]:
    """Of every module with all that is inside it: its work (operators count alike where none is stated), its operators
    on screen."""
    given = skeleton["work"]
    each = given if sum(given) > 0 else [1.0] * len(given)
    work: dict[str, float] = defaultdict(float)
    anchors: dict[str, set[int]] = defaultdict(set)
    for i, path in enumerate(skeleton["modules"]):
        parts = module_parts(path)
        for length in range(1, len(parts) + 1):
            inside = ".".join(parts[:length])
            work[inside] += each[i]
            anchors[inside].add(skeleton["anchors"][i])
    return work, anchors
