"""A question and its answer as text: what travels between processes and machines, and is read there as data.

A graph goes along once and its questions refer to it. An answer is a plan without the problem, which whoever asked has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from explorer.question.planner_choice import choose_planner
from solvers.errors import InvalidPlan, InvalidProblem, PlacementError
from solvers.evaluation.evaluate import Metrics, evaluate
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, parse_json
from solvers.formats.op_graph_json import graph_json, read_op_graph
from solvers.formats.plan_json import plan_part, read_other_plan, read_plan_part
from solvers.formats.problem_json import problem_json, read_problem
from solvers.formats.records import Within, read_record, record_json
from solvers.formats.result_json import read_result, result_json
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.planners.check import check
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Problem
from solvers.search.effort import Effort

INVALID, UNSUPPORTED, FAILED = "INVALID", "UNSUPPORTED", "FAILED"
"""Besides the statuses of results: the settings of the question contradict each other or the model, the planner cannot
represent it, or it broke a rule (a defect)."""
WITHOUT_RESULT = (INVALID, UNSUPPORTED, FAILED)
MAX_REASON = 4_000
MAX_DEVICES = 1_000_000
AGREE = 1e-6
"""The objective that an answer claims is the one evaluated, but for rounding."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a search goes on; see `solve`."""

    effort: Effort = Effort.NORMAL
    time_limit_s: float = 60.0
    gap: float = 0.0
    seed: Annotated[int, Within(-(2**53))] = 0


@dataclass(frozen=True, eq=False)
class Question:
    """What one search is asked. planner: as `choose_planner` reads it. model: its reference, for people."""

    problem: Problem
    planner: str
    limits: Limits
    model: str = ""


@dataclass(frozen=True, eq=False)
class Answer:
    """result: None where there is none, for the ``reason``. status: that of the result, or one of WITHOUT_RESULT."""

    status: str
    result: Result | None = None
    reason: str = ""

    @property
    def plan(self) -> Plan | None:
        return None if self.result is None else self.result.plan

    def metrics(self) -> Metrics | None:
        """Of its plan."""
        return None if self.result is None or self.plan is None else evaluate(self.result.problem, self.plan)


def answered(result: Result, notes: Sequence[str] | None = None) -> Answer:
    """What a solve gave. notes: that say why there is no plan, if not all of the result's."""
    reasons = result.notes if notes is None else notes
    return Answer(result.status.value, result, "" if result.plan is not None else "; ".join(reasons))


@dataclass(frozen=True, slots=True)
class GraphText:
    """key: a hash of the text."""

    key: str
    text: str


def graph_text(graph: OpGraph) -> GraphText:
    """All of a graph, also what does not name it."""
    text = dump_json(graph_json(graph))
    return GraphText(hashlib.sha256(text.encode()).hexdigest(), text)


def read_graph_text(text: str) -> OpGraph:
    """Raises InvalidProblem."""
    return read_op_graph(Field(parse_json(text, "graph"), "graph:"))


def question_text(question: Question) -> str:
    """The question without its graph."""
    return dump_json(
        {
            "problem": problem_json(question.problem),
            "planner": question.planner,
            "limits": record_json(question.limits),
        }
    )


def read_question(text: str, graph: OpGraph) -> Question:
    """Raises InvalidProblem."""
    parts = Field(parse_json(text, "question"), "question:").fields(("problem", "planner", "limits"))
    planner = parts["planner"].text()
    choose_planner(planner)
    return Question(read_problem(parts["problem"], graph), planner, read_record(parts["limits"], Limits))


def start_text(plan: Plan) -> str:
    """A plan that the search for another one about the same graph begins with."""
    return dump_json({"devices": len(plan.order), "messages": bool(plan.messages), "plan": plan_part(plan)})


def read_start(text: str, graph: OpGraph) -> Plan:
    """Raises InvalidProblem or InvalidPlan."""
    parts = Field(parse_json(text, "start"), "start:").fields(("devices", "messages", "plan"))
    return read_other_plan(
        parts["plan"], graph, parts["devices"].integer(1, MAX_DEVICES), stated=parts["messages"].flag()
    )


def answer_text(answer: Answer) -> str:
    """The answer without its problem, and without the steps of the search."""
    result, plan = answer.result, answer.plan
    fields: dict[str, object] = {"status": answer.status, "reason": answer.reason[:MAX_REASON]}
    if result is not None:
        fields["result"] = result_json(result)
    if plan is not None:
        fields |= {"messages": bool(plan.messages), "plan": plan_part(plan)}
    return dump_json(fields)


def read_answer(text: str, problem: Problem, *, verified: bool = False) -> Answer:
    """The answer to a question about ``problem``. That its plan keeps the rules and is worth what it says is found out
    here, unless it comes from a process of our own, which did (``verified``).

    Raises InvalidProblem or InvalidPlan, in one line.
    """
    field = Field(parse_json(text, "answer"), "answer:")
    parts = field.fields(("status", "reason"), ("result", "messages", "plan"))
    status, reason = parts["status"].text(100), parts["reason"].text(MAX_REASON)
    if "result" not in parts:
        if status not in WITHOUT_RESULT:
            parts["status"].refuse(f"one of {', '.join(WITHOUT_RESULT)} without a result")
        return Answer(status, None, reason)
    plan = None
    if "plan" in parts:
        plan = read_plan_part(parts["plan"], problem, stated="messages" in parts and parts["messages"].flag())
    result = read_result(parts["result"], problem, plan)
    if plan is not None and not verified:
        _hold(result, problem, plan)
    return Answer(result.status.value, result, reason)


def _hold(result: Result, problem: Problem, plan: Plan) -> None:
    """Raises InvalidPlan if the plan breaks a rule or is not worth what the result says."""
    if violations := check(problem, plan):
        raise InvalidPlan(f"the plan breaks a rule: {violations[0]}")
    evaluated_s = evaluate(problem, plan).objective_s(problem.objective)
    if abs(evaluated_s - result.objective_s) > AGREE * max(evaluated_s, result.objective_s):
        raise InvalidPlan(f"the plan takes {evaluated_s:g} s and not the {result.objective_s:g} s that the answer says")


def refused(error: PlacementError) -> Answer:
    """What is answered where a search raised."""
    if isinstance(error, InvalidProblem):
        return Answer(INVALID, reason=str(error))
    return Answer(FAILED if isinstance(error, InvalidPlan) else UNSUPPORTED, reason=str(error))
