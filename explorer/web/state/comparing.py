"""The comparison of one page: the rows that came, the plans behind them, and for which settings."""

from __future__ import annotations

from dataclasses import replace

from explorer.jobs.requests import CompareRequest
from explorer.view.comparison import Row
from explorer.view.events import Event, unpacked
from explorer.view.session import Look, Session, compare_limit_s, to_query
from solvers.problem.problem import Contiguity

PLANS_BYTES = 64 * 2**20
"""Packed plans kept for one page. What would exceed it has its row, but cannot be shown."""


def question(session: Session) -> str:
    """What a session asks, whoever answers it, for how long, and however it is drawn."""
    return to_query(replace(session, planner="auto", time_limit_s=1.0, theme="light", look=Look()))


class Comparing:
    """Rows are kept when the settings change, and are good again when these come back."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.every = False
        self.turn = 0
        self.stopping = False
        self.model = ""
        self.objective = ""
        self.rows: list[Row] = []
        self.plans: list[bytes | None] = []
        self.runs = 0
        self.wrong: tuple[str, ...] = ()

    def begin(self, session: Session, every: bool, turn: int) -> CompareRequest:
        """Forget the rows before; returns what to ask. every: for all contiguities."""
        self.session, self.every, self.turn = session, every, turn
        self.stopping, self.model, self.runs, self.wrong = False, "", 0, ()
        self.rows, self.plans = [], []
        contiguities = tuple(Contiguity) if every else ()
        limit_s = compare_limit_s(session)
        return CompareRequest(session.model, session.settings, (), contiguities, limit_s, session.seed, session.effort)

    def add(self, event: Event) -> None:
        """Keep the row of a ``row`` event, and its plan if there is room."""
        held = sum(len(plan) for plan in self.plans if plan is not None)
        plan = event["plan"]
        self.objective = event["objective"]
        self.rows.append(event["row"])
        self.plans.append(plan if plan is not None and held + len(plan) <= PLANS_BYTES else None)

    def end(self, event: Event) -> None:
        """After the ``compared`` event."""
        self.runs, self.wrong = event["runs"], tuple(event["contradictions"])

    def fits(self, session: Session | None) -> bool:
        """Whether the rows answer the question that ``session`` asks, whoever answers it."""
        return session is not None and self.session is not None and self._question(session) == self._question()

    def _question(self, session: Session | None = None) -> str:
        asked = session or self.session
        assert asked is not None
        settings = replace(asked.settings, contiguity=Contiguity.ACYCLIC) if self.every else asked.settings
        return question(replace(asked, settings=settings))

    def shown(self, place: int, session: Session | None, model: str) -> tuple[Session, Event] | None:
        """The session that would have led to the plan of a row, and its ``result`` event; None if there
        is no such plan or it is of other settings or of a model that is not on the page."""
        if not 0 <= place < len(self.rows) or not self.fits(session) or model != self.model:
            return None
        row, packed = self.rows[place], self.plans[place]
        if packed is None or session is None:
            return None
        named = Contiguity(row.contiguity) if self.every else session.settings.contiguity
        settings = replace(session.settings, contiguity=named)
        event = {
            "kind": "result",
            "status": row.status,
            "stop_reason": row.stop_reason,
            "planner": row.planner,
            "runtime_s": row.runtime_s,
            "plan": unpacked(packed),
        }
        return replace(session, planner=row.planner, settings=settings), event
