"""Two plans of one question that a page shows in turn, at one time scale."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from explorer.jobs.requests import CompareRequest
from explorer.view import versus
from explorer.view.comparison import Row
from explorer.view.events import ComparedEvent, ResultEvent, RowEvent, answered, packed, unpacked
from explorer.view.session import IN_SEQUENCE, Look, Session, compare_limit_s, member, to_query
from solvers.problem.problem import Contiguity

QUESTIONS = 6
"""Questions whose answers are kept, so that going back to one is instant."""
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

    def add(self, event: RowEvent) -> None:
        """Keep the row of a ``row`` event, and its plan if there is room."""
        held = sum(len(plan) for plan in self.plans if plan is not None)
        plan = event["plan"]
        self.objective = event["objective"]
        self.rows.append(event["row"])
        self.plans.append(plan if plan is not None and held + len(plan) <= PLANS_BYTES else None)

    def end(self, event: ComparedEvent) -> None:
        """After the ``compared`` event."""
        self.runs, self.wrong = event["runs"], tuple(event["contradictions"])

    def fits(self, session: Session | None) -> bool:
        """Whether the rows answer the question that ``session`` asks, whoever answers it."""
        return session is not None and self.session is not None and self._question(session) == self._question()

    def _question(self, session: Session | None = None) -> str:
        chosen = session or self.session
        assert chosen is not None
        settings = replace(chosen.settings, contiguity=Contiguity.ACYCLIC) if self.every else chosen.settings
        return question(replace(chosen, settings=settings))

    def shown(self, place: int, session: Session | None, model: str) -> tuple[Session, ResultEvent] | None:
        """The session that would have led to the plan of a row, and its ``result`` event; None if there
        is no such plan or it is of other settings or of a model that is not on the page."""
        if not 0 <= place < len(self.rows) or not self.fits(session) or model != self.model:
            return None
        row, packed = self.rows[place], self.plans[place]
        if packed is None or session is None:
            return None
        named = Contiguity(row.contiguity) if self.every else session.settings.contiguity
        settings = replace(session.settings, contiguity=named)
        event = answered(row.status, row.stop_reason, row.planner, row.runtime_s or 0.0, unpacked(packed))
        return replace(session, planner=row.planner, settings=settings), event


@dataclass(frozen=True, slots=True)
class Answer:
    """What a planner said to a question: facts of its plan, the packed view of its plan and the
    words of its ``result`` event; without a plan, only why. member: its name in the pair."""

    member: str
    status: str = ""
    stop_reason: str = ""
    runtime_s: float = 0.0
    facts: versus.Member | None = None
    plan: bytes | None = None
    why: str = ""
    model: str = ""
    """Hash of the skeleton that the plan is of."""


def pair_question(session: Session) -> str:
    """What both of a pair answer: the `question`, whether stages are in sequence or not."""
    return question(replace(session, settings=replace(session.settings, in_sequence=False)))


def member_session(session: Session, name: str) -> Session:
    """The session that asks for the plan of one member of a pair."""
    settings = replace(session.settings, in_sequence=name.endswith(IN_SEQUENCE))
    return replace(session, settings=settings, planner=name.removesuffix(IN_SEQUENCE))


class Pairing:
    """Answers by question and member of the pair. turn: of the job that looks for some that are missing, all in
    sequence or none; tried: those that were looked for since the question came up."""

    def __init__(self) -> None:
        self.by_question: OrderedDict[str, dict[str, Answer]] = OrderedDict()
        self.turn = 0
        self.stopping = False
        self.requested = ""
        self.suffix = ""
        self.model = ""
        self.tried: frozenset[str] = frozenset()

    def answers(self, session: Session | None) -> tuple[Answer | None, ...]:
        """Those of the session's pair that are known, in its order."""
        if session is None:
            return ()
        there = self.by_question.get(pair_question(session), {})
        return tuple(there.get(name) for name in session.look.pair)

    def missing(self, session: Session) -> tuple[str, ...]:
        """Members of the pair that have not answered yet and can be asked together."""
        pairs = zip(session.look.pair, self.answers(session), strict=True)
        names = [name for name, answer in pairs if answer is None and name not in self.tried]
        return tuple(n for n in names if n.endswith(IN_SEQUENCE) == names[0].endswith(IN_SEQUENCE))

    def complete(self, session: Session | None) -> tuple[Answer, ...]:
        """Both answers if both have a plan, else ()."""
        answers = tuple(a for a in self.answers(session) if a is not None and a.facts is not None)
        return answers if len(answers) == 2 else ()

    def request(self, session: Session, turn: int) -> CompareRequest:
        """What to ask for what is missing."""
        names = self.missing(session)
        self.turn, self.stopping, self.requested = turn, False, pair_question(session)
        self.tried |= set(names)
        one = member_session(session, names[0])
        self.suffix = IN_SEQUENCE if one.settings.in_sequence else ""
        planners = tuple(name.removesuffix(IN_SEQUENCE) for name in names)
        limit_s = session.time_limit_s  # of one alone: both plans are given the same
        return CompareRequest(session.model, one.settings, planners, (), limit_s, session.seed, session.effort)

    def add_row(self, event: RowEvent) -> None:
        """An answer to what was asked for last, as a ``row`` event."""
        row, plan = event["row"], event["plan"]
        if row.stop_reason == "CANCELLED":
            return
        name = row.planner + self.suffix
        facts = None if plan is None else versus.member(unpacked(plan), name)
        why = "" if plan is not None else row.reason or row.status.lower().replace("_", " ")
        self._store(
            self.requested,
            Answer(name, row.status, row.stop_reason, row.runtime_s or 0.0, facts, plan, why, self.model),
        )

    def add_result(self, session: Session, event: ResultEvent, model: str) -> None:
        """The answer of a solve of ``model``, if its planner is one of the pair and nobody cancelled it."""
        plan, name = event["plan"], member(event["planner"], session.settings)
        if name not in session.look.pair or plan is None or event["stop_reason"] == "CANCELLED":
            return
        question, facts = pair_question(session), versus.member(plan, name)
        known = self.by_question.get(question, {}).get(name)
        if known is not None and known.facts == facts:
            return
        answer = Answer(
            name, event["status"], event["stop_reason"], event["runtime_s"], facts, packed(plan), model=model
        )
        self._store(question, answer)

    def result(self, answer: Answer) -> ResultEvent:
        """The ``result`` event that would have brought an answer with a plan."""
        assert answer.plan is not None
        planner = answer.member.removesuffix(IN_SEQUENCE)
        return answered(answer.status, answer.stop_reason, planner, answer.runtime_s, unpacked(answer.plan))

    def _store(self, question: str, answer: Answer) -> None:
        self.by_question.setdefault(question, {})[answer.member] = answer
        self.by_question.move_to_end(question)
        while len(self.by_question) > QUESTIONS:
            self.by_question.popitem(last=False)
