"""What is selected: a part of the model or of the plan, by the name that people give it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from explorer.question.written.closest import closest
from explorer.view.graph import pinning
from explorer.view.graph.elements import GraphView
from explorer.view.plan_types import PlanView, Skeleton
from explorer.words import text
from solvers.errors import InvalidProblem

_STAGE = re.compile(r"stage (\d{1,6})\Z")
SHOWN = 3
"""Operators that a selection names when it is printed."""


@dataclass(frozen=True, slots=True)
class Selection:
    """kind: "operator", "module", "stage" or "device". name: of the operator or module, "stage 2", "GPU 3". operators:
    names of the forward operators that are meant; devices: indices of the devices on which they run, none without a
    plan."""

    kind: str
    name: str
    operators: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}: {text.listing(self.operators, SHOWN)}"


Plan = PlanView | None
"""A plan's view."""


def selected(wanted: object, view: GraphView, skeleton: Skeleton, plan: Plan) -> Selection | None:
    """What ``wanted`` means in this model under this plan: an operator's name, a module's path, "stage 2", "GPU 3", a
    Selection, or None. Raises InvalidProblem for what is not there, with the closest that is."""
    if wanted is None:
        return None
    name = wanted.name if isinstance(wanted, Selection) else wanted
    if not isinstance(name, str):
        raise InvalidProblem(
            f"select an operator or module by its name, 'stage 2', 'GPU 3', or None; found {type(wanted).__name__}"
        )
    names, modules = skeleton["names"], skeleton["modules"]
    if name in names:
        operators, kind = frozenset((skeleton["anchors"][names.index(name)],)), "operator"
        return _selection(kind, names[min(operators)], operators, skeleton, plan)
    inside = frozenset(skeleton["anchors"][i] for i, p in enumerate(modules) if p == name or p.startswith(name + "."))
    if name and inside:
        return _selection("module", name, inside, skeleton, plan)
    devices = [] if plan is None else [device["name"] for device in plan["devices"]]
    if plan is not None and name in devices:
        return _whole("device", devices.index(name), name, view, skeleton, plan)
    stage = _STAGE.match(name)
    if plan is not None and stage and int(stage[1]) < len(plan["stages"]):
        return _whole("stage", int(stage[1]), f"stage {int(stage[1])}", view, skeleton, plan)
    known = [*names, *modules, *devices]
    stages = f", and stages 0 to {len(plan['stages']) - 1}" if plan is not None else ""
    raise InvalidProblem(
        f"there is no operator, module, stage or device {text.short(name, 60)!r}{closest(name, known) or stages}"
    )


def pointed_at(kind: str, which: str, view: GraphView, skeleton: Skeleton, plan: Plan) -> Selection | None:
    """What a browser points at; None for nothing, and for what is not there any more."""
    if kind == "box":
        if which not in view.boxes:
            return None
        operators = frozenset(skeleton["anchors"][i] for i in view.boxes[which])
        if which.startswith("o:"):
            return _selection("operator", skeleton["names"][int(which[2:])], operators, skeleton, plan)
        return _selection("module", which[2:], operators, skeleton, plan)
    operators = pinning.members(kind, which, view, skeleton, plan)
    if not operators:
        return None
    if kind == "operator":
        return _selection("operator", skeleton["names"][min(operators)], operators, skeleton, plan)
    if plan is None:
        return None
    number = int(which)
    name = f"stage {number}" if kind == "stage" else plan["devices"][number]["name"]
    return _whole(kind, number, name, view, skeleton, plan)


def _whole(kind: str, number: int, name: str, view: GraphView, skeleton: Skeleton, plan: PlanView) -> Selection:
    """A stage or a device with all that runs there."""
    anchors = skeleton["anchors"]
    if kind == "stage":
        operators = {anchors[i] for i, stage in enumerate(plan["stage_of"]) if stage == number}
        return _selection(kind, name, frozenset(operators), skeleton, plan)
    operators = {anchors[i] for i, devices in enumerate(plan["placement"]) if number in devices}
    return Selection(kind, name, tuple(skeleton["names"][i] for i in sorted(operators)), (number,))


def _selection(kind: str, name: str, operators: frozenset[int], skeleton: Skeleton, plan: Plan) -> Selection:
    devices = () if plan is None else tuple(sorted({d for i in operators for d in plan["placement"][i]}))
    return Selection(kind, name, tuple(skeleton["names"][i] for i in sorted(operators)), devices)
