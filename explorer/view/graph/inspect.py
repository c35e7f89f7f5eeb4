"""What is known of the thing that is selected: a box of the graph, a stage, a device or an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.costs.times.share import WORDS
from explorer.view.graph.elements import GraphView, full_name
from explorer.view.graph.sharding import sharding_rows
from explorer.view.plan_types import PlanView, Skeleton
from explorer.words import text
from explorer.words.actions import TRANSFER
from solvers.problem.problem import Origin

TITLES = {"F": "Forward", "I": "Input gradient", "W": "Weight gradient", "U": "Update", "B": "Backward"}
MOVES = 3


@dataclass(frozen=True, slots=True)
class Facts:
    """title, tags (devices), rows (name, value) and actions (verb, argument, label)."""

    title: str
    tags: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    actions: tuple[tuple[str, str, str], ...] = ()


def box_facts(element: str, view: GraphView, skeleton: Skeleton, plan: PlanView | None) -> Facts | None:
    """Facts of a box; None if the view has no such box (a stale message)."""
    members = view.boxes.get(element)
    if members is None:
        return None
    rows = [("Operators", text.count(len(members)))]
    if element.startswith("o:"):
        rows.append(("Type", text.short(skeleton["types"][int(element[2:])], 26)))
    rows += sharding_rows(members, skeleton, plan)
    tags: tuple[str, ...] = ()
    if plan is not None:
        used = sorted({d for i in members for d in plan["placement"][i]})
        tags = tuple(plan["devices"][d]["name"] for d in used[:6]) + (("…",) if len(used) > 6 else ())
        if not plan["by_operator"]:
            rows.append(("Stages", text.listing([str(s) for s in _stages(members, plan)], 6)))
        rows.append(("Fwd / bwd time", _times(members, skeleton, plan)))
        if plan.get("origins"):
            rows.append(("Time is", _origins(members, plan)))
    if shapes := _given(element, view, skeleton):
        rows.append(("Gives", text.listing(shapes, 2)))
    held = sum(skeleton["params"][i] for i in members)
    rows.append(("Parameters", text.nbytes(held) if held else text.NOTHING))
    if plan is not None:
        saved = sum(skeleton["saved"][i][0] + skeleton["saved"][i][1] * plan["samples"] for i in members)
        rows.append(
            (
                "Saved activations" if plan["by_operator"] else "Saved per micro-batch",
                text.nbytes(saved) if saved else text.NOTHING,
            )
        )
        rows += _exchanged(element, view, skeleton, plan)
    actions = []
    if element in view.expandable:
        actions.append(("expand", element, "Expand"))
    parent = _parent(element, skeleton)
    if parent:
        actions.append(("collapse", f"m:{parent}", f"Collapse {text.short(parent, 22)}"))
    return Facts(full_name(skeleton, element), tags, tuple(rows), tuple(actions))


POINTED = ("Type", "Exchanges", "Exchanges back", "Fwd / bwd time", "Parameters", "Gives", "Receives", "Sends")
"""The facts on a box that are shown where it is only pointed at."""


def box_words(element: str, view: GraphView, skeleton: Skeleton, plan: PlanView | None) -> str | None:
    """The most of what a click on a box would tell, in a line: its devices, times, sizes; None if the view has no such
    box."""
    facts = box_facts(element, view, skeleton, plan)
    if facts is None:
        return None
    sources = [source for source, _ in view.edges] if view.layout.fans else []
    read = sum(sources[number] == element for number in view.layout.fans)
    known = [f"{name[0].lower()}{name[1:]} {value}" for name, value in facts.rows
             if value != text.NOTHING and (name in POINTED or name.startswith("On each of"))]  # fmt: skip
    known += [f"read by {read + 1:,} boxes"] if read else []
    return " · ".join([*([", ".join(facts.tags)] if facts.tags else []), *known])


def device_facts(device: int, plan: PlanView) -> Facts | None:
    """Facts of a device; None if the plan has no such device."""
    if not 0 <= device < len(plan["devices"]):
        return None
    shown, curve = plan["devices"][device], plan["memory"][device]
    stages = [i for i, s in enumerate(plan["stages"]) if device in s["devices"]]
    held = sum(1 for places in plan["placement"] if device in places)
    cap = shown["memory_bytes"]
    rows = (
        ("Kind", shown["kind"]),
        *([("Group", f"{size} GPUs; memory is per member")] if (size := shown.get("members", 1)) > 1 else []),
        *([("Alike", shown["alike"])] if shown.get("alike") else []),
        *([] if plan["by_operator"] else [("Stages", text.listing([str(s) for s in stages], 6))]),
        ("Operators", text.count(held)),
        ("Busy", text.percent(plan["busy_s"][device] / plan["span_s"] if plan["span_s"] else 0.0)),
        ("Compute", text.seconds(plan["busy_s"][device])),
        ("Static memory", text.nbytes(curve["static_bytes"])),
        ("Peak memory", text.nbytes(curve["peak_bytes"]) + (f" of {text.nbytes(cap)}" if cap else "")),
    )
    return Facts(shown["name"], (), rows)


def _stages(members: Sequence[int], plan: PlanView) -> list[int]:
    return sorted({plan["stage_of"][i] for i in members} - {-1})


def _times(members: Sequence[int], skeleton: Skeleton, plan: PlanView) -> str:
    forward = sum(plan["seconds"][i] for i in members if skeleton["phases"][i] == "forward")
    backward = sum(plan["seconds"][i] for i in members if skeleton["phases"][i].startswith("backward"))
    return f"{text.seconds(forward)} / {text.seconds(backward) if backward else text.NOTHING}"


def _origins(members: Sequence[int], plan: PlanView) -> str:
    """ "measured", or "81 % measured, 19 % estimated" of the time of several operators."""
    seconds = dict.fromkeys(Origin, 0.0)
    origins = plan["origins"] or ()
    for i in members:
        seconds[Origin(origins[i])] += plan["seconds"][i]
    total = sum(seconds.values())
    held = [origin for origin in Origin if seconds[origin] > 0]
    if len(held) == 1:
        return WORDS[held[0]]
    return ", ".join(f"{text.percent(seconds[origin] / total)} {WORDS[origin]}" for origin in held) or text.NOTHING


def _given(element: str, view: GraphView, skeleton: Skeleton) -> list[str]:
    """Shapes of the tensors that leave a box forwards, each once."""
    leaving = {t: None for (source, _), tensors in view.edges.items() if source == element for t in tensors}
    return list(dict.fromkeys(skeleton["shapes"][t] for t in leaving if skeleton["shapes"][t]))


def _exchanged(element: str, view: GraphView, skeleton: Skeleton, plan: PlanView) -> list[tuple[str, str]]:
    """Forward bytes per micro-batch that come from, or go to, other devices."""
    received: dict[int, float] = {}
    sent: dict[int, float] = {}
    for (source, target), tensors in view.edges.items():
        if element not in (source, target):
            continue
        for t in tensors:
            producer, consumers, fixed, per_sample = skeleton["tensors"][t]
            home = set(plan["placement"][producer])
            away = {d for c in consumers if view.owner[c] == target for d in plan["placement"][c]} - home
            size = fixed + per_sample * plan["samples"]
            for device in away:
                if target == element:
                    for origin in sorted(home)[:1]:
                        received[origin] = received.get(origin, 0.0) + size
                else:
                    sent[device] = sent.get(device, 0.0) + size
    names = [d["name"] for d in plan["devices"]]
    rows = []
    if received:
        rows.append(("Receives", text.listing([f"{text.nbytes(b)} ← {names[d]}" for d, b in received.items()], 2)))
    if sent:
        rows.append(("Sends", text.listing([f"{text.nbytes(b)} → {names[d]}" for d, b in sent.items()], 2)))
    return rows


def _parent(element: str, skeleton: Skeleton) -> str:
    if element.startswith("o:"):
        path: str = skeleton["modules"][int(element[2:])]
        return path
    return element[2:].rpartition(".")[0]


def operator_facts(operator: int, skeleton: Skeleton, plan: PlanView) -> Facts | None:
    """Facts of an operator and of those that mirror it; None if the schedule has no such operator."""
    anchors, names = skeleton["anchors"], skeleton["names"]
    if not 0 <= operator < len(names) or not plan["by_operator"]:
        return None
    bars, devices = plan["bars"], [d["name"] for d in plan["devices"]]
    own = anchors[operator]
    bar_indices = [i for i, o in enumerate(bars["operator"]) if o >= 0 and anchors[o] == own]
    runs = sorted((i for i in bar_indices if bars["kind"][i] != TRANSFER), key=lambda i: bars["start_s"][i])
    if not runs:
        return None
    rows = [("Type", text.short(skeleton["types"][own], 26))]
    rows += sharding_rows([i for i, anchor in enumerate(anchors) if anchor == own], skeleton, plan)
    for i in runs:
        took = text.seconds(bars["end_s"][i] - bars["start_s"][i])
        rows.append((TITLES.get(bars["kind"][i], "Runs"), f"{took} at {text.seconds(bars['start_s'][i])}"))
    sent: dict[int, tuple[int, float]] = {}
    for i in bar_indices:
        if bars["kind"][i] == TRANSFER and bars["to_device"][i] != bars["device"][i]:
            many, size = sent.get(bars["to_device"][i], (0, 0.0))
            sent[bars["to_device"][i]] = (many + 1, size + bars["nbytes"][i])
    if sent:
        sizes = [f"{text.nbytes(size)} → {devices[to]}" for to, (_, size) in sorted(sent.items())]
        rows.append(("Sends", text.listing(sizes, MOVES)))
    held = skeleton["params"][own]
    if held:
        rows.append(("Parameters", text.nbytes(held)))
    places = sorted({d for i in runs for d in plan["placement"][bars["operator"][i]]})
    return Facts(names[own], tuple(devices[d] for d in places), tuple(rows))
