"""The part of a page's conversation that asks what else there could be: single changes, and sweeps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from explorer.jobs.requests import HelpRequest, SolveRequest, SweepRequest
from explorer.question.written.kinds import MAX_DEVICES
from explorer.sweeps.ranges import SWEPT
from explorer.view.events import Event, unpacked_plan
from explorer.view.session import parse, to_dict
from explorer.web.contract import ids
from explorer.web.parts import help_panel
from explorer.web.talk.pin_talk import PinTalk
from explorer.words import text
from solvers.search.effort import Effort

QUICK_LIMIT_S = 15.0
"""For each search: it only guards."""
CONTROL = {
    "devices": "devices",
    "memory_bytes": "memory",
    "micro_batches": "micro_batches",
    "bandwidth_bytes_per_s": "bandwidth",
}
"""What a page calls the axes of a sweep."""


class WhatIfTalk(PinTalk):
    """helping, sweeping: the turn of the job that goes on, or 0. helped and help_of: the answers so far, and how many
    there will be. swept: axis, values, words and rows of the last sweep."""

    helping = 0
    sweeping = 0
    help_of: int | None = None
    helped: tuple[Mapping[str, Any], ...] = ()
    swept: Mapping[str, Any] | None = None

    def _quick(self) -> SolveRequest | None:
        """The question of the page, to be asked in variants at quick effort."""
        session = self.session
        if session is None:
            return None
        return SolveRequest(
            self._model_of(session), session.settings, session.planner, min(session.time_limit_s, QUICK_LIMIT_S),
            seed=session.seed, effort=Effort.QUICK, files=self._files_of(session),
        )  # fmt: skip

    def _drop_what_if(self) -> None:
        """The question changes: what is still tried is of another one."""
        for turn in (self.helping, self.sweeping):
            self._drop_aside(turn)
        if self.sweeping:
            self.sweeping = 0
            self._tell_sweep("Stopped: the question has changed.")
        self.helping, self.help_of, self.helped = 0, None, ()
        self.send({"type": "props", "props": {ids.HELP: {"children": []}}})

    def _aside_waits(self, turn: int, words: str) -> None:
        if turn == self.sweeping:
            self._tell_sweep(f"Waiting, {words}.")
        elif turn == self.helping:
            self._tell_help(f"Waiting, {words}.")

    # -- single changes -------------------------------------------------------------------------------

    def _new_plan(self) -> None:
        super()._new_plan()
        if not self.helping:
            self.help_of, self.helped = None, ()
            self._tell_help()

    def _help(self, _: Mapping[str, Any]) -> None:
        ask, plan = self._quick(), self._source()
        if ask is None or not plan.known or not self.current or self.helping or self.answered is None:
            return
        self.helped = ()
        self.helping = self._aside(HelpRequest(ask, plan, min(16, MAX_DEVICES)), self._on_help)
        self._tell_help()

    def _on_help(self, event: Event) -> None:
        words = ""
        if event["kind"] == "part":
            if "of" in event["part"]:
                self.help_of = event["part"]["of"]
            else:
                self.helped = (*self.helped, event["part"])
        else:
            self.helping = 0
            words = event["message"] if event["kind"] == "failed" else ""
        self._tell_help(words)

    def _stop_help(self, _: Mapping[str, Any]) -> None:
        self._drop_aside(self.helping)
        self.helping = 0
        self._tell_help()

    def _go_help(self, message: Mapping[str, Any]) -> None:
        """Put the plan that was found for a change on the page, and the change into its controls."""
        place = _place(message, len(self.helped))
        one = self.helped[place] if place is not None else None
        if one is None or one["answer"] is None or self.session is None:
            return
        session = parse({**to_dict(self.session), **one["controls"]}, self._known())
        if self.job is not None:
            self.backend.cancel(self.job)
        self._drop_what_if()
        self.turn = next(self.turns)
        answer = {**unpacked_plan(one["answer"]), "searched": f"{Effort.QUICK.value} search"}
        self._show(replace(session, look=self.look), answer, one["controls"])

    def _tell_help(self, words: str = "") -> None:
        can = self._source().known and self.current and self.answered is not None
        children = help_panel.helps(self.helped, self.help_of, bool(self.helping), words) if can else []
        self.send({"type": "props", "props": {ids.HELP: {"children": children}}})

    # -- sweeps ---------------------------------------------------------------------------------------

    def _sweep(self, message: Mapping[str, Any]) -> None:
        axis, ask = message.get("axis"), self._quick()
        if axis not in SWEPT or ask is None or self.sweeping or self.job is not None:
            return
        self.swept = {"axis": str(axis), "values": [], "words": [], "rows": []}
        self.sweeping = self._aside(SweepRequest(ask, str(axis)), self._on_sweep)
        self._tell_sweep("Solving …")

    def _on_sweep(self, event: Event) -> None:
        swept = self.swept
        assert swept is not None
        if event["kind"] == "part":
            part = event["part"]
            rows = [*swept["rows"], part["row"]] if "row" in part else swept["rows"]
            self.swept = swept = {**swept, **part, "rows": rows}
            done, of = len(swept["rows"]), len(swept["values"])
            self._tell_sweep(f"Solving {min(done + 1, of)} of {of} …")
            return
        self.sweeping = 0
        plans = sum(row["objective_s"] is not None for row in swept["rows"])
        words = f"{text.plural(plans, 'plan')}, quick searches. A click on one asks it at the page's effort."
        self._tell_sweep(event["message"] if event["kind"] == "failed" else words)

    def _stop_sweep(self, _: Mapping[str, Any]) -> None:
        self._drop_aside(self.sweeping)
        self.sweeping = 0
        self._tell_sweep("Stopped.")

    def _go_sweep(self, message: Mapping[str, Any]) -> None:
        swept = self.swept
        place = _place(message, len(swept["values"])) if swept else None
        if swept and place is not None:
            self.send({"type": "go", "controls": {CONTROL[swept["axis"]]: swept["values"][place]}})

    def _tell_sweep(self, words: str) -> None:
        rows = self.swept["rows"] if self.swept is not None else []
        times = [text.seconds(row["objective_s"]) for row in rows]
        shown = [
            {
                "objective_s": row["objective_s"],
                "bound_s": row["bound_s"] or None,
                "text": told,
                "status": text.words(row["status"]),
                "reason": text.short(row["reason"], 160),
            }
            for row, told in zip(rows, times, strict=True)
        ]
        message = {"type": "sweep", "going": bool(self.sweeping), "words": words, "points": shown}
        if self.swept is not None:
            message |= {"axis": self.swept["axis"], "values": self.swept["values"], "labels": self.swept["words"]}
        self.send(message)


def _place(message: Mapping[str, Any], among: int) -> int | None:
    """A position that a page sent."""
    element = message.get("element")
    if not isinstance(element, str) or not re.fullmatch("[0-9]{1,3}", element) or int(element) >= among:
        return None
    return int(element)
