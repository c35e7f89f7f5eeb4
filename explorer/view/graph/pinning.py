"""What a person pins when they point at something: names of modules and operators, as few as say it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from explorer.view.graph.elements import GraphView
from explorer.view.plan_types import PlanView, Skeleton
from explorer.words import text
from solvers.errors import InvalidProblem

MOST = 64
"""Names that one thing may stand for: a link holds them all."""
SAME = 1e-4
"""A relative difference of times below this is none."""
RUN = "operators "
"""Begin of the names that a graph without modules gives its parts; they name nothing of the model."""


def members(kind: str, which: str, view: GraphView, skeleton: Skeleton, plan: PlanView | None) -> frozenset[int]:
    """The forward operators of a box, an operator, a stage or a device; none for what is not there."""
    anchors = skeleton["anchors"]
    if kind == "box":
        return frozenset(anchors[i] for i in view.boxes.get(which, ()))
    if not which.isdecimal() or len(which) > 9:
        return frozenset()
    number = int(which)
    if kind == "operator":
        return frozenset((anchors[number],)) if number < len(anchors) else frozenset()
    if plan is None or kind not in ("stage", "device"):
        return frozenset()
    if kind == "stage":
        return frozenset(anchors[i] for i, stage in enumerate(plan["stage_of"]) if stage == number)
    return frozenset(anchors[i] for i, devices in enumerate(plan["placement"]) if devices == [number])


def names(operators: Collection[int], skeleton: Skeleton) -> tuple[str, ...]:
    """The fewest names that stand for these forward operators and no others: whole modules, else the operators'
    own. Raises InvalidProblem if they are too many to say."""
    anchors, modules = skeleton["anchors"], skeleton["modules"]
    inside: dict[str, set[int]] = {}
    for i, anchor in enumerate(anchors):
        path = modules[i]
        if not path or path.startswith(RUN):
            continue
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            inside.setdefault(".".join(parts[:end]), set()).add(anchor)
    left, fewest = set(operators), []
    for path in sorted(inside, key=lambda path: (path.count("."), path)):
        if inside[path] <= left:
            fewest.append(path)
            left -= inside[path]
    fewest += [skeleton["names"][i] for i in sorted(left)]
    if len(fewest) > MOST:
        raise InvalidProblem(
            f"this is {text.count(len(operators))} operators of {text.count(len(fewest))} modules: too many to pin at"
            f" once; select at most {MOST}"
        )
    return tuple(fewest)


def merged(
    pins: Mapping[str, int], chosen: Collection[str], operators: Collection[int], skeleton: Skeleton, device: int | None
) -> dict[str, int]:
    """The pins once ``chosen``, which stands for the ``operators``, is on ``device`` (None: pinned no more). A
    pin of something inside goes: it would say otherwise."""
    index = {name: i for i, name in enumerate(skeleton["names"])}
    anchors, modules = skeleton["anchors"], skeleton["modules"]

    def within(name: str) -> bool:
        if name in index:
            return anchors[index[name]] in operators
        inside = {anchors[i] for i, path in enumerate(modules) if path == name or path.startswith(name + ".")}
        return bool(inside) and inside <= set(operators)

    remaining = {name: to for name, to in pins.items() if not within(name)}
    return remaining if device is None else remaining | dict.fromkeys(chosen, device)


def joined(groups: Sequence[Sequence[str]], group: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """Groups that are kept together, with one more: those that share a name with it become one."""
    merged, rest = dict.fromkeys(group), []
    for other in groups:
        if set(other) & set(merged):
            merged = dict.fromkeys((*other, *merged))
        else:
            rest.append(tuple(other))
    return (*rest, tuple(merged))


def whole(pinned: Collection[int], view: GraphView, skeleton: Skeleton) -> list[str]:
    """The boxes of which every operator is pinned."""
    if not pinned:
        return []
    anchors, held = skeleton["anchors"], set(pinned)
    return [name for name, inside in view.boxes.items() if inside and all(anchors[i] in held for i in inside)]


def pin_words(chosen: Sequence[str], device: int | None, devices: Sequence[str]) -> str:
    """ "pinned blocks.0 to GPU 1". chosen: names of what was pinned; devices: names of all of them."""
    what = listed(chosen)
    return f"unpinned {what}" if device is None else f"pinned {what} to {devices[device]}"


def listed(chosen: Sequence[str]) -> str:
    """Names as a sentence has them."""
    return text.listing([text.short(name, 40) for name in chosen], 2)


def pin_cost(words: str, before_s: float, now_s: float) -> str:
    """ "pinned blocks.9 to GPU 0: +310 ms (+11 %)"."""
    if abs(now_s / before_s - 1) < SAME:
        return f"{words}: costs nothing"
    return f"{words}: {text.signed(now_s - before_s, text.seconds)} ({text.signed(now_s / before_s - 1)})"
