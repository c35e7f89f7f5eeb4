"""The part of a page's conversation that is about two plans of one question."""

from __future__ import annotations

import itertools
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from explorer.jobs.requests import Files
from explorer.view.events import Event
from explorer.view.figures import Figures
from explorer.view.session import PAIR, Choices, Session, member, parse_look, to_query
from explorer.view.timeline.sentence import sentence
from explorer.web.contract import ids
from explorer.web.contract.backend import Backend
from explorer.web.redraw.pairing import asking, pair_question
from explorer.web.redraw.picture import Message, Picture
from explorer.web.talk import pair_panel
from explorer.words import text


class PairTalk(Picture):
    """A picture with a backend: it asks for the plans of a pair that are missing, and shows one of them.

    standing: state, word and more of the status that stays until there is another plan. answered: the
    ``result`` event of the plan on the page. alone: session and answer from before there was a pair, to go back to.
    said: the newest status; said_before: the one before kernels were compiled, while they are.
    """

    def __init__(
        self,
        backend: Backend,
        choices: Choices,
        send: Callable[[Message], None],
        deliver: Callable[[int, Event], None],
    ) -> None:
        super().__init__(send)
        self.backend, self.choices, self.deliver = backend, choices, deliver
        self.job: str | None = None
        self.turns = itertools.count(1)
        self.shown: Figures | None = None
        self.standing = ("none", "no plan", "")
        self.said: Message | None = None
        self.said_before: Message | None = None
        self.wants_pair = False
        self.answered: Event | None = None
        self.alone: tuple[Session, Event] | None = None

    # -- from the browser -----------------------------------------------------------------------

    def _view(self, message: Mapping[str, Any]) -> None:
        """What to draw: the graph's boxes, the schedule's rows, a pair of planners."""
        before = self.look
        self.look = parse_look(message, self.choices, before)
        if self.look == before:
            return
        if self.session is not None:
            self.session = replace(self.session, look=self.look)
            self._tell_query()
        if self.look.pair != before.pair:
            self.wants_pair = bool(self.look.pair)
            self.pairing.tried = frozenset()
            self._follow()
            self._tell_pair()
        if (self.look.rows, self.look.links, self.look.times) != (before.rows, before.links, before.times):
            self._draw("rows")
        elif self.look.colour != before.colour:
            self.send({"type": "props", "props": self._tables() | self._inspector()})

    def _pair(self, _: Mapping[str, Any]) -> None:
        """Show the usual pair."""
        if self.answered is not None and self.drawn is not None and not self.look.pair:
            self.alone = self.drawn, self.answered
        self._view({"pair": ",".join(PAIR)})

    def _unpair(self, _: Mapping[str, Any]) -> None:
        self._stop_pairing()
        self._view({"pair": "none"})
        alone, self.alone = self.alone, None
        session = self.session
        if alone is None or session is None or member(session.planner, session.settings) == member(
            alone[0].planner, alone[0].settings
        ):  # fmt: skip
            self._draw("pair")
            return
        before, answer = alone
        if pair_question(before) == pair_question(session):
            self._drop_search()
            self._show(replace(before, look=session.look, theme=session.theme), answer)
        else:  # of other settings by now: the planner that was chosen before is asked
            in_sequence = before.settings.in_sequence
            self.send({"type": "choose", "planner": before.planner, "in_sequence": in_sequence})

    def _show_pair(self, message: Mapping[str, Any]) -> None:
        """Put the plan of one of the pair on the page, as if its planner had been asked for it."""
        element = message.get("element")
        if self.session is None or not isinstance(element, str) or not re.fullmatch("[01]", element):
            return
        answers = self.pairing.answers(self.session)
        answer = answers[int(element)] if len(answers) == 2 else None
        if answer is None or answer.plan is None or self.skeleton is None or answer.model != self.skeleton["hash"]:
            return
        self._drop_search()
        self._show(asking(self.session, answer.member), self.pairing.result(answer))

    def _drop_search(self) -> None:
        """What the page's search finds from now on is of no use."""
        if self.job is not None:
            self.backend.cancel(self.job)
            self.job = None
        self.turn = next(self.turns)

    def _show(self, session: Session, event: Event, moved: Mapping[str, Any] | None = None) -> None:
        """A plan that is known already, with the session that it answers. moved: the settings that this one has anew
        beside those of the planner, by the names of `explorer.view.session.to_dict`."""
        self.session = session
        self.earlier, self.asked_at = self.shown, time.perf_counter()
        settings = session.settings
        contiguity = settings.contiguity.value if settings.contiguity else "auto"
        adopted = {"planner": session.planner, "contiguity": contiguity, "in_sequence": settings.in_sequence}
        self.send({"type": "adopt", "turn": self.turn, "controls": adopted | dict(moved or {})})
        self._result(event, to_query(session))

    # -- asking for what is missing ---------------------------------------------------------------

    def _follow(self) -> None:
        """Ask for the plans that the pair lacks, if they are wanted, and say how it stands."""
        session = self.session
        if self._of_pair() and session is not None and self.answered is not None and self.skeleton is not None:
            self.pairing.add_result(session, self.answered, self.skeleton["hash"])
        if session is not None and session.look.pair and self.job is None and self.pairing.job is None:
            wanted = self.wants_pair or self._of_pair() is not None
            if wanted and self.skeleton is not None and self.pairing.missing(session):
                turn = next(self.turns)
                request = self.pairing.request(session, turn)
                request = replace(request, model=self._model_of(session), files=self._files_of(session))
                self.pairing.model = self.skeleton["hash"]
                self.pairing.job = self.backend.compare(request, lambda event: self.deliver(turn, event))
                self._status("solving", "comparing", "…")
                self._tell_pair()
            elif wanted:
                self._settle_pair()

    def _on_pair(self, event: Event) -> None:
        """An event of the job that looks for missing plans."""
        match event["kind"]:
            case "waiting" if self.job is None:
                self._waiting(event)
            case "compiling" if self.job is None:
                self._compiling(event)
            case "comparing" if self.job is None:
                bits = [event["planner"], text.seconds(event["elapsed_s"])]
                bits += [text.seconds(event["objective_s"])] if event["objective_s"] else []
                self._status("solving", "comparing", " · ".join(bits))
            case "row":
                self.pairing.add_row(event)
                self._tell_pair()
            case "compared" | "failed":
                self.pairing.job = None
                if event["kind"] == "failed" and not self.pairing.stopping:
                    self._failed(event["message"])
                elif not self.pairing.stopping and self.session is not None and self.pairing.missing(self.session):
                    self._follow()
                elif self.job is None:
                    self._settle_pair()
                    self._status(*self.standing)
                self._tell_pair()

    def _settle_pair(self) -> None:
        """What was asked for is there: show one of the pair if another plan is on the page, else draw it
        at the pair's time scale."""
        wanted, self.wants_pair = self.wants_pair, False
        if self._of_pair() is not None:
            if self._beside() is not None and not self.at_scale:
                self._draw("pair")
            return
        for place, answer in enumerate(self.pairing.answers(self.session)):
            if wanted and answer is not None and answer.plan is not None:
                self._show_pair({"element": str(place)})
                return

    def _stop_pairing(self) -> None:
        if self.pairing.job is not None:
            self.pairing.stopping = True
            self.backend.cancel(self.pairing.job)

    def _drop_pairing(self) -> None:
        """Whatever the running job finds is no longer asked for."""
        self._stop_pairing()
        self.pairing.job, self.pairing.turn = None, next(self.turns)
        self.pairing.tried = frozenset()

    # -- to the browser -------------------------------------------------------------------------

    def _tell_pair(self) -> None:
        self.send({"type": "props", "props": self._around()})

    def _around(self) -> dict[str, Any]:
        return {ids.PAIR: {"children": self._strip()}}

    def _strip(self) -> list[Any]:
        session = self.session
        if session is None or not session.look.pair:
            pipelines = self.plan is not None and self.plan["objective"] != "makespan"
            seen = sentence(self.plan) if self.plan is not None else ""
            return pair_panel.offer(self.choices.planners if pipelines else (), seen)
        answers = self.pairing.answers(session)
        return pair_panel.strip(session.look.pair, answers, self._of_pair(), self.pairing.job is not None)

    def _tell_query(self) -> None:
        if self.session is not None:
            self.send({"type": "query", "query": to_query(self.session)})

    def _stand(self, state: str, what: str, more: str, query: str | None = None) -> None:
        """A status that stays until there is another plan: it is told again after a comparison."""
        self.standing = (state, what, more)
        self._status(state, what, more, query)

    def _status(
        self,
        state: str,
        what: str,
        more: str,
        query: str | None = None,
        elapsed_s: float | None = None,
        asked: bool = False,
    ) -> None:
        """elapsed_s: of a search that goes on, so that the page can count. asked: whether its turn is that of a new
        question: plans of earlier turns answer another one."""
        message: Message = {"type": "status", "state": state, "what": what, "more": more, "turn": self.turn}
        if elapsed_s is not None:
            message["elapsed_s"] = elapsed_s
        if asked:
            message["asked"] = True
        self.said, self.said_before = message, None
        self.send(message if query is None else message | {"query": query})

    def _compiling(self, event: Event) -> None:
        """Kernels are compiled once per installation, and nobody's time limit pays for it. Afterwards what went on
        before goes on."""
        before = self.said_before or self.said
        if event["kernel"]:
            state = "loading" if self.plan is None else "solving"  # the former hides what is drawn
            self._status(state, "compiling, once", f"{event['kernel']} · {text.seconds(event['seconds'])} so far")
            self.said_before = before
        elif self.said_before is not None:
            self.said, self.said_before = self.said_before, None
            self.send({key: value for key, value in self.said.items() if key != "asked"})

    @abstractmethod
    def _model_of(self, session: Session) -> str:
        """What a worker is asked for."""

    @abstractmethod
    def _files_of(self, session: Session) -> Files:
        """What takes the place of settings."""

    @abstractmethod
    def _result(self, event: Event, query: str | None = None) -> None:
        """A finished search."""

    @abstractmethod
    def _waiting(self, event: Event) -> None:
        """A job has not begun."""

    @abstractmethod
    def _failed(self, message: str) -> None:
        """Bad input, or a defect."""
