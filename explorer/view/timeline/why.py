"""Why the plan takes as long as it does, in words made of its numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NotRequired, TypedDict

from explorer.view.plan_types import PathPart, PlanView, used_devices
from explorer.view.timeline.path import summed
from explorer.words import text

TIGHT = 0.97
"""A device whose peak reaches this share of its cap has no room to take more work."""
BUSY = 0.75
"""A device that computes for less of the step is not the bottleneck: what it idles for is."""
MOST_OF_NOTE = 280
"""Characters."""
SHOWN_PARTS = 6
"""Parts of a critical path in the panel; the rest is one more."""
OBJECTIVE_WORDS = {"iteration": "iteration time", "makespan": "makespan", "max-load": "max-load"}
CONTIGUITY_WORDS = {
    "acyclic": "acyclic graphs of stages",
    "convex": "convex stages",
    "none": "any set of operators on a device",
}


def breakdown(
    spans: Sequence[tuple[int, int, float, float]], device: int, span_s: float, exchange_s: float = 0.0
) -> dict[str, float]:
    """Seconds of one device's step: compute, exchange (of what is busy, so much; where there is any), transfers (idle
    while data comes to it or leaves it), warm_up (before its first compute), drain (after its last) and waiting. They
    add up to span_s.

    spans: (device, to_device or -1, start_s, end_s).
    """
    computing = sorted((start, end) for d, to, start, end in spans if to < 0 and d == device)
    moving = sorted((start, end) for d, to, start, end in spans if to >= 0 and device in (d, to))
    if not computing:
        return {"compute": 0.0, "transfers": 0.0, "warm_up": span_s, "drain": 0.0, "waiting": 0.0}
    work = _union(computing)
    first, last = work[0][0], work[-1][1]
    gaps = [(a[1], b[0]) for a, b in pairwise(work) if b[0] > a[1]]
    compute = sum(end - start for start, end in work)
    transfers = _overlap(gaps, _union(moving))
    idle = sum(end - start for start, end in gaps)
    exchange = min(exchange_s, compute)
    return {
        "compute": compute - exchange,
        **({"exchange": exchange} if exchange else {}),
        "transfers": transfers,
        "warm_up": first,
        "drain": max(0.0, span_s - last),
        "waiting": max(0.0, idle - transfers),
    }


class Part(TypedDict):
    """A part of the step. device: of a critical path, -1 for several."""

    key: str
    name: str
    share: float
    text: str
    device: NotRequired[int]


class Heavy(TypedDict):
    """A span among the longest on the critical path."""

    operator: int
    start_s: float
    end_s: float
    name: str
    text: str


class Why(TypedDict):
    """The why panel; bound and objective as text, bound_share for the gauge."""

    headline: str
    parts: list[Part]
    binding: str
    heaviest: list[Heavy]
    proof: str
    bound: str
    objective: str
    bound_share: float
    notes: list[str]


def explain(plan: PlanView) -> Why:
    """The why panel. Where operators are scheduled one by one, the parts
    are those of the critical path and heaviest the longest spans on it; else they are the bottleneck's."""
    on_path = plan["by_operator"]
    return {
        "headline": f"{plan['path']['sentence']}." if on_path else _headline(plan),
        "parts": path_parts(plan["path"]["parts"]) if on_path else _parts(plan),
        "binding": _binding_path(plan) if on_path else _binding(plan),
        "heaviest": [
            {"operator": heavy["operator"], "start_s": heavy["start_s"], "end_s": heavy["start_s"] + heavy["seconds"],
             "name": heavy["name"],
             "text": f"{heavy['words']} · {text.seconds(heavy['seconds'])}"}
            for heavy in (plan["path"]["heaviest"] if on_path else [])
        ],
        "proof": _proof(plan),
        "bound": text.seconds(plan["bound_s"]),
        "objective": text.seconds(plan["objective_s"]),
        "bound_share": _ratio(plan["bound_s"], plan["objective_s"]),
        "notes": [_note(note) for note in plan["notes"]],
    }  # fmt: skip


def _note(note: str) -> str:
    """A note as a sentence of the panel; of what lists too much, its beginning."""
    words = note[:1].upper() + note[1:]
    return words if len(words) <= MOST_OF_NOTE else f"{words[:MOST_OF_NOTE].rpartition(' ')[0]} …"


def _headline(plan: PlanView) -> str:
    device = plan["bottleneck"]
    name = plan["devices"][device]["name"]
    held = [module for i, module in enumerate(plan["modules"]) if device in plan["placement"][i]]
    other = [module for i, module in enumerate(plan["modules"]) if device not in plan["placement"][i]]
    what = _span_of(held, other)
    used = used_devices(plan)
    if used <= 1:
        return f"{name} does all the work{what}."
    return f"{name} is the bottleneck of {used} devices{what}."


def _span_of(held: Sequence[str], other: Sequence[str]) -> str:
    """Which modules a device holds, each by the shortest name that no other device shares."""
    elsewhere = {".".join(m.split(".")[:depth]) for m in set(other) for depth in range(1, m.count(".") + 2)}

    def briefly(module: str) -> str:
        parts = module.split(".")
        for depth in range(1, len(parts)):
            if ".".join(parts[:depth]) not in elsewhere:
                return ".".join(parts[:depth])
        return module

    tops = list(dict.fromkeys(briefly(m) for m in dict.fromkeys(held) if m))
    if not tops:
        return ""
    if len(tops) == 1:
        return f": it holds {tops[0]}"
    if len(tops) == 2:
        return f": it holds {tops[0]} and {tops[1]}"
    return f": it holds {tops[0]} to {tops[-1]} ({len(tops)} modules)"


def _parts(plan: PlanView) -> list[Part]:
    span = plan["span_s"]
    parts = plan["breakdown"]
    name = plan["devices"][plan["bottleneck"]]["name"]
    words = [
        ("compute", f"{name} compute", parts["compute"]),
        *([("exchange", "exchange in the group", parts["exchange"])] if "exchange" in parts else []),
        ("transfers", "waits for transfers", parts["transfers"]),
        (
            "ramp",
            "before and after" if plan["objective"] == "makespan" else "warm-up and drain",
            parts["warm_up"] + parts["drain"],
        ),
        ("waiting", "waits for other devices", parts["waiting"]),
    ]
    return [
        {"key": key, "name": what, "share": value / span if span else 0.0, "text": text.percent(_ratio(value, span))}
        for key, what, value in words
    ]


def path_parts(parts: Sequence[PathPart], shown: int = SHOWN_PARTS) -> list[Part]:
    """The parts of a critical path for the panel: the largest ones, the others as one; whole percents that
    add up."""
    percents = summed([(part["words"], part["share"]) for part in parts], shown)
    of = [(part["kind"], part["device"], part["share"]) for part in parts]
    if len(percents) < len(parts):
        of = [*of[: len(percents) - 1], ("others", -1, sum(share for _, _, share in of[len(percents) - 1 :]))]
    return [
        {"key": kind, "device": device, "name": words, "share": share, "text": f"{percent} %"}
        for (kind, device, share), (words, percent) in zip(of, percents, strict=True)
    ]


def _binding_path(plan: PlanView) -> str:
    """What would have to become faster, or whether memory leaves no choice."""
    tight, room = _memory(plan)
    if tight:
        return tight
    moving = sum(part["share"] for part in plan["path"]["parts"] if part["kind"] == "transfer")
    used = [busy for busy in plan["busy_s"] if busy > 0]
    if moving >= 0.5:
        return f"Transfers are the bottleneck: the critical path spends {text.percent(moving)} on links." + room
    busiest = max(used, default=0.0) / (plan["span_s"] or 1.0)
    if busiest >= TIGHT:
        name = plan["devices"][plan["busy_s"].index(max(used))]["name"]
        return f"Compute on {name} is the bottleneck: it is busy {text.percent(busiest)} of the step." + room
    return f"Waiting on dependencies: no device is busy more than {text.percent(busiest)} of the step." + room


def _memory(plan: PlanView) -> tuple[str, str]:
    """("Memory is the bottleneck: ...", "") or ("", that it does not, if there are caps)."""
    full = [
        (curve["peak_bytes"] / device["memory_bytes"], device["name"])
        for device, curve in zip(plan["devices"], plan["memory"], strict=True)
        if device["memory_bytes"]
    ]
    tight = sorted((f for f in full if f[0] >= TIGHT), reverse=True)
    if tight:
        names = text.listing([n for _, n in tight], 3)
        return f"Memory is the bottleneck: {names} at {text.percent(tight[0][0])} of the cap.", ""
    return "", f" Memory is not: {text.percent(1 - max(full)[0])} free at the fullest device." if full else ""


def _binding(plan: PlanView) -> str:
    """What would have to change for the plan to be faster: memory, work on a device or, where that idles for a good
    part of the step, what it idles for."""
    tight, room = _memory(plan)
    if tight:
        return tight
    if plan["objective"] == "max-load":
        return _binding_load(plan) + room
    parts, span = plan["breakdown"], plan["span_s"]
    name = plan["devices"][plan["bottleneck"]]["name"]
    share = {key: _ratio(value, span) for key, value in parts.items()}
    exchange = share.get("exchange", 0.0)
    if share["compute"] + exchange >= BUSY:
        among = f" and exchanges in the group {text.percent(exchange)}" if exchange else ""
        return (
            f"Compute on {name} is the bottleneck: it computes {text.percent(share['compute'])}{among} of the step."
            + room
        )
    idle = {"ramp": share["warm_up"] + share["drain"], "transfers": share["transfers"], "waiting": share["waiting"]}
    key, most = max(idle.items(), key=lambda item: item[1])
    waits = text.percent(most)
    ramp = (
        f"The single pass is the bottleneck: {name} idles {waits} of it, before its first operator and after its last."
        if plan["objective"] == "makespan"
        else f"Warm-up and drain are the bottleneck: {name} idles {waits} of the step while the pipeline fills and"
        " empties; more micro-batches make that less."
    )
    words = {
        "ramp": ramp,
        "transfers": f"Transfers are the bottleneck: {name} idles {waits} of the step while data moves.",
        "waiting": f"Waiting on dependencies: {name} waits {waits} of the step for other devices.",
    }
    return words[key] + room


def _binding_load(plan: PlanView) -> str:
    """In steady state nothing fills or empties: a device computes, or moves data."""
    device = plan["bottleneck"]
    name, load = plan["devices"][device]["name"], plan["metrics"]["load_s"][device]
    share = min(1.0, _ratio(plan["busy_s"][device] / plan["mini_batch"], load))
    if share >= 0.5:
        return f"Work on {name} binds: {text.percent(share)} of its load is compute."
    return f"Transfers are the bottleneck: {text.percent(1 - share)} of the load of {name} is data that moves."


def _proof(plan: PlanView) -> str:
    objective = OBJECTIVE_WORDS[plan["objective"]]
    where = CONTIGUITY_WORDS[plan["contiguity"]] if plan["subgraphs"] is None else _subgraphs(plan["subgraphs"])
    if plan["status"] == "OPTIMAL":
        return f"Proved optimal for {objective}, over {where}."
    if not plan["bound_s"]:
        return f"No lower bound on the {objective} was proved."
    assert plan["objective_s"] is not None  # a plan that is shown has one
    gap = text.percent(1 - plan["bound_s"] / plan["objective_s"])
    return f"No plan can be more than {gap} faster: {objective}, over {where}."


def _subgraphs(most: int) -> str:
    """Latency's bounds hold for every contiguity, and for so many stages of one device (0: any number)."""
    return f"at most {text.plural(most, 'subgraph')} of one device" if most else "any number of subgraphs of one device"


def _union(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    joined: list[tuple[float, float]] = []
    for start, end in intervals:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _overlap(a: Sequence[tuple[float, float]], b: Sequence[tuple[float, float]]) -> float:
    total, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def _ratio(part: float, whole: float | None) -> float:
    return part / whole if whole else 0.0
