"""The part of a page's conversation about the plan that is on it: taken away, looked over, beside others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from explorer.exports.formats import FORMATS, format_named
from explorer.jobs.requests import About, ExportRequest, LeanRequest, PlanSource, ReviewRequest
from explorer.view.events import LAST, Event, before_you
from explorer.view.session import Choices
from explorer.web.contract import ids
from explorer.web.contract.backend import Backend
from explorer.web.parts import beside_panel, review_panel
from explorer.web.redraw.picture import Message
from explorer.web.talk.open_talk import OpenTalk
from explorer.web.talk.outlet import Outlet, OwnedOutlet, Taken
from explorer.web.talk.runs import Runs
from explorer.web.talk.shelf import Shelf, safe_name

MOST_ASIDES = 8
"""Jobs about plans that one page may have waiting."""
REPORT = "report-html"
NEAREST = "+nearest"
"""After the name of a format: with whole modules, where it has no others."""


class PlanTalk(OpenTalk):
    """asides: what is done with the events of jobs about plans, by their turn. reviewed: the plan that the review tab
    tells of, and what it says (None while that is found out). answer: the finished search whose front is shown beside
    the plan, and which of it is on the page (None: the answer itself)."""

    def __init__(
        self,
        backend: Backend,
        choices: Choices,
        send: Callable[[Message], None],
        deliver: Callable[[int, Event], None],
        runs: Runs | None = None,
        shelf: Shelf | None = None,
        outlet: OwnedOutlet | None = None,
    ) -> None:
        super().__init__(backend, choices, send, deliver, runs, shelf)
        self.outlet = Outlet().of("") if outlet is None else outlet
        self.asides: dict[int, tuple[str, Callable[[Event], None]]] = {}
        self.reviewed: tuple[PlanSource, Mapping[str, Any] | None] | None = None
        self.answer: tuple[Event, int | None] | None = None

    # -- jobs beside the search ---------------------------------------------------------------------

    def _aside(self, request: About, then: Callable[[Event], None]) -> int:
        """Ask for something about plans; ``then`` hears its events. Returns its turn, 0 if too many wait already."""
        if len(self.asides) >= MOST_ASIDES:
            return 0
        turn = next(self.turns)
        self.asides[turn] = self.backend.about(request, lambda event: self.deliver(turn, event)), then
        return turn

    def _drop_aside(self, turn: int) -> None:
        """Nobody waits for it any more."""
        found = self.asides.pop(turn, None)
        if found is not None:
            self.backend.cancel(found[0])

    def _on_aside(self, turn: int, event: Event) -> bool:
        """Whether an event was about plans that are there."""
        found = self.asides.get(turn)
        if found is None:
            return False
        if event["kind"] in LAST:
            del self.asides[turn]
        if event["kind"] == "waiting":
            self._aside_waits(turn, before_you(event))
        elif event["kind"] not in ("compiling", "loading"):
            found[1](event)
        return True

    def _aside_waits(self, turn: int, words: str) -> None:
        """A job beside the search has not begun."""

    def close_asides(self) -> None:
        """The page is gone."""
        for turn in tuple(self.asides):
            self._drop_aside(turn)

    # -- the plan on the page -------------------------------------------------------------------------

    def _source(self) -> PlanSource:
        """Where the plan on the page is; one that is not known if there is none that is finished."""
        if self.plan is None or self.job is not None:
            return PlanSource()
        held = self._held()
        return PlanSource(self.runs.text(held) if held else None, str(self.plan.get("source") or ""), held)

    def _tell_taking(self) -> None:
        """Whether the plan on the page can be taken away, and why not."""
        why = ""
        if self.job is not None or self.plan is None:
            why = "A search goes on: there is nothing to export until it ends." if self.job else "There is no plan yet."
        elif not self._source().known:
            why = "The search was cut off before this plan was finished: solve again."
        elif not self.current:
            why = "Of an earlier question: what is asked now has no plan."
        self.send({"type": "taking", "can": self._source().known, "why": why})

    def _unanswered(self) -> None:
        super()._unanswered()
        self.send({"type": "taking", "can": False, "why": "A search goes on: export when it ends."})

    def _stand(self, state: str, what: str, more: str, query: str | None = None) -> None:
        self._tell_taking()
        super()._stand(state, what, more, query)

    # -- take it away ---------------------------------------------------------------------------------

    def _export(self, message: Mapping[str, Any]) -> None:
        """Write the plan on the page in a format ("megatron", or with whole modules "megatron+nearest"), then tell the
        page where to fetch it."""
        element = message.get("element")
        source = self._source()
        if not isinstance(element, str) or not source.known:
            return
        to = element.removesuffix(NEAREST)
        if to not in FORMATS:
            return
        nearest = to != element
        self.send({"type": "taking", "can": True, "why": f"Writing {format_named(to).name} …", "busy": True})
        self._aside(ExportRequest(source, to, self.theme, nearest), lambda event: self._exported(event, to, nearest))

    def _exported(self, event: Event, to: str, nearest: bool) -> None:
        if event["kind"] == "failed":
            why, hint, _ = event["message"].partition(" (--nearest ")
            told = {"type": "taking", "can": True, "why": f"{to}: {why}." if FORMATS[to].launches else why, "bad": True}
            self.send(told | ({"nearest": to + NEAREST} if hint and not nearest else {}))
            return
        told = event["told"]
        stem = re.sub(r"(\.(json|pt2|txt|plan|gz))+$", "", safe_name(told["of"].rpartition(":")[2])) or "plan"
        what = told["to"].removesuffix("-" + told["ending"][1:])
        name = f"{stem}.{what}{told['ending']}"
        place = self.outlet.put(Taken(name, told["media_type"], told["data"]))
        lines = [f"Changed: {line}" for line in told["changed"]] + [f"Not said: {line}" for line in told["lost"]]
        self.send({"type": "take", "href": place, "name": name, "stay": bool(lines)})
        if lines:
            self.send({"type": "taking", "can": True, "why": f"{name} is written.", "lines": lines})
        else:
            self._tell_taking()

    # -- look it over ---------------------------------------------------------------------------------

    def _open(self, message: Mapping[str, Any]) -> None:
        super()._open(message)
        self._review()

    def _review(self) -> None:
        """Look the plan on the page over, if somebody looks at the tab, and tell how that stands."""
        if "review" not in self.open:
            return
        source = self._source()
        if not source.known:
            self.reviewed = None
            self._tell_review("There is no finished plan to review.")
            return
        if self.reviewed is not None and self.reviewed[0] == source:
            self._tell_review()
            return
        self.reviewed = source, None
        self._tell_review("Looking it over …")

        def then(event: Event) -> None:
            if self.reviewed is None or self.reviewed[0] != source:
                return
            if event["kind"] == "failed":
                self.reviewed = None
                self._tell_review(event["message"])
                return
            self.reviewed = source, event["told"]
            self._tell_review()

        self._aside(ReviewRequest(source), then)

    def _tell_review(self, words: str = "") -> None:
        told = self.reviewed[1] if self.reviewed is not None else None
        self.send({"type": "props", "props": {ids.REVIEW: {"children": review_panel.review(told, words)}}})

    # -- what was found beside it -----------------------------------------------------------------------

    def _new_plan(self) -> None:
        super()._new_plan()
        self._review()

    def _around(self) -> dict[str, Any]:
        """Beside the plan that is drawn stands what its search found besides, or nothing."""
        plan = self.plan or {}
        if self.answer is not None and plan.get("beside") != self.answer[0]["plan"].get("held"):
            self.answer = None
        if self.answered is not None and plan.get("front"):
            self.answer = self.answered, None
        return super()._around() | {ids.BESIDE: {"children": self._beside_it()}}

    def _beside_it(self, words: str = "") -> list[Any]:
        if self.answer is None:
            return []
        return beside_panel.beside(self.answer[0]["plan"], self.answer[1], words)

    def _show_lean(self, message: Mapping[str, Any]) -> None:
        """A plan beside the answer on the page, in place of the picture only; or the answer again."""
        element = message.get("element")
        if self.answer is None or self.job is not None or not isinstance(element, str):
            return
        answer = self.answer[0]
        if element == "answer":
            self._lay(answer, None)
            return
        front = answer["plan"]["front"]
        if not re.fullmatch("[0-9]{1,2}", element) or int(element) >= len(front):
            return
        position, turn = int(element), self.turn

        def then(event: Event) -> None:
            if self.turn != turn:
                return
            if event["kind"] == "failed":
                self.send({"type": "props", "props": {ids.BESIDE: {"children": self._beside_it(event["message"])}}})
                return
            plan = {**event["told"]["plan"], "beside": answer["plan"]["held"]}
            self._lay({**answer, "plan": plan, "status": "FEASIBLE"}, position)

        self._aside(LeanRequest(PlanSource(held=answer["plan"]["held"]), position), then)

    def _lay(self, event: Event, position: int | None) -> None:
        """A plan of the answer's search on the page."""
        assert self.answer is not None
        answer = self.answer[0]
        self.turn = next(self.turns)
        self.earlier = self.shown
        self.answer = answer, position
        self._result(event)
