"""What a widget draws: a model's graph at some level of detail, a plan over it, and what is selected. Plain values in,
plain values out; no browser and no solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from explorer.notebook.selection import Selection
from explorer.view import scene
from explorer.view.cards import cards
from explorer.view.figures import Figures
from explorer.view.graph.elements import GraphView, depths, expanded_to, graph_view, opened_for
from explorer.view.graph.find import Matches, find
from explorer.view.graph.inspect import Facts, box_facts, box_words, device_facts, operator_facts
from explorer.view.graph.node_data import NodeData, box_values
from explorer.view.graph.opening import first_view
from explorer.view.graph.palette import Theme
from explorer.view.graph.skeleton import skeleton
from explorer.view.graph.stage_boxes import stage_facts
from explorer.view.graph.stylesheet import stylesheet
from explorer.view.instants.played import SpanWords, played
from explorer.view.instants.waits import chain_columns, wait_at, wait_view
from explorer.view.plan_types import PlanView
from explorer.view.session import Look
from explorer.view.timeline import charts, why
from explorer.view.timeline.order import order_words
from explorer.view.timeline.sentence import legend_kinds, sentence
from explorer.words import text
from solvers.formats.workload import Workload

ASPECT = 0.85
USUAL_HEIGHT = 500.0
"""Width over height of the graph's frame, about, until a browser says."""
NOTHING: dict[str, object] = {}


class Showing:
    """skeleton: of the model; view: its boxes; plan: a plan's view, or None; look: how the schedule is drawn."""

    def __init__(self, workload: Workload) -> None:
        self.theme: Theme = "light"
        self.look = Look()
        self.plan: PlanView | None = None
        self.canvas: tuple[float, float] | None = None
        self.values: NodeData | None = None
        self._drawn = 0
        self.show_model(workload)

    def show_model(self, workload: Workload) -> None:
        """Another graph: no plan is shown over it yet."""
        self.skeleton = skeleton(workload)
        self.plan = None
        self._opened = first_view(self.skeleton, self.canvas)
        self.view: GraphView = self._arranged(self._opened)

    def show_plan(self, plan: PlanView | None) -> None:
        """Another plan over the graph; None takes away what is there."""
        self.plan = plan
        self._drawn += 1

    def _arranged(self, expanded: frozenset[str]) -> GraphView:
        width, height = self.canvas or (ASPECT * USUAL_HEIGHT, USUAL_HEIGHT)
        return graph_view(self.skeleton, expanded, width / height, height)

    def known(self, element: str) -> str | None:
        """What a click on a box would tell, in a line."""
        return box_words(element, self.view, self.skeleton, self.plan)

    def fit(self, width: float, height: float) -> None:
        """The graph in a frame of so many pixels: what somebody opened stays open, else as much as can be read."""
        self.canvas = (width, height)
        if self.view.expanded == self._opened:
            self._opened = first_view(self.skeleton, self.canvas)
            self.view = self._arranged(self._opened)
        else:
            self.view = self._arranged(self.view.expanded)

    def expand(self, element: str) -> None:
        """A box comes apart, or those around a hidden operator do; one that cannot is left as it is."""
        expanded = opened_for(self.view, self.skeleton, element)
        if expanded is not None:
            self.view = self._arranged(expanded)

    def collapse(self, element: str) -> None:
        """A module is one box again."""
        path = element[2:]
        if path in self.view.expanded:
            below = path + "."
            remaining = {p for p in self.view.expanded if p != path and not p.startswith(below)}
            self.view = self._arranged(frozenset(remaining))

    def deepen(self, step: int) -> None:
        """One level of modules more (1) or fewer (-1)."""
        wanted = min(max(1, self.view.depth + step), depths(self.skeleton))
        self.view = self._arranged(expanded_to(self.skeleton, wanted))

    # -- what the browser draws ----------------------------------------------------------------------

    def model(self) -> dict[str, str]:
        """name, detail ("787 operators · 410 M parameters") and title."""
        skeleton = self.skeleton
        parameters = f" · {text.large(skeleton['parameters'])} parameters" if skeleton["parameters"] else ""
        name = text.short(skeleton["reference"].rsplit("/", 1)[-1] or skeleton["name"], 40)
        return {
            "name": name,
            "detail": text.plural(skeleton["operators"], "operator") + parameters,
            "title": f"{skeleton['reference']}; costs {skeleton['costs_from']}",
        }

    def graph(self) -> dict[str, object]:
        return {**scene.graph_scene(self.view, self.skeleton), "style": stylesheet(self.theme)}

    def overlay(self) -> dict[str, object]:
        if self.plan is None:
            return NOTHING
        own = box_values(self.view, self.skeleton, self.values, self.theme) if self.values is not None else None
        return {**scene.overlay_scene(self.view, self.skeleton, self.plan), "values": own}

    def picture(self, before: Figures | None, turn: int) -> dict[str, object]:
        """All that stands around the plan, too. turn: of the question that it answers; drawn: which plan, whatever
        is drawn of it."""
        plan = self.plan
        if plan is None:
            return NOTHING
        return {
            **scene.schedule_scene(self.skeleton, plan, self.theme, self.look),
            "turn": turn,
            "drawn": self._drawn,
            "cards": [asdict(card) for card in cards(plan, before)],
            "why": why.explain(plan),
            "order": order_words(plan)[0],
            "legend": legend_kinds(plan),
            "story": sentence(plan),
            "device_rows": charts.device_rows(plan),
        }

    def window(self, start: float, end: float) -> Mapping[str, object]:
        """Bars of a part of the schedule, in the unit of its axis."""
        if self.plan is None:
            return NOTHING
        span_s = self.plan["span_s"]
        return scene.window_scene(self.skeleton, self.plan, self.theme, self.look, (start, end), span_s)

    def course(self) -> dict[str, object]:
        """The course of the schedule, for whoever plays it, or None with the reason in words."""
        plan = self.plan
        if plan is None or plan["course"] is None:
            spans = 0 if plan is None else plan["spans"]
            return {"course": None, "words": f"A schedule of {spans:,} spans is too large to be played."}
        return {"course": played(plan["course"], plan, self._operators(plan)), "words": ""}

    def waits(self, device: int, at_s: float) -> dict[str, object]:
        """What a device waits for at an instant: text, and, where it idles, the chain that it waits for."""
        plan = self.plan
        if plan is None or plan["course"] is None or device >= len(plan["devices"]) or not 0 <= at_s <= plan["span_s"]:
            return {"text": ""}
        names = [one["name"] for one in plan["devices"]]
        wait = wait_at(plan["course"], device, at_s)
        if wait is None:
            return {"text": f"{names[device]} {'works then' if plan['busy_s'][device] > 0 else 'has no work here'}"}
        view = wait_view(plan["course"], wait, SpanWords(plan["course"], names, self._operators(plan)))
        chain = chain_columns(plan["course"], wait)
        return {
            "text": view["sentence"],
            "device": device,
            "idle_s": (wait.start_s, wait.end_s),
            "path": scene.waits_scene(plan, self.look, chain, plan["span_s"]),
            "wait": {**view, "steps": [{**step, "took": text.seconds(step["seconds"])} for step in view["steps"]]},
        }

    def _operators(self, plan: PlanView) -> list[str]:
        """Names of operators, where the spans of the schedule are single ones."""
        return self.skeleton["names"] if plan["by_operator"] else []

    def matches(self, wanted: str) -> Matches:
        return find(self.skeleton, self.plan, wanted)

    def selected(self, selection: Selection | None, pins: Mapping[str, int]) -> dict[str, object]:
        """kind and id as in the browser; boxes and spans (a column and its values) that are bright; facts."""
        if selection is None:
            return NOTHING
        plan = self.plan
        index = {name: i for i, name in enumerate(self.skeleton["names"])}
        members = {index[name] for name in selection.operators if name in index}
        anchors = self.skeleton["anchors"]
        whole = [i for i, anchor in enumerate(anchors) if anchor in members]
        boxes = list(dict.fromkeys(self.view.owner[i] for i in whole))
        column, values = "key", sorted(members)
        kind, which = "box", boxes[0] if len(boxes) == 1 else ""
        facts: Facts | None = None
        if selection.kind in ("stage", "device") and plan is not None:
            kind = column = selection.kind
            number = selection.devices[0] if kind == "device" else int(selection.name.removeprefix("stage "))
            which, values = str(number), [number]
            facts = device_facts(number, plan) if kind == "device" else stage_facts(number, plan)
        elif plan is not None and not plan["by_operator"]:
            values = sorted({plan["stage_of"][i] for i in whole})
        elif plan is not None and selection.kind == "operator" and members:
            facts = operator_facts(min(members), self.skeleton, plan)
        if facts is None and which and kind == "box":
            facts = box_facts(which, self.view, self.skeleton, plan)
        if facts is None:
            facts = Facts(selection.name, (), (("Operators", text.count(len(members))),))
        return {
            "kind": kind,
            "id": which,
            "boxes": boxes,
            "column": column,
            "values": values,
            "facts": asdict(facts),
            "can_pin": bool(members) and plan is not None,
            "pinned": pins.get(selection.name),
            "devices": [] if plan is None else [device["name"] for device in plan["devices"]],
        }
