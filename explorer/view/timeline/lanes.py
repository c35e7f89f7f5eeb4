"""The resources that carry transfers: links, wires that several links share, and channels of devices;
and what a transfer carries."""

from __future__ import annotations

import re
from collections.abc import Sequence

from explorer.view.plan_types import LinkUse
from solvers.plan.schedule import Schedule

_PAIR = re.compile(r"^(\d+)->(\d+)$")
_OWN = re.compile(r"^(lane|out|in) (\d+)$")
_OWN_WORDS = {"lane": "channel", "out": "out", "in": "in"}
_HOST = re.compile(r"^(to|from) host (\d+)$")
_DEVICE = re.compile(r"^device \d+$")
Ends = tuple[int, int]
UNKNOWN: Ends = (-1, -1)


def link_uses(schedule: Schedule, names: Sequence[str]) -> list[LinkUse]:
    """Every resource besides the devices that a transfer occupies, in the order of their devices.

    names: of the devices. Transfers that occupy a device itself (blocking ones) are not among them."""
    uses: dict[str, LinkUse] = {}
    for span in schedule.spans:
        if not span.is_transfer or _DEVICE.match(span.resource):
            continue
        use = uses.setdefault(
            span.resource,
            {"resource": span.resource, "label": lane_label(span.resource, names), "senders": [], "transfers": 0,
             "nbytes": 0.0, "busy_s": 0.0},
        )  # fmt: skip
        use["transfers"] += 1
        use["nbytes"] += span.nbytes
        use["busy_s"] += span.end_s - span.start_s
        if span.device not in use["senders"]:
            use["senders"].append(span.device)
    for use in uses.values():
        use["senders"].sort()
    return sorted(uses.values(), key=_place)


def lane_label(resource: str, names: Sequence[str]) -> str:
    """ "0->1" as "GPU 0 → 1" (or "GPU 0 → CPU 0"), "lane 2" as "GPU 2 channel"; a wire by its own name."""
    pair, own = _PAIR.match(resource), _OWN.match(resource)
    if pair and max(int(pair[1]), int(pair[2])) < len(names):
        a, b = names[int(pair[1])], names[int(pair[2])]
        same = a.rpartition(" ")[0] == b.rpartition(" ")[0] != ""
        return f"{a} → {b.rpartition(' ')[2] if same else b}"
    if own and int(own[2]) < len(names):
        return f"{names[int(own[2])]} {_OWN_WORDS[own[1]]}"
    host = _HOST.match(resource)
    if host and int(host[2]) < len(names):
        name = names[int(host[2])]
        return f"{name} → host" if host[1] == "to" else f"host → {name}"
    return resource.replace("->", " → ")


def to_hosts(uses: Sequence[LinkUse]) -> bool:
    """Whether any of the links is between a device and its host's memory."""
    return any(_HOST.match(use["resource"]) for use in uses)


def _place(use: LinkUse) -> tuple[tuple[int, int | str], ...]:
    """Numbers in a name sort as numbers."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", use["resource"]))


def endpoints(schedule: Schedule) -> list[Ends]:
    """Per span (sender, reader), as operators: of a transfer the one that made what is sent, and the first to run
    that reads it; of an operator, itself twice.

    -1 where a span is no single operator, or nobody reads what is sent (the sender's half of a transfer).
    """
    return list(zip(schedule.columns.sender.tolist(), schedule.columns.reader.tolist(), strict=True))
