"""How a solve ended, to and from a JSON value. The trace of its progress is not kept."""

from __future__ import annotations

import math
from typing import TypedDict

from solvers.formats.json_fields import Field
from solvers.formats.json_text import finite_or_none
from solvers.formats.records import record_json
from solvers.plan.degrees import DegreePlan
from solvers.plan.plan import Plan
from solvers.plan.result import Result, Status, StopReason
from solvers.problem.problem import Problem

MAX_OPTIONS = 256
MAX_NOTES = 1_000

_REQUIRED = ("status", "stop_reason", "objective_s", "bound_s", "runtime_s", "planner")
_OPTIONAL = ("planner_options", "seed", "notes", "by_degrees")
_DEGREES = ("data", "tensor", "pipeline")
MAX_DEGREES = 10_000
MAX_DEGREE = 2**20


def result_json(result: Result) -> dict[str, object]:
    """Outcome, reason, numbers and effort; null stands for an infinite objective."""
    written = record_json({name: getattr(result, name) for name in (*_REQUIRED, "seed", "notes")})
    table = {"by_degrees": [degree_json(row) for row in result.by_degrees]} if result.by_degrees else {}
    return {**written, "planner_options": options_json(result.planner_options), **table}


class DegreeRow(TypedDict):
    """A `DegreePlan`, with null for seconds and bytes without a plan."""

    data: int
    tensor: int
    pipeline: int
    objective_s: float | None
    peak_memory_bytes: float | None
    reason: str


def degree_json(row: DegreePlan) -> DegreeRow:
    """One row of the table over degrees."""
    return {
        "data": row.data,
        "tensor": row.tensor,
        "pipeline": row.pipeline,
        "objective_s": finite_or_none(row.objective_s),
        "peak_memory_bytes": finite_or_none(row.peak_bytes),
        "reason": row.reason,
    }


def _read_degree(field: Field) -> DegreePlan:
    parts = field.fields((*_DEGREES, "objective_s", "peak_memory_bytes", "reason"), ())
    seconds, nbytes = (
        math.inf if parts[name].is_null else parts[name].number() for name in ("objective_s", "peak_memory_bytes")
    )
    data, tensor, pipeline = (parts[name].integer(1, MAX_DEGREE) for name in _DEGREES)
    return DegreePlan(data, tensor, pipeline, seconds, nbytes, parts["reason"].text())


def options_json(options: object) -> object:
    """Planner options as JSON: null for an infinite number, text for what JSON has no word for."""
    if isinstance(options, float):
        return finite_or_none(options)
    if options is None or isinstance(options, bool | int | str):
        return str(options) if isinstance(options, str) else options
    if isinstance(options, list | tuple):
        return [options_json(option) for option in options]
    if hasattr(options, "items"):
        return {str(key): options_json(value) for key, value in options.items()}
    return str(options)


def read_result(field: Field, problem: Problem, plan: Plan | None) -> Result:
    """What the file says of the plan, or of there being none. Raises InvalidProblem, or InvalidPlan if bound >
    objective."""
    parts = field.fields(_REQUIRED, _OPTIONAL)
    objective = parts["objective_s"]
    options = parts["planner_options"].mapping(MAX_OPTIONS) if "planner_options" in parts else {}
    return Result(
        problem,
        plan,
        parts["status"].choice(Status),
        parts["stop_reason"].choice(StopReason),
        math.inf if objective.is_null else objective.number(),
        parts["bound_s"].number(),
        parts["runtime_s"].number(),
        parts["planner"].text(),
        {name: option.value for name, option in options.items()},
        parts["seed"].integer(-(2**53)) if "seed" in parts else 0,
        (),
        tuple(item.text() for item in parts["notes"].items(MAX_NOTES)) if "notes" in parts else (),
        by_degrees=tuple(_read_degree(item) for item in parts["by_degrees"].items(MAX_DEGREES))
        if "by_degrees" in parts
        else (),
    )
