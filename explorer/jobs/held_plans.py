"""The plans that a worker made last, or was given, whole: a page knows them by name only, and runs them by it.

The plan on the page is also taken over to the next question: something to look at while that is searched. It is a
picture only. The search does not start from it, so that a question has the same answer whatever was asked before; where
what was taken over happens to be better, the answer says so.
"""

from __future__ import annotations

import math
import secrets
import time
import zlib
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from explorer.jobs.requests import PlanSource
from explorer.question.loading import read_file
from explorer.question.packing import PackedPlan, packed_plan, unpacked_plan
from explorer.words import text
from solvers.errors import InvalidProblem, PlacementError
from solvers.evaluation.evaluate import judge
from solvers.formats.plan_json import PlanFile, read_plan, write_plan
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.planners.carry import carried
from solvers.problem.problem import Problem

MOST_PLANS = 256
"""Of a comparison every row can be shown, and run."""
MAX_TEXT_BYTES = 512 * 2**20

_numbers = count(1)
_process = secrets.token_hex(4)
_held: OrderedDict[str, tuple[Result, str]] = OrderedDict()
_fresh: deque[str] = deque(maxlen=MOST_PLANS)

WORTH_SAYING = 0.002
"""Relative difference from which on a plan is better to people."""
LONGEST_S = 1.0
"""Beyond this the search shows something of its own soon."""


def hold(result: Result, reference: str) -> str:
    """Keep a result's plan; its name, or "" if it has none. reference: of the model."""
    if result.plan is None:
        return ""
    name = f"plan-{_process}-{next(_numbers)}"
    _put(name, result, reference)
    _fresh.append(name)
    return name


def newly_held() -> Iterator[tuple[str, PackedPlan]]:
    """The plans that were made here since the last call, with their names, to be given to another process."""
    while _fresh:
        name = _fresh.popleft()
        if name in _held:
            yield name, packed_plan(*_held[name])


def take(name: str, packed: PackedPlan) -> None:
    """Hold a plan that another worker made."""
    if name not in _held:
        _put(name, *unpacked_plan(packed))


def _put(name: str, result: Result, reference: str) -> None:
    _held[name] = (result, reference)
    while len(_held) > MOST_PLANS:
        _held.popitem(last=False)


def file_of(name: str) -> PlanFile:
    """A plan that is held, as its file would be read. Raises InvalidProblem if it no longer is."""
    held = _held.get(name)
    if held is None or held[0].plan is None:
        raise InvalidProblem("this plan is no longer held by the solver: solve again, then run it")
    result, reference = held
    return PlanFile(result.problem, held[0].plan, result, reference)


def result_of(name: str) -> tuple[Result, str]:
    """A result that is held, and the reference of its model. Raises InvalidProblem if it no longer is."""
    held = _held.get(name)
    if held is None:
        raise InvalidProblem("this plan is no longer held by the solver: solve again")
    return held


def file_from(source: PlanSource) -> PlanFile:
    """A plan from wherever it is. Raises InvalidProblem in one line."""
    if source.text is not None:
        return read_plan(unpacked_text(source.text))
    if source.path:
        return read_plan(read_file(source.path), source.path)
    return file_of(source.held)


def text_of(file: PlanFile) -> bytes:
    """The packed plan.json."""
    return packed_text(write_plan(file.problem, file.plan, file.result, file.reference))


def packed_text(text: str) -> bytes:
    return zlib.compress(text.encode(), 1)


def unpacked_text(data: bytes) -> str:
    """Only for what `packed_text` made in this program. Raises InvalidProblem if it is too large."""
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(data, MAX_TEXT_BYTES)
    if unpacking.unconsumed_tail:
        raise InvalidProblem(f"the plan's file has more than {MAX_TEXT_BYTES:,} bytes")
    return text.decode()


def carried_picture(problem: Problem, held: str) -> tuple[Plan, float] | None:
    """The plan that is held by that name as one for ``problem``, with its objective in seconds; None if it is of
    another graph, fits no more, or is held no longer."""
    began = time.perf_counter()
    try:
        file = file_of(held)
        if file.problem.graph is not problem.graph and file.problem.graph != problem.graph:
            return None  # equal ones are two where another worker found the plan
        for plan in carried(problem, file.plan):
            judged = judge(problem, plan)
            if judged.feasible and math.isfinite(judged.objective_s):
                return plan, judged.objective_s
            if time.perf_counter() - began > LONGEST_S:
                return None
    except PlacementError:
        pass
    return None


def with_carried_note(outcome: Result, carried_s: float) -> Result:
    """The answer, with a note where the plan that was taken over is better than what the search found."""
    if outcome.plan is None or carried_s >= outcome.objective_s * (1 - WORTH_SAYING):
        return outcome
    better = text.percent(1 - carried_s / outcome.objective_s)
    note = f"the previous plan, adapted to this question, is {better} faster: more effort may find it or better"
    return replace(outcome, notes=(*outcome.notes, note))
