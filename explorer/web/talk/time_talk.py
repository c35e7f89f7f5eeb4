"""The part of a page's conversation about instants of the schedule: how it goes, and what idle devices wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.view import scene
from explorer.view.instants.played import played
from explorer.view.instants.span_words import SpanWords
from explorer.view.instants.wait_words import chain_columns, wait_told
from explorer.view.instants.waits import wait_at
from explorer.web.contract import ids
from explorer.web.parts import wait_panel
from explorer.web.redraw.picture import finite_number
from explorer.web.talk.keep_talk import KeepTalk


class TimeTalk(KeepTalk):
    """All of it is of the plan that is drawn; a page that plays has the course of it and asks nobody."""

    def _course(self, _: Mapping[str, Any]) -> None:
        """The course of the schedule on the page, to be played."""
        plan = self.plan
        if plan is None:
            return
        if plan["course"] is None:
            words = f"A schedule of {plan['spans']:,} spans is too large to be played."
            self.send({"type": "course", "course": None, "words": words})
            return
        self.send({"type": "course", "course": played(plan["course"], plan, self._operators())})

    def _waits(self, message: Mapping[str, Any]) -> None:
        """What a device waits for at an instant, in the inspector, and as a line through the schedule."""
        plan, device, at_s = self.plan, message.get("device"), finite_number(message.get("at_s"))
        if plan is None or plan["course"] is None or type(device) is not int or at_s is None:
            return
        if not 0 <= device < len(plan["devices"]) or not 0 <= at_s <= plan["span_s"]:
            return
        names = [told["name"] for told in plan["devices"]]
        wait = wait_at(plan["course"], device, at_s)
        if wait is None:
            works = plan["busy_s"][device] > 0
            self.send({"type": "say", "text": f"{names[device]} {'works then' if works else 'has no work here'}"})
            return
        told = wait_told(plan["course"], wait, SpanWords(plan["course"], names, self._operators()))
        self.selected = None
        self.send(
            {
                "type": "waits",
                "device": device,
                "path": scene.waits_scene(plan, self.rows, chain_columns(plan["course"], wait), self.until_s),
                "idle_s": [wait.start_s, wait.end_s],
                "text": told["sentence"],
                "props": {ids.INSPECTOR: {"children": wait_panel.waits(told)}},
            }
        )

    def _operators(self) -> list[str]:
        """Names of operators, where the spans of the schedule are single ones."""
        if self.plan is None or self.skeleton is None or not self.plan["by_operator"]:
            return []
        names: list[str] = self.skeleton["names"]
        return names
