"""The part of a page's conversation that asks why what is selected is where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.jobs.requests import PlanSource, WhyHereRequest
from explorer.view.events import Event
from explorer.web.contract import ids
from explorer.web.parts import why_here_panel
from explorer.web.talk.time_talk import TimeTalk

QUICK_S = 0.3
"""An answer that took less is given for the next selection without being asked for."""

Asked = tuple[tuple[str, str], PlanSource]
"""What is selected, and the plan: an answer is shown for both or not at all."""


class WhyHereTalk(TimeTalk):
    """trying: the turn of the job that goes on, or 0. tried_of: what it is about; tried, places_of, along: its answers
    so far. quick: whether the last one was there at once."""

    trying = 0
    tried_of: Asked | None = None
    tried: tuple[Mapping[str, Any], ...] = ()
    places_of: int | None = None
    along = 0
    quick = False
    tried_words = ""

    def _why_here(self, _: Mapping[str, Any]) -> None:
        """Try what is selected at every other place."""
        about, found = self._about(), self._members()
        if about is None or not found or (self.trying and self.tried_of == about):
            return
        self._drop_trying()
        self.tried_of, self.tried, self.places_of, self.along, self.tried_words = about, (), None, 0, ""
        self.trying = self._aside(WhyHereRequest(about[1], tuple(sorted(found))), self._on_tried)
        if not self.trying:
            self.tried_words = "Too much is being asked at once: try again in a moment."
        self._inspect()

    def _on_tried(self, event: Event) -> None:
        if event["kind"] == "part":
            part = event["part"]
            if "of" in part:
                self.places_of, self.along = part["of"], part["along"]
            else:
                self.tried = (*self.tried, part["move"])
                if self.quick and len(self.tried) < (self.places_of or 0):
                    return  # all of it is there in a moment
        else:
            self.trying = 0
            if event["kind"] == "failed":
                self.tried_words, self.quick = event["message"], False
            else:
                self.quick = event["told"]["took_s"] < QUICK_S
        if self.tried_of == self._about():
            self._inspect()
            if not self.trying:
                self.send({"type": "say", "text": why_here_panel.spoken(self.tried, self.tried_words)})

    def _stop_why_here(self, _: Mapping[str, Any]) -> None:
        self._drop_trying()
        self.tried_words = "Stopped."
        self._inspect()

    def _drop_trying(self) -> None:
        self._drop_aside(self.trying)
        self.trying = 0

    def _drop_what_if(self) -> None:
        super()._drop_what_if()
        self._drop_trying()
        self.tried_of, self.quick = None, False

    def _new_plan(self) -> None:
        super()._new_plan()
        if self.tried_of is not None and self.tried_of != self._about():
            self._drop_trying()
            self.tried_of, self.quick = None, False

    def _select(self, message: Mapping[str, Any]) -> None:
        super()._select(message)
        if self.trying and self.tried_of != self._about():
            self._drop_trying()
            self.tried_of = None
        if self.quick and self.tried_of != self._about():
            self._why_here({})

    def _about(self) -> Asked | None:
        source = self._source()
        if self.selected is None or self.selected[0] == "device" or not source.known or not self.current:
            return None
        return self.selected, source

    def _inspector(self) -> dict[str, Any]:
        """With what the selection would cost elsewhere, as far as that is known."""
        props = super()._inspector()
        about = self._about()
        if about is None or not self._members():
            return props
        asked = self.tried_of == about
        told = self.tried if asked else ()
        panel = why_here_panel.why_here(
            told, self.places_of, self.along, asked and bool(self.trying), self.tried_words if asked else "", asked
        )
        props[ids.INSPECTOR]["children"] += [panel]
        return props
