"""The stages of a plan's view as boxes and arrows, with all numbers as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from explorer.view.graph.inspect import Facts
from explorer.view.graph.stage_layout import stage_columns, stage_lanes
from explorer.view.plan_types import PlanView
from explorer.words import text

MAX_STAGES = 128
"""More boxes than this cannot be read; a table can."""
CHIPS = 3
"""Devices named one by one; more are a range or a number."""

Plan = PlanView


class Box(TypedDict):
    """A stage. who: its devices in words; times: forward and backward, apart; both: together; of_cap: the share of the
    cap, None without one; label: all of it in a sentence."""

    stage: int
    column: int
    lane: float
    devices: list[int]
    who: str
    who_short: str
    times: str
    forward: str
    backward: str
    both: str
    share: str
    flight: int
    samples: int
    peak: str
    peak_short: str
    of_cap: float | None
    depth: int
    glue: bool
    recompute: bool
    bottleneck: bool
    label: str


class Arrow(TypedDict):
    """weight: 0 to 1, of the largest; between: nodes; waits: nothing is sent, the target only comes after."""

    source: int
    target: int
    text: str
    weight: float
    between: bool
    waits: bool


class StageScene(TypedDict):
    """What the stage view draws. note: the depth in words; too_many: there are more than MAX_STAGES, and no boxes."""

    boxes: list[Box]
    edges: list[Arrow]
    columns: int
    note: str
    too_many: bool


def stage_boxes(plan: Plan) -> StageScene:
    """What the stage view draws of a plan's view."""
    stages = plan["stages"]
    if len(stages) > MAX_STAGES:
        return {"boxes": [], "edges": [], "note": text.plural(len(stages), "stage"), "columns": 0, "too_many": True}
    edges = plan["stage_edges"]
    pairs = [(source, target) for source, target, _, _ in edges]
    columns = stage_columns(len(stages), pairs)
    lanes = stage_lanes(columns, pairs)
    slowest = bottleneck_stage(plan)
    largest = max((nbytes for _, _, nbytes, _ in edges), default=0.0)
    return {
        "boxes": [_box(plan, i, columns[i], lanes[i], i == slowest) for i in range(len(stages))],
        "edges": [
            {
                "source": source,
                "target": target,
                "text": text.nbytes(nbytes),
                "weight": round(nbytes / largest, 3) if largest else 0.0,
                "between": between,
                "waits": nbytes == 0,
            }
            for source, target, nbytes, between in edges
        ],
        "columns": max(columns, default=-1) + 1,
        "note": note(plan),
        "too_many": False,
    }


def depth(plan: Plan) -> int:
    """Stages on the longest path: what a micro-batch passes one after the other."""
    return max((stage["depth"] for stage in plan["stages"]), default=0)


def note(plan: Plan) -> str:
    """ "9 stages, 2 of them auxiliary, depth 3"."""
    glue = sum(1 for stage in plan["stages"] if stage["glue"])
    words = text.plural(len(plan["stages"]), "stage") + (f", {glue} of them auxiliary" if glue else "")
    return f"{words}, depth {depth(plan)}"


def bottleneck_stage(plan: Plan) -> int:
    """Of the stages on the device that decides the objective, the one that takes most of its time; -1 if
    there is none, or nothing to choose from."""
    stages = plan["stages"]
    on = [i for i, stage in enumerate(stages) if plan["bottleneck"] in stage["devices"]]
    if len(stages) < 2 or not on:
        return -1
    return max(on, key=lambda i: stages[i]["busy_s"])


def device_words(devices: Sequence[int], names: Sequence[str], brief: bool = False) -> str:
    """ "GPU 2", "GPU 2, 3" (or "GPU 2–3" where it must be brief), "GPU 2–5": equal words before the numbers
    are said once."""
    ordered = sorted(devices)
    stems = {names[d].rpartition(" ")[0] for d in ordered}
    if len(ordered) == 1 or len(stems) > 1 or not all(names[d].rpartition(" ")[2].isdigit() for d in ordered):
        return text.listing([names[d] for d in ordered], CHIPS)
    numbers = [int(names[d].rpartition(" ")[2]) for d in ordered]
    stem = stems.pop()
    if len(ordered) > (1 if brief else 2) and numbers[-1] - numbers[0] + 1 == len(ordered):
        return f"{stem} {numbers[0]}–{numbers[-1]}"
    shown = ", ".join(map(str, numbers[: CHIPS + 1])) + (", …" if len(numbers) > CHIPS + 1 else "")
    return f"{stem} {shown}"


def stage_facts(stage: int, plan: Plan) -> Facts | None:
    """The inspector's facts of a stage; None if the plan has no such stage."""
    if not 0 <= stage < len(plan["stages"]):
        return None
    view = plan["stages"][stage]
    box = _box(plan, stage, 0, 0.0, stage == bottleneck_stage(plan))
    names = [d["name"] for d in plan["devices"]]
    sends = [f"{text.nbytes(b)} → stage {t}" for s, t, b, _ in plan["stage_edges"] if s == stage and b]
    receives = [f"{text.nbytes(b)} ← stage {s}" for s, t, b, _ in plan["stage_edges"] if t == stage and b]
    count = sum(plan["devices"][d].get("count", 1) for d in view["devices"])
    rows = [
        ("Devices", box["who"] + (f" (×{count:,})" if count > 1 else "")),
        ("Operators", text.count(view["operators"])),
        ("Fwd / bwd time", box["times"]),
        ("Share of work", box["share"]),
        ("Micro-batch", text.plural(view["micro_batch_size"], "sample")),
        ("In flight", "1 micro-batch" if view["in_flight"] == 1 else f"{view['in_flight']:,} micro-batches"),
        ("Depth", text.count(view["depth"])),
        ("Peak memory", box["peak"]),
    ]
    if view["recompute"]:
        again = f"{text.plural(view['again'], 'operator')} run again" if view.get("again") else "recomputed"
        rows.append(("Activations", again))
    if receives:
        rows.append(("Receives", text.listing(receives, 2)))
    if sends:
        rows.append(("Sends", text.listing(sends, 2)))
    tags = tuple(names[d] for d in view["devices"][:4]) + (("…",) if len(view["devices"]) > 4 else ())
    return Facts(f"Stage {stage}", tags, tuple(rows))


def table(plan: Plan) -> list[dict[str, object]]:
    """The stage view's table twin: one row a stage; pick: what its name selects."""
    after: dict[int, list[str]] = {}
    for source, target, nbytes, between in plan["stage_edges"]:
        words = f"{target} ({text.nbytes(nbytes) if nbytes else 'waits only'}{', between nodes' if between else ''})"
        after.setdefault(source, []).append(words)
    rows: list[dict[str, object]] = []
    for i in range(len(plan["stages"])):
        box = _box(plan, i, 0, 0.0, False)
        rows.append(
            {
                "stage": str(i),
                "pick": ("stage", str(i)),
                "devices": box["who"],
                "times": box["times"],
                "share": box["share"],
                "flight": str(box["flight"]),
                "samples": str(box["samples"]),
                "peak": box["peak"],
                "depth": str(box["depth"]),
                "feeds": text.listing(after.get(i, []), 3),
            }
        )
    return rows


def _box(plan: Plan, stage: int, column: int, lane: float, slowest: bool) -> Box:
    view = plan["stages"][stage]
    names = [d["name"] for d in plan["devices"]]
    peaks = [(plan["memory"][d]["peak_bytes"], plan["devices"][d]["memory_bytes"]) for d in view["devices"]]
    peak, cap = max(peaks, key=lambda pair: pair[0])
    where = device_words(view["devices"], names)
    times = f"{text.seconds(view['forward_s'])} / {text.seconds(view['backward_s'] or None)}"
    held = text.nbytes(peak) + (f" of {text.nbytes(cap)}" if cap else "")
    words = (
        f"Stage {stage} on {where}: {times} forward and backward a micro-batch of {view['micro_batch_size']},"
        f" {text.percent(view['share'])} of the work, {view['in_flight']} in flight, peak memory {held},"
        f" depth {view['depth']}{', the bottleneck' if slowest else ''}"
    )
    return {
        "stage": stage,
        "column": column,
        "lane": lane,
        "devices": view["devices"],
        "who": where,
        "who_short": device_words(view["devices"], names, brief=True),
        "times": times,
        "forward": text.seconds(view["forward_s"]),
        "backward": text.seconds(view["backward_s"] or None),
        "both": text.seconds(view["forward_s"] + view["backward_s"]),
        "share": text.percent(view["share"]),
        "flight": view["in_flight"],
        "samples": view["micro_batch_size"],
        "peak": held,
        "peak_short": text.nbytes(peak),
        "of_cap": round(peak / cap, 4) if cap else None,
        "depth": view["depth"],
        "glue": view["glue"],
        "recompute": view["recompute"],
        "bottleneck": slowest,
        "label": words,
    }
