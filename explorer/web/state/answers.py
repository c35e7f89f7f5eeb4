"""Answers of finished searches, kept for all pages by the question that they answer: coming back to one asks nobody."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

from explorer.view.events import ModelEvent, ResultEvent, packed, unpacked
from explorer.view.session import Look, Session, to_query

MAX_ANSWERS = 96
MAX_BYTES = 96 * 2**20
"""Of packed plans and graphs."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A ``result`` event without its plan, the packed view of that, and the ``model`` event before it."""

    event: ResultEvent
    plan: bytes | None
    model: ModelEvent


def question_hash(session: Session) -> str:
    """Equal for sessions that ask the same, however they are drawn. Files are named by their content."""
    query = to_query(replace(session, theme="light", look=Look()))
    return hashlib.sha256(query.encode()).hexdigest()


class Answers:
    """What was used least recently goes first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._lock = threading.RLock()

    def store(self, session: Session, event: ResultEvent, model: ModelEvent) -> None:
        """Keep the ``result`` event of a session's question, unless somebody cut the search short. model: the ``model``
        event of the same search, with the graph that was planned."""
        if event["stop_reason"] == "CANCELLED":
            return
        plan = None if event["plan"] is None else packed(event["plan"])
        with self._lock:
            self._answers[question_hash(session)] = Answer({**event, "plan": None}, plan, model)
            self._answers.move_to_end(question_hash(session))
            while len(self._answers) > MAX_ANSWERS or self._bytes() > MAX_BYTES:
                self._answers.popitem(last=False)

    def get(self, session: Session) -> tuple[ResultEvent, ModelEvent] | None:
        """The event that answered the same question before, and the ``model`` event before that."""
        with self._lock:
            question = question_hash(session)
            stored = self._answers.get(question)
            if stored is None:
                return None
            self._answers.move_to_end(question)
        plan = None if stored.plan is None else unpacked(stored.plan)
        return {**stored.event, "plan": plan}, stored.model

    def _bytes(self) -> int:
        return sum(len(answer.plan or b"") + len(answer.model["skeleton"]) for answer in self._answers.values())
