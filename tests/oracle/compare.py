"""Whether the columns tell of a plan what the objects tell."""

from __future__ import annotations

import math

from solvers.errors import InvalidPlan
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Plan
from solvers.plan.schedule import MemoryCurve, Schedule
from solvers.problem.problem import Objective, Problem
from tests.oracle.simulate import simulate as simulate_objects

RELATIVE = 1e-9


def disagreement(problem: Problem, plan: Plan, objective: Objective) -> str:
    """The first thing that the two tell differently; "" if they agree."""
    expected, actual = (
        _outcome(simulate_objects, problem, plan, objective),
        _outcome(simulate, problem, plan, objective),
    )
    if isinstance(expected, str) or isinstance(actual, str):
        return "" if isinstance(expected, str) and isinstance(actual, str) else f"{expected!r} and {actual!r}"
    return _of_spans(expected, actual) or _of_memory(expected, actual)


def _outcome(run, problem: Problem, plan: Plan, objective: Objective) -> Schedule | str:  # type: ignore[no-untyped-def]
    try:
        return run(problem, plan, objective)  # type: ignore[no-any-return]
    except InvalidPlan as error:
        return f"{type(error).__name__}: {error}"


def _of_spans(expected: Schedule, actual: Schedule) -> str:
    if len(expected) != len(actual):
        return f"{len(expected)} spans and {len(actual)}"
    if expected.shared != actual.shared:
        return f"shared {expected.shared} and {actual.shared}"
    a = sorted(expected.spans, key=_key)
    b = sorted(actual.spans, key=_key)
    for one, other in zip(a, b, strict=True):
        same = (one.action, one.resource, one.device, one.operator, one.to_device) == (
            other.action, other.resource, other.device, other.operator, other.to_device,
        )  # fmt: skip
        if not same or not all(
            math.isclose(x, y, rel_tol=RELATIVE, abs_tol=1e-12)
            for x, y in ((one.start_s, other.start_s), (one.end_s, other.end_s), (one.nbytes, other.nbytes))
        ):
            return f"{one} and {other}"
    ends = [schedule.spans[schedule.critical[-1]].end_s for schedule in (expected, actual)]
    return "" if math.isclose(*ends, rel_tol=RELATIVE) else f"critical paths end at {ends}"


def _key(span):  # type: ignore[no-untyped-def]
    return (
        span.resource, round(span.start_s, 7), round(span.end_s, 7), span.action, span.device, span.operator,
        span.nbytes,
    )  # fmt: skip


def _of_memory(expected: Schedule, actual: Schedule) -> str:
    for device, (one, other) in enumerate(zip(expected.memory, actual.memory, strict=True)):
        if not math.isclose(one.peak_bytes, other.peak_bytes, rel_tol=RELATIVE):
            return f"device {device}: peaks {one.peak_bytes} and {other.peak_bytes}"
        if not math.isclose(one.static_bytes, other.static_bytes, rel_tol=RELATIVE):
            return f"device {device}: static {one.static_bytes} and {other.static_bytes}"
        for a, b in ((one, other), (other, one)):
            late = next((t for t, held in zip(a.times_s, a.nbytes, strict=True) if not _holds(b, t, held)), None)
            if late is not None:
                return f"device {device}: other bytes at {late} s: {one} and {other}"
    return ""


def _holds(curve: MemoryCurve, time_s: float, nbytes: float) -> bool:
    """Whether a curve has these bytes at an instant that rounds to this one."""
    slack = 1e-9 * max(1.0, abs(time_s))
    level, near = math.nan, []
    for t, held in zip(curve.times_s, curve.nbytes, strict=True):
        if t > time_s + slack:
            break
        if t >= time_s - slack:
            near.append(held)
        level = held
    return any(math.isclose(nbytes, held, rel_tol=RELATIVE, abs_tol=1e-6) for held in [*near, level])
