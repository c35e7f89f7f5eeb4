"""What went wrong in a run: what ranks say of their own failure, how they ended, and which caused it. No torch here."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from explorer.runner.bundles.outcome import MAX_RANKS, Rank
from explorer.runner.bundles.words import Words, line
from explorer.words import text
from solvers.errors import InvalidProblem, PlacementError
from solvers.formats.json_fields import Field
from solvers.formats.json_text import file_bytes, parse_json
from solvers.formats.plan_json import read_plan
from solvers.formats.records import Within, read_record, record_of

EXIT = "@exit "
MAX_FAILURE_BYTES = 2**16
_NAME = re.compile(r"failure-(\d{1,4})\.json")
_LOST_PEER = re.compile(
    r"connection (closed|reset|refused|was)|closed by (the )?(remote )?peer|broken pipe|timed? ?out|timeout"
    r"|remote process|peer .*(exited|left|gone)|socket|store->|watchdog",
    re.IGNORECASE,
)
"""What a rank says when another one left it alone."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What a rank wrote before it gave up. type: of the error ("MemoryError"); step: "2F0", or the phase it was in;
    out_of_memory: whether that is why; expected: whether the message is one for people, and needs no type;
    when_s: of the wall clock."""

    rank: int
    type: Annotated[str, line(200)]
    message: Words
    step: Annotated[str, line(200)] = ""
    out_of_memory: bool = False
    expected: bool = False
    when_s: float = 0.0

    @property
    def is_consequence(self) -> bool:
        """Whether it says no more than that another rank was lost."""
        return bool(_LOST_PEER.search(self.message))


@dataclass(frozen=True, slots=True)
class Exit:
    """How a rank ended: its exit code, or minus the signal that ended it."""

    rank: Rank
    code: Annotated[int, Within(-1000, 1000)]


def read_failures(folder: Path) -> list[Failure]:
    """The failures that ranks left in the bundle, the earliest first; what is no such thing is passed over."""
    failures = []
    for path in folder.glob("failure-*.json"):
        match = _NAME.fullmatch(path.name)
        if match is None or int(match[1]) >= MAX_RANKS:
            continue
        try:
            failures.append(_read(int(match[1]), path))
        except InvalidProblem:
            continue
    return sorted(failures, key=lambda failure: failure.when_s)


def has_failures(folder: Path) -> bool:
    return any(_NAME.fullmatch(path.name) for path in folder.glob("failure-*.json"))


def exit_line(rank: int, code: int) -> str:
    return EXIT + json.dumps({"rank": rank, "code": code})


def read_exit(text: str) -> Exit | None:
    """The exit that follows the mark in a line of a launcher, if it does."""
    try:
        return read_record(Field(parse_json(text, "exit"), "exit:"), Exit)
    except InvalidProblem:
        return None


def explain(
    failures: Sequence[Failure],
    exits: Sequence[Exit],
    predicted_peak: Callable[[int], float | None],
    during: str = "",
    memory_kills: int | None = None,
) -> tuple[str, int]:
    """(reason in one line, rank that caused it) or ("", -1) where neither says anything.

    A rank that a signal killed comes before one that says why it failed, and that before one that only
    lost its peer; SIGTERM is what the others get when one of them fails. predicted_peak: rank -> bytes.
    during: what the run was doing ("measuring (3 of 10)"), shown where a rank does not say at which step it was.
    memory_kills: how many processes the kernel ended meanwhile for want of memory, where it is known.
    """
    killed = [end for end in exits if end.code < 0 and end.code != -signal.SIGTERM]
    causes = [failure for failure in failures if not failure.is_consequence]
    spoken = {failure.rank for failure in failures}
    if killed and killed[0].rank not in spoken:
        return _killed(killed[0], predicted_peak, during, memory_kills), killed[0].rank
    if causes:
        chosen = next((failure for failure in causes if failure.out_of_memory), causes[0])
        return _failed(chosen, predicted_peak, during), chosen.rank
    silent = [end for end in exits if end.code not in (0, -signal.SIGTERM) and end.rank not in spoken]
    if silent:
        return f"rank {silent[0].rank} ended with status {silent[0].code}; the log may say why", silent[0].rank
    if failures:
        return _failed(failures[0], predicted_peak, during), failures[0].rank
    if exits:
        return _killed(exits[0], predicted_peak, during, memory_kills), exits[0].rank
    return "", -1


def predicted_peak_bytes(plan_text: str, rank: int) -> float | None:
    """Bytes that the device of ``rank`` holds at most, as its plan says; None where that does not tell."""
    from solvers.evaluation.evaluate import evaluate

    try:
        file = read_plan(plan_text)
        devices, device = file.plan.devices_used(), rank // file.problem.graph.tensor_parallel
        return evaluate(file.problem, file.plan).peak_memory_bytes[devices[device]] if device < len(devices) else None
    except PlacementError:
        return None


def _killed(end: Exit, predicted_peak: Callable[[int], float | None], during: str, memory_kills: int | None) -> str:
    number = -end.code
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    words = f"rank {end.rank} was killed (signal {number}, {name}){f' while {during}' if during else ''}"
    if number == signal.SIGKILL and memory_kills:
        ended = "a process" if memory_kills == 1 else f"{memory_kills} processes"
        return f"{words}: the kernel ended {ended} for want of memory{_peak_words(end.rank, predicted_peak)}"
    return words


def _failed(failure: Failure, predicted_peak: Callable[[int], float | None], during: str) -> str:
    at = f" at {failure.step}" if failure.step else ""
    if not at and during and not failure.expected:
        at = f" while {during}"
    if failure.out_of_memory:
        return f"rank {failure.rank} is out of memory{at}{_peak_words(failure.rank, predicted_peak)}"
    if failure.expected:
        return f"rank {failure.rank}{at}: {failure.message}"
    return f"rank {failure.rank} failed{at}: {failure.type}: {failure.message}"


def _peak_words(rank: int, predicted_peak: Callable[[int], float | None]) -> str:
    peak = predicted_peak(rank)
    return "" if peak is None else f"; predicted peak {text.nbytes(peak)}"


def _read(rank: int, path: Path) -> Failure:
    value = parse_json(file_bytes(path, MAX_FAILURE_BYTES), path.name)
    parts = Field(value, f"{path.name}:").fields_among_others(("type", "message"))
    return record_of(Failure, parts, rank=rank, when_s=path.stat().st_mtime)
