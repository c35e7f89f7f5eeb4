"""The rows of the Gantt chart: a device each, or a stage each with its replicas as one; and links below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from explorer.view.graph.stage_boxes import device_words
from explorer.view.graph.stage_layout import stage_columns, stage_lanes
from explorer.view.plan_types import Bars, PlanView, RowPhases, Stage
from explorer.view.timeline.lanes import to_hosts
from explorer.view.timeline.phases import is_pipelined
from explorer.words import text
from explorer.words.actions import TRANSFER

RowKind = Literal["devices", "stages"]
MAX_STAGE_ROWS = 64
"""With more stages, rows are devices: a row of a few pixels says nothing."""
MOST_MIXED = 2
"""Stages a device up to which the operators of one pass are shown in rows of stages."""
HIDDEN = -1
MAX_LINK_ROWS = 16
"""The busiest links have a row each; more could not be distinguished."""
LINK_HEIGHT = 0.56
"""Of a link's row, where a device's is 1."""


@dataclass(frozen=True, slots=True)
class Row:
    """label: as people read it. devices: whose colours mark it. stage: the stage that is meant by it, or
    -1. phases: see `explorer.view.timeline.phases`, None where there are none. links: positions of the links whose
    transfers it shows. height: 1 is that of a device."""

    label: str
    devices: tuple[int, ...]
    stage: int = -1
    phases: RowPhases | None = None
    links: tuple[int, ...] = ()
    height: float = 1.0


@dataclass(frozen=True, slots=True)
class Rows:
    """kind: what a row is. of_bar: the row of every bar, HIDDEN for what another replica shows."""

    kind: RowKind
    rows: tuple[Row, ...]
    of_bar: tuple[int, ...]

    def middles(self) -> tuple[float, ...]:
        """Where each row's middle is, from the top; the first one's is 0."""
        middles: list[float] = []
        edge = -0.5
        for row in self.rows:
            middles.append(edge + row.height / 2)
            edge += row.height
        return tuple(middles)

    def total(self) -> float:
        """The height of all rows."""
        return sum(row.height for row in self.rows)


Group = TypedDict("Group", {"label": str, "from": int, "to": int})
"""Rows from ``from``, before ``to``."""


class RowColumns(TypedDict):
    """Rows as a drawing takes them, a list a property."""

    kind: RowKind
    label: list[str]
    stages: list[int]
    devices: list[tuple[int, ...]]
    middle: list[float]
    height: list[float]
    link: list[bool]
    groups: list[Group]


def row_columns(rows: Rows, nodes: Sequence[int]) -> RowColumns:
    """Rows as a drawing takes them, a list a property. nodes: of the devices."""
    return {
        "kind": rows.kind,
        "label": [row.label for row in rows.rows],
        "stages": [row.stage for row in rows.rows],
        "devices": [row.devices for row in rows.rows],
        "middle": [round(middle, 4) for middle in rows.middles()],
        "height": [row.height for row in rows.rows],
        "link": [bool(row.links) for row in rows.rows],
        "groups": node_groups(rows.rows, nodes),
    }


def node_groups(rows: Sequence[Row], nodes: Sequence[int]) -> list[Group]:
    """Neighbouring rows whose devices are all in one node, []
    where there is one node only. nodes: of the devices."""
    groups: list[Group] = []
    if len(set(nodes)) < 2:
        return groups
    before = -1
    for i, row in enumerate(rows):
        on = {nodes[device] for device in row.devices} if not row.links else set()
        node = on.pop() if len(on) == 1 else -1
        if node >= 0 and node == before:
            groups[-1]["to"] = i + 1
        elif node >= 0:
            groups.append({"label": f"node {node}", "from": i, "to": i + 1})
        before = node
    return groups


def usual_kind(plan: PlanView) -> RowKind:
    """Stages for a pipeline whose devices have a stage each (but for auxiliary ones), else devices."""
    stages = [stage for stage in plan["stages"] if not stage["glue"]]
    on = Counter(device for stage in stages for device in stage["devices"])
    return "stages" if is_pipelined(plan) and max(on.values(), default=0) <= 1 and can_stages(plan) else "devices"


def can_stages(plan: PlanView) -> bool:
    """Whether stages can be rows at all: not where an operator each is one."""
    most = MOST_MIXED * len(plan["devices"]) if plan["by_operator"] else MAX_STAGE_ROWS
    return len(plan["stages"]) <= most


def shows_links(plan: PlanView, wanted: str) -> bool:
    """Whether links have rows of their own. wanted: "on", "off", or "auto": where operators are scheduled
    one by one, since there a transfer is what an operator waits for, and where stages keep something on hosts."""
    usual = bool(plan["by_operator"]) or to_hosts(plan["links"])
    return bool(plan["links"]) and (wanted == "on" or (wanted != "off" and usual))


def rows_of(plan: PlanView, wanted: str, links: str = "off", bars: Bars | None = None) -> Rows:
    """The rows of a plan's view. wanted: a RowKind, or "auto" for the usual one; links: see `shows_links`;
    bars: the bars to place, if not all of the view's."""
    kind = usual_kind(plan) if wanted not in ("devices", "stages") else wanted
    given = plan["bars"] if bars is None else bars
    rows = stage_rows(plan, given) if kind == "stages" and can_stages(plan) else device_rows(plan, given)
    return _with_links(rows, plan, given) if shows_links(plan, links) else rows


def device_rows(plan: PlanView, bars: Bars) -> Rows:
    """A row for every device of the cluster."""
    phases = plan["phases"]["devices"] if is_pipelined(plan) else [None] * len(plan["devices"])
    rows = tuple(
        Row(text.short(device["name"], 12), (i,), -1, phases[i]) for i, device in enumerate(plan["devices"])
    )  # fmt: skip
    return Rows("devices", rows, tuple(bars["device"]))


def path_rows(rows: Rows, plan: PlanView) -> list[int]:
    """The row of every run of the critical path; HIDDEN where it has none."""
    return rows_along(rows, plan["path"]["device"], plan["path"]["link"])


def rows_along(rows: Rows, devices: Sequence[int], links: Sequence[int]) -> list[int]:
    """The row of every part of a way through the schedule, by the device of each and its link (-1 for compute)."""
    first: dict[int, int] = {}
    of_link: dict[int, int] = {}
    for place, row in enumerate(rows.rows):
        of_link.update((link, place) for link in row.links)
        if not row.links:
            for device in row.devices:
                first.setdefault(device, place)
    return [
        of_link[link] if link in of_link else first.get(device, HIDDEN)
        for device, link in zip(devices, links, strict=True)
    ]


def _with_links(rows: Rows, plan: PlanView, bars: Bars) -> Rows:
    """The rows with one more for each link, the busiest ones if there are many and the rest together."""
    uses = plan["links"]
    ranked = sorted(range(len(uses)), key=lambda i: (-uses[i]["busy_s"], i))
    alone = ranked if len(uses) <= MAX_LINK_ROWS else ranked[: MAX_LINK_ROWS - 1]
    rest = tuple(sorted(set(ranked) - set(alone)))
    added = [
        Row(text.short(uses[i]["label"], 16), tuple(uses[i]["senders"]) if len(uses[i]["senders"]) == 1 else (),
            links=(i,), height=LINK_HEIGHT) for i in sorted(alone)
    ]  # fmt: skip
    if rest:
        added.append(Row(f"{len(rest)} more links", (), links=rest, height=LINK_HEIGHT))
    place = {link: len(rows.rows) + n for n, row in enumerate(added) for link in row.links}
    of_bar = tuple(
        place[link] if kind == TRANSFER and link >= 0 else row
        for row, kind, link in zip(rows.of_bar, bars["kind"], bars["link"], strict=True)
    )
    return Rows(rows.kind, (*rows.rows, *added), of_bar)


def stage_rows(plan: PlanView, bars: Bars) -> Rows:
    """A row for every stage, in the order of the stage view: by depth, then from top to bottom.

    An auxiliary stage is on the row of the stage whose device it shares, which names it too, and the bars of all
    replicas but the first are hidden, since they are the same."""
    stages = plan["stages"]
    names = [device["name"] for device in plan["devices"]]
    shared = Counter(device for stage in stages for device in stage["devices"])
    pairs = [(source, target) for source, target, _, _ in plan["stage_edges"]]
    columns = stage_columns(len(stages), pairs)
    lanes = stage_lanes(columns, pairs)
    shown = [i for i, stage in enumerate(stages) if not stage["glue"]]
    shown.sort(key=lambda i: (columns[i], lanes[i]))
    row_of = {number: row for row, number in enumerate(shown)}
    for i, stage in enumerate(stages):
        if i not in row_of:
            row_of[i] = next((n for n, host in enumerate(shown) if stage["devices"][0] in stages[host]["devices"]), 0)
    piped = is_pipelined(plan)
    rows = []
    for number in shown:
        devices = stages[number]["devices"]
        alone = all(shared[d] == 1 for d in devices) or sum(devices[0] in stages[s]["devices"] for s in shown) == 1
        phases = plan["phases"]["devices"][devices[0]] if alone else plan["phases"]["stages"][number]
        here = "+".join(str(i) for i in sorted(row_of) if row_of[i] == row_of[number])
        label = f"{here} · {text.short(device_words(devices, names), 12)}"
        rows.append(Row(label, tuple(devices), number, phases if piped else None))
    return Rows("stages", tuple(rows), _of_bar(bars, stages, row_of, shown))


def _of_bar(bars: Bars, stages: Sequence[Stage], row_of: Mapping[int, int], shown: Sequence[int]) -> tuple[int, ...]:
    first = {i: stage["devices"][0] for i, stage in enumerate(stages)}
    home = {stages[number]["devices"][0]: row for row, number in reversed(list(enumerate(shown)))}
    return tuple(
        home.get(device, HIDDEN) if stage not in row_of else row_of[stage] if device == first[stage] else HIDDEN
        for device, stage in zip(bars["device"], bars["stage"], strict=True)
    )
