"""Print the course of a search: who found what, and when."""

from __future__ import annotations

import math

from explorer.words import text
from solvers.plan.result import Progress, Result


def print_course(result: Result) -> None:
    """A line for every better plan, every higher bound and every phase, under a heading."""
    print()
    print("after       by                  objective       bound")
    for step in course(result):
        found = text.seconds(step.objective_s) if math.isfinite(step.objective_s) else "–"
        member = step.member or result.planner
        line = f"{text.seconds(step.elapsed_s):<10}  {member:<18}  {found:<14}  {text.seconds(step.bound_s):<10}"
        print(f"{line}  {step.note}".rstrip())


def course(result: Result) -> list[Progress]:
    """The steps at which the best objective or the bound changed by what people see, or something was said."""
    kept: list[Progress] = []
    for step in result.trace:
        last = kept[-1] if kept else None
        same = last is not None and (
            text.seconds(last.objective_s) == text.seconds(step.objective_s)
            and text.seconds(last.bound_s) == text.seconds(step.bound_s)
        )
        if not same or step.note:
            kept.append(step)
    return kept
