"""An answer as text, and back: data that is checked, with a plan that is verified and judged again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from explorer.library.place import LibraryTrouble
from explorer.library.question_key import SearchQuestion
from solvers.evaluation.evaluate import judge
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, finite_or_none, parse_json
from solvers.formats.op_graph_json import read_op_graph
from solvers.formats.plan_json import plan_part, read_plan_part
from solvers.formats.problem_json import problem_json, read_problem
from solvers.formats.result_json import MAX_NOTES, MAX_OPTIONS, result_json
from solvers.kernels.compiling import TOOK
from solvers.plan.plan import Plan
from solvers.plan.result import Alternative, Progress, Result, Status, StopReason
from solvers.planners.check import check
from solvers.problem.problem import Problem
from solvers.search.planner import planner_options

MAX_STEPS = 10_000
"""Of a trace: the last ones are kept."""
MAX_FRONT = 16
SAME = 1e-9
"""Relative difference of an objective that was recorded to what its plan is judged today."""
_PARTS = ("reference", "problem", "plan", "outcome", "front", "trace")
_OUTCOME = (
    "status", "stop_reason", "objective_s", "bound_s", "runtime_s", "planner", "planner_options", "seed", "notes",
)  # fmt: skip
_WITH_PLAN = (Status.OPTIMAL, Status.FEASIBLE)
KNOWN = "cached result of"
"""How that note begins."""


def is_known(notes: Sequence[str]) -> bool:
    """Whether these are the notes of an answer from a library."""
    return any(note.startswith(KNOWN) for note in notes)


class StoredAnswer(NamedTuple):
    """What was read back of an answer, whoever asked: reference says where its model comes from; it is never run."""

    result: Result
    reference: str


def write_answer(question: SearchQuestion, result: Result, reference: str) -> str:
    """All of a result but the graph of its problem. null stands for an infinite number. Raises ValueError for a NaN."""
    notes = tuple(note for note in result.notes if not note.startswith((TOOK, KNOWN)))
    return dump_json(
        {
            "reference": reference,
            "problem": problem_json(question.problem),
            "plan": None if result.plan is None else plan_part(result.plan),
            "outcome": result_json(replace(result, notes=notes)) | {"bound_s": finite_or_none(result.bound_s)},
            "front": [plan_part(one.plan) for one in result.front],
            "trace": [_step_json(step) for step in result.trace[-MAX_STEPS:]],
        }
    )


def read_answer(text: bytes, question: SearchQuestion) -> Result:
    """The answer to a question that is in hand: its plan keeps the rules of the problem, and has the objective that was
    recorded. Raises PlacementError if not. What cannot be seen from a plan, bound and proof, is as it was recorded."""
    parts = Field(parse_json(text, "the answer"), "the answer:").fields(_PARTS)
    return replace(
        _result(question.problem, parts), planner_options=planner_options(question.planner), seed=question.seed
    )


def read_apart(text: bytes, graph_text: bytes) -> StoredAnswer:
    """The same with the problem as it was recorded, for whoever has not asked. Raises PlacementError."""
    parts = Field(parse_json(text, "the answer"), "the answer:").fields(_PARTS)
    graph = read_op_graph(Field(parse_json(graph_text, "its graph"), "its graph:"))
    return StoredAnswer(_result(read_problem(parts["problem"], graph), parts), parts["reference"].text())


def _result(problem: Problem, parts: dict[str, Field]) -> Result:
    fields = parts["outcome"].fields(_OUTCOME)
    status, objective_s = fields["status"].choice(Status), fields["objective_s"].number_or_infinity()
    plan = None if parts["plan"].is_null else _plan(problem, parts["plan"])
    if (plan is not None) != (status in _WITH_PLAN):
        raise LibraryTrouble(f"its status is {status.value}, which is not that of what it holds")
    if plan is not None:
        actual_s = _sound(problem, plan)[0]
        if not math.isclose(actual_s, objective_s, rel_tol=SAME):
            raise LibraryTrouble(f"its plan was said to take {objective_s:g} s and takes {actual_s:g} s")
    front = []
    for item in parts["front"].items(MAX_FRONT):
        lean = _plan(problem, item)
        front.append(Alternative(lean, *_sound(problem, lean)))
    return Result(
        problem=problem,
        plan=plan,
        status=status,
        stop_reason=fields["stop_reason"].choice(StopReason),
        objective_s=objective_s,
        bound_s=fields["bound_s"].number_or_infinity(),
        runtime_s=fields["runtime_s"].number(),
        planner=fields["planner"].text(),
        planner_options={key: item.value for key, item in fields["planner_options"].mapping(MAX_OPTIONS).items()},
        seed=fields["seed"].integer(-(2**53)),
        trace=tuple(_step(item) for item in parts["trace"].items(MAX_STEPS)),
        notes=tuple(item.text() for item in fields["notes"].items(MAX_NOTES)),
        front=tuple(front),
    )


def _plan(problem: Problem, field: Field) -> Plan:
    stated = isinstance(field.value, dict) and "messages" in field.value
    return read_plan_part(field, problem, stated=stated)


def _sound(problem: Problem, plan: Plan) -> tuple[float, float]:
    """Objective (s) and peak (bytes) of a plan that keeps all rules. Raises PlacementError."""
    broken = check(problem, plan)
    judged = judge(problem, plan)
    if broken or not judged.feasible:
        raise LibraryTrouble(f"its plan breaks a rule: {broken[0] if broken else judged.violation}")
    return judged.objective_s, judged.peak_bytes


def _step_json(step: Progress) -> list[object]:
    return [step.elapsed_s, finite_or_none(step.objective_s), finite_or_none(step.bound_s), step.note, step.member]


def _step(field: Field) -> Progress:
    elapsed, objective, bound, note, member = field.items(5, exactly=5)
    return Progress(
        elapsed.number(),
        objective.number_or_infinity(),
        bound.number_or_infinity(),
        note.text(),
        member.text(),
    )
