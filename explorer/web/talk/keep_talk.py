"""The part of a page's conversation about plans that are kept beside each other, and how two of them differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from explorer.jobs.requests import DifferRequest, HashRequest, PlanSource
from explorer.view.cards import cards, micro_batches
from explorer.view.events import Event
from explorer.view.figures import Figures, figures
from explorer.view.timeline.phases import is_pipelined
from explorer.view.versus import is_one_question, ratio
from explorer.web.contract import ids
from explorer.web.parts import scenario_panel
from explorer.web.parts.thumbnail import thumbnail
from explorer.web.talk.what_if_talk import WhatIfTalk
from explorer.words import text
from solvers.errors import printable

MOST = 8
"""Plans kept by one page: as many as one can look over."""
MAX_NAME = 60
SHOWN_HASH = 16


@dataclass(frozen=True)
class Kept:
    """A plan that was kept. number: its name between page and server. source: where the plan is. cells: its figures as
    text, by the name of the card. figures: what is compared of it. model: of which graph it is."""

    number: int
    name: str
    source: PlanSource
    cells: Mapping[str, str]
    figures: Figures
    picture: Mapping[str, str]
    model: str


class KeepTalk(WhatIfTalk):
    """kept: the plans, the first one kept first. baseline: the number of the one that others are told against.
    compared: the number of the one whose difference from it is shown, and what that is (None while that is
    looked for)."""

    kept: tuple[Kept, ...] = ()
    baseline = 0
    numbered = 0
    compared: tuple[int, Mapping[str, Any] | None] | None = None

    # -- keeping ----------------------------------------------------------------------------------------

    def _keep(self, _: Mapping[str, Any]) -> None:
        """Keep the plan on the page."""
        source, plan, skeleton = self._source(), self.plan, self.skeleton
        if not source.known or plan is None or skeleton is None:
            self._tell_kept("There is no finished plan to keep.")
            return
        if any(one.source == source for one in self.kept):
            self._tell_kept("This plan is kept already.")
            return
        if len(self.kept) >= MOST:
            self._tell_kept(f"At most {MOST} plans are kept: leave one out first.")
            return
        self.numbered += 1
        told = {card.name: f"{card.value}" for card in cards(plan, None)}
        name = self._name(plan)
        kept = Kept(self.numbered, name, source, told, figures(plan), thumbnail(plan), skeleton["hash"])
        self.kept = (*self.kept, kept)
        if not self.baseline:
            self.baseline = self.numbered
        self.send({"type": "kept", "number": self.numbered})
        self._tell_kept()

    def _name(self, plan: Mapping[str, Any]) -> str:
        """Devices, micro-batches and planner; its time too, and then a number, where another is called so."""
        parts = [text.plural(len(plan["devices"]), "device"), plan["planner"]]
        if is_pipelined(plan):
            parts.insert(1, f"{micro_batches(plan)} micro-batches")
        taken = {one.name for one in self.kept}
        plain = ", ".join(parts)
        timed = f"{plain}, {text.seconds(plan['objective_s'])}"
        return next(name for name in (plain, timed, f"{timed} ({self.numbered})") if name not in taken)

    def _forget(self, message: Mapping[str, Any]) -> None:
        one = self._kept_one(message)
        if one is None:
            return
        self.kept = tuple(other for other in self.kept if other is not one)
        if self.baseline == one.number:
            self.baseline = self.kept[0].number if self.kept else 0
            self.compared = None
        if self.compared is not None and self.compared[0] == one.number:
            self.compared = None
        self._tell_kept()

    def _rename(self, message: Mapping[str, Any]) -> None:
        one, name = self._kept_one(message), message.get("name")
        if one is None or not isinstance(name, str):
            return
        plain = " ".join(printable(name).split())[:MAX_NAME] or one.name
        self.kept = tuple(replace(other, name=plain) if other is one else other for other in self.kept)

    def _as_baseline(self, message: Mapping[str, Any]) -> None:
        one = self._kept_one(message)
        if one is not None:
            self.baseline, self.compared = one.number, None
            self._tell_kept()

    # -- how two differ ---------------------------------------------------------------------------------

    def _differ(self, message: Mapping[str, Any]) -> None:
        """Tell how a kept plan differs from the baseline, and show it on the graph."""
        one, base = self._kept_one(message), self._base()
        if one is None or base is None or one is base:
            return
        self.compared = one.number, None
        self._tell_kept("Comparing …")

        def then(event: Event) -> None:
            if self.compared is None or self.compared[0] != one.number:
                return
            if event["kind"] == "failed":
                self.compared = None
                self._tell_kept(event["message"])
                return
            self.compared = one.number, event["told"]
            self._tell_kept()
            self._mark_moved(base, one, event["told"])

        self._aside(DifferRequest(base.source, one.source), then)

    def _mark_moved(self, base: Kept, one: Kept, told: Mapping[str, Any]) -> None:
        """The boxes with operators that moved, bright in the graph."""
        if self.view is None or self.skeleton is None or not self.skeleton["hash"] == base.model == one.model:
            return
        gone = set(told["elsewhere"])
        boxes = [name for name, inside in self.view.boxes.items() if any(i in gone for i in inside)]
        self.send({"type": "moved", "boxes": boxes})

    def _kept_one(self, message: Mapping[str, Any]) -> Kept | None:
        element = message.get("element")
        if not isinstance(element, str) or not re.fullmatch("[0-9]{1,6}", element):
            return None
        return next((one for one in self.kept if one.number == int(element)), None)

    def _base(self) -> Kept | None:
        return next((one for one in self.kept if one.number == self.baseline), None)

    def _open(self, message: Mapping[str, Any]) -> None:
        super()._open(message)
        if "scenarios" in self.open:
            self._tell_kept()

    def _tell_kept(self, words: str = "") -> None:
        base = self._base()
        rows = [
            {
                "number": one.number,
                "name": one.name,
                "cells": one.cells,
                "picture": one.picture[self.theme],
                "baseline": one is base,
                "against": None if base is None or one is base else ratio(one.figures, base.figures),
                "asked_alike": base is not None and is_one_question(one.figures, base.figures),
                "shown": one.source == self._source(),
            }
            for one in self.kept
        ]
        told = self.compared[1] if self.compared is not None else None
        names = (base.name if base else "", next((k.name for k in self.kept if self._is_compared(k)), ""))
        children = scenario_panel.scenarios(rows, told, names, words)
        self.send({"type": "props", "props": {ids.SCENARIOS: {"children": children}}})

    def _theme(self, message: Mapping[str, Any]) -> None:
        super()._theme(message)
        if "scenarios" in self.open:
            self._tell_kept()

    def _is_compared(self, one: Kept) -> bool:
        return self.compared is not None and self.compared[0] == one.number

    def _new_plan(self) -> None:
        super()._new_plan()
        if "scenarios" in self.open:
            self._tell_kept()

    # -- a link says which plan it showed -------------------------------------------------------------------

    def _hashed(self, then: Callable[[str], None]) -> None:
        """Find the hash of the plan on the page; "" if it has none."""
        source, turn = self._source(), self.turn
        if not source.known or not self.current:
            then("")
            return

        def hear(event: Event) -> None:
            if self.turn == turn:
                then(event["told"]["sha256"][:SHOWN_HASH] if event["kind"] == "told" else "")

        if not self._aside(HashRequest(source), hear):
            then("")

    def _share(self, _: Mapping[str, Any]) -> None:
        self._hashed(lambda found: self.send({"type": "shared", "plan": found}))

    def _same(self, message: Mapping[str, Any]) -> None:
        """Whether the plan on the page is the one that a link was made of."""
        wanted = message.get("plan")
        if not isinstance(wanted, str) or not re.fullmatch(f"[0-9a-f]{{{SHOWN_HASH}}}", wanted):
            return

        def told(found: str) -> None:
            if found:
                self.send({"type": "same", "same": found == wanted, "found": found, "wanted": wanted})

        self._hashed(told)
