"""The plans that a worker made last, or was given, whole: a page knows them by name only, and runs them by it."""

from __future__ import annotations

import secrets
import zlib
from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import count

from explorer.jobs.requests import PlanSource
from explorer.question.loading import read_file
from explorer.question.packing import PackedPlan, packed_plan, unpacked_plan
from solvers.errors import InvalidProblem
from solvers.formats.plan_json import PlanFile, read_plan, write_plan
from solvers.plan.result import Result

KEPT = 256
"""Of a comparison every row can be shown, and run."""
MAX_TEXT_BYTES = 512 * 2**20

_numbers = count(1)
_process = secrets.token_hex(4)
_held: OrderedDict[str, tuple[Result, str]] = OrderedDict()
_fresh: deque[str] = deque(maxlen=KEPT)


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
    while len(_held) > KEPT:
        _held.popitem(last=False)


def file_of(name: str) -> PlanFile:
    """A plan that is held, as its file would be read. Raises InvalidProblem if it no longer is."""
    found = _held.get(name)
    if found is None or found[0].plan is None:
        raise InvalidProblem("this plan is no longer held by the solver: solve again, then run it")
    result, reference = found
    return PlanFile(result.problem, found[0].plan, result, reference)


def result_of(name: str) -> tuple[Result, str]:
    """A result that is held, and the reference of its model. Raises InvalidProblem if it no longer is."""
    found = _held.get(name)
    if found is None:
        raise InvalidProblem("this plan is no longer held by the solver: solve again")
    return found


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
    found = unpacking.decompress(data, MAX_TEXT_BYTES)
    if unpacking.unconsumed_tail:
        raise InvalidProblem(f"the plan's file has more than {MAX_TEXT_BYTES:,} bytes")
    return found.decode()
