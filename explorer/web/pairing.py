"""Two plans of one question that a page shows in turn, at one time scale."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explorer.view import versus
from explorer.view.events import Event, packed, unpacked
from explorer.view.session import Session
from explorer.web.backend import CompareRequest
from explorer.web.comparing import question

QUESTIONS = 6
"""Questions whose answers are kept, so that going back to one is instant."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a planner said to a question: facts (see `versus.facts`), the packed view of its plan and the
    words of its ``result`` event; without a plan, only why."""

    planner: str
    status: str = ""
    stop_reason: str = ""
    runtime_s: float = 0.0
    facts: Mapping[str, Any] | None = None
    plan: bytes | None = None
    why: str = ""
    model: str = ""
    """Hash of the skeleton that the plan is of."""


class Pairing:
    """Answers by question and planner. job: the one that looks for those that are missing."""

    def __init__(self) -> None:
        self.kept: OrderedDict[str, dict[str, Answer]] = OrderedDict()
        self.turn = 0
        self.job: str | None = None
        self.stopping = False
        self.asked = ""
        self.model = ""

    def answers(self, session: Session | None) -> tuple[Answer | None, ...]:
        """Those of the session's pair that are known, in its order."""
        if session is None:
            return ()
        there = self.kept.get(question(session), {})
        return tuple(there.get(planner) for planner in session.look.pair)

    def missing(self, session: Session) -> tuple[str, ...]:
        """The planners of the pair that have not answered yet."""
        found = self.answers(session)
        return tuple(p for p, answer in zip(session.look.pair, found, strict=True) if answer is None)

    def complete(self, session: Session | None) -> tuple[Answer, ...]:
        """Both answers if both have a plan, else ()."""
        found = tuple(a for a in self.answers(session) if a is not None and a.facts is not None)
        return found if len(found) == 2 else ()

    def request(self, session: Session, turn: int, known: frozenset[str]) -> CompareRequest:
        """What to ask for what is missing."""
        self.turn, self.stopping, self.asked = turn, False, question(session)
        return CompareRequest(
            session.model, session.settings, self.missing(session), (), session.time_limit_s, known
        )  # fmt: skip

    def add_row(self, event: Event) -> None:
        """An answer to what was asked for last, as a ``row`` event."""
        row, plan = event["row"], event["plan"]
        if row.stop_reason == "CANCELLED":
            return
        facts = None if plan is None else versus.facts(unpacked(plan))
        why = "" if plan is not None else row.reason or row.status.lower().replace("_", " ")
        self._keep(
            self.asked,
            Answer(row.planner, row.status, row.stop_reason, row.runtime_s or 0.0, facts, plan, why, self.model),
        )

    def add_result(self, session: Session, event: Event, model: str) -> None:
        """The answer of a solve of ``model``, if its planner is one of the pair and nobody cancelled it."""
        plan = event["plan"]
        planner = event["planner"]
        known = self.kept.get(question(session), {}).get(planner)
        if planner not in session.look.pair or plan is None or event["stop_reason"] == "CANCELLED":
            return
        facts = versus.facts(plan)
        if known is not None and known.facts == facts:
            return
        answer = Answer(
            planner,
            event["status"],
            event["stop_reason"],
            event["runtime_s"],
            facts,
            packed(plan),
            model=model,
        )
        self._keep(question(session), answer)

    def result(self, answer: Answer) -> Event:
        """The ``result`` event that would have brought an answer with a plan."""
        assert answer.plan is not None
        return {
            "kind": "result",
            "status": answer.status,
            "stop_reason": answer.stop_reason,
            "planner": answer.planner,
            "runtime_s": answer.runtime_s,
            "plan": unpacked(answer.plan),
        }

    def _keep(self, asked: str, answer: Answer) -> None:
        self.kept.setdefault(asked, {})[answer.planner] = answer
        self.kept.move_to_end(asked)
        while len(self.kept) > QUESTIONS:
            self.kept.popitem(last=False)
