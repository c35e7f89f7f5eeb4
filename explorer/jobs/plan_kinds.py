"""What is asked about plans that are there: take one away, look it over, show one that was found beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from explorer.exports.formats import export, format_named
from explorer.jobs.held_plans import file_from, hold, result_of
from explorer.jobs.requests import (
    DifferRequest,
    Emit,
    ExportRequest,
    HashRequest,
    LeanRequest,
    ReviewRequest,
    WhyHereRequest,
)
from explorer.reviews.difference import difference, difference_object
from explorer.reviews.plan_hash import plan_hash
from explorer.reviews.review import review, review_object
from explorer.sweeps.edges import edge_moves
from explorer.sweeps.moved import company, places
from explorer.sweeps.why_here import move_rows
from explorer.view import events
from solvers.errors import InvalidProblem
from solvers.plan.result import Status


def export_job(request: ExportRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Tell the content of a plan in a format: data, media_type, ending, the reference of its model, and what the file
    does not say of the plan (lost) or says otherwise (changed)."""
    one = format_named(request.to)
    file = file_from(request.plan)
    made = export(file, one.name, request.theme, nearest=request.nearest)
    emit(
        events.done(
            {
                "data": made.data, "media_type": one.media_type, "ending": one.ending, "to": one.name,
                "of": file.reference, "lost": list(made.lost), "changed": list(made.changed),
            }
        )
    )  # fmt: skip


def review_job(request: ReviewRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Tell what there is to say of a plan, see `explorer.reviews.review.review_object`."""
    file = file_from(request.plan)
    emit(events.done(review_object(review(file.problem, file.plan, file.result), file.problem)))


def differ_job(request: DifferRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Tell how two plans of one graph differ, see `explorer.reviews.difference.difference_object`, and which operators
    are elsewhere."""
    first, second = file_from(request.first), file_from(request.second)
    compared = difference((first.problem, first.plan), (second.problem, second.plan))
    emit(events.done(difference_object(compared) | {"elsewhere": list(compared.elsewhere)}))


def hash_job(request: HashRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Tell the sha256 of a plan."""
    file = file_from(request.plan)
    emit(events.done({"sha256": plan_hash(file.problem, file.plan)}))


def why_here_job(request: WhyHereRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Tell first how many places and edges there are and how many operators come along, then each of `move_rows`; at
    the end took_s, and whether it was stopped."""
    file, began = file_from(request.plan), time.perf_counter()
    problem, plan = file.problem, file.plan
    operators = [operator for operator in request.operators if 0 <= operator < len(problem.graph)]
    if not operators:
        raise InvalidProblem("there are no such operators in this plan")
    moving = company(problem, operators)
    forward = {o if (of := problem.graph.operators[o].forward_of) is None else of for o in moving}
    of = len(places(problem, plan)) + len(list(edge_moves(problem, plan, operators)))
    emit(events.part({"of": of, "along": len(forward - set(operators))}))
    for row in move_rows(problem, plan, operators, should_stop=should_stop):
        emit(events.part({"move": row}))
    emit(events.done({"took_s": time.perf_counter() - began, "stopped": should_stop()}))


def lean_job(request: LeanRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Tell the view of a plan beside an answer. It is held like one, and its bound is the answer's: of the question."""
    answer, reference = result_of(request.plan.held)
    if not 0 <= request.position < len(answer.front):
        raise InvalidProblem("there is no such plan beside this answer")
    one = answer.front[request.position]
    outcome = replace(answer, plan=one.plan, objective_s=one.objective_s, status=Status.FEASIBLE, front=())
    emit(events.done({"plan": events.held_view(outcome, hold(outcome, reference))}))
