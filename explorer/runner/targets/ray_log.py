"""What comes back from a job on a Ray cluster: its log, of which some lines are ours. Of a run:

    @result 2/7 eJyN...                a part of rank 0's result.json, zipped, in base64
    @rank-failure 1 {"type": ...}      the failure-1.json that rank 1 left
    @failure {"status": ..., ...}      why the job itself gave up, without or beside the above

and what the processes of a run print anywhere: progress, exits, log. The functions write these lines on the cluster,
`JobLog` reads them here, where they are a stranger's text: limited in size, and nothing is taken on trust. Other kinds
of work have lines of their own (`explorer.sweeps.execution.job_text`), packed and read by the same functions.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from explorer.runner.bundles.outcome import MAX_RANKS, RunStatus
from solvers.errors import InvalidProblem, RunError, printable
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, parse_json
from solvers.formats.records import read_record, record_json

RESULT, RANK_FAILURE, FAILURE = "@result ", "@rank-failure ", "@failure "
MAX_RESULT_BYTES = 128 * 2**20
"""Of a result.json, unzipped."""
PART = 8_000
"""Characters of the base64 text in a line."""
MAX_PARTS = 5_000
MAX_LINE = 16_000
MAX_REASON = 2_000
_PART = re.compile(r"@result (\d{1,6})/(\d{1,6}) ([A-Za-z0-9+/=]+)")
_RANK_FAILURE = re.compile(r"@rank-failure (\d{1,4}) (\{.*\})")


def clean_line(line: str) -> str:
    """A line that cannot steer a terminal, of at most MAX_LINE characters."""
    cut = line.rstrip("\r\n")[:MAX_LINE].replace("\t", "    ")
    return printable(cut)


def reason_of(field: Field) -> str:
    """What a job gave as its reason, in a line that no terminal obeys."""
    return clean_line(" ".join(field.text(MAX_REASON).split()))


@dataclass(frozen=True, slots=True)
class JobFailure:
    """Why a job gave up: FAILED or TIME_LIMIT, in a line."""

    status: RunStatus
    reason: Annotated[str, reason_of]


def packed_lines(mark: str, text: str) -> list[str]:
    """The lines that carry ``text``, zipped, in base64, each beginning with ``mark`` and its number of so many."""
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    parts = [packed[start : start + PART] for start in range(0, len(packed), PART)]
    return [f"{mark}{number}/{len(parts)} {part}" for number, part in enumerate(parts, 1)]


def unpacked(parts: Sequence[str], most_bytes: int) -> str | None:
    """What these parts carry; None where they are damaged, or carry more."""
    try:
        unpack = zlib.decompressobj()
        data = unpack.decompress(base64.b64decode("".join(parts), validate=True), most_bytes)
        return data.decode() if unpack.eof and not unpack.unused_data else None
    except (binascii.Error, zlib.error, UnicodeDecodeError):
        return None


@dataclass(eq=False)
class GrowingText:
    """A job's log, which is fetched whole and longer each time."""

    _read: int = 0

    def new_lines(self, text: str, ended: bool) -> list[str]:
        """Lines that were not there before. A last one without its end waits for it, unless the job has ``ended``."""
        end = len(text) if ended else text.rfind("\n") + 1
        if end <= self._read:
            return []
        new, self._read = text[self._read : end], end
        return [line for line in new.splitlines() if line]


def result_lines(text: str) -> list[str]:
    """The lines that carry ``text``. Raises RunError if it is too large to be sent."""
    size, lines = len(text.encode()), packed_lines(RESULT, text)
    if size > MAX_RESULT_BYTES or len(lines) > MAX_PARTS:
        raise RunError(f"the result of {size:,} bytes is too large to be sent back; measure fewer steps")
    return lines


def rank_failure_line(rank: int, text: str) -> str:
    """text: of a failure file, in JSON."""
    return f"{RANK_FAILURE}{rank} {' '.join(text.split())}"


def failure_line(failure: JobFailure) -> str:
    return FAILURE + dump_json(record_json(replace(failure, reason=failure.reason[:MAX_REASON])))


class JobLog:
    """Reads a job's log, which is given whole and longer each time.

    failure: what the job said that it gave up for; rank_failures: rank -> the text of its failure file.
    """

    def __init__(self) -> None:
        self._growing = GrowingText()
        self._parts: list[str] = []
        self._of = 0
        self.failure: JobFailure | None = None
        self.rank_failures: dict[int, str] = {}

    def feed(self, text: str, *, ended: bool = False) -> str:
        """What is new in ``text`` and not for us, in lines that no terminal obeys."""
        lines = self._growing.new_lines(text, ended)
        return "".join(f"{clean_line(line)}\n" for line in lines if not self._takes(line))

    def result_text(self) -> str | None:
        """The result.json that came, or None. Raises RunError if only a part of it came, or it is damaged."""
        if not self._parts:
            return None
        if len(self._parts) != self._of:
            raise RunError(f"of the result only {len(self._parts)} of {self._of} parts came back")
        if (text := unpacked(self._parts, MAX_RESULT_BYTES)) is None:
            raise RunError("the result that came back is damaged or too large")
        return text

    def _takes(self, line: str) -> bool:
        """Whether the line is one of ours; what is not well formed is log, and may show what went wrong."""
        if line.startswith(RESULT):
            return self._take_part(line)
        if line.startswith(RANK_FAILURE):
            match = _RANK_FAILURE.fullmatch(line[:MAX_LINE])
            if match is None or int(match[1]) >= MAX_RANKS:
                return False
            self.rank_failures.setdefault(int(match[1]), match[2])
            return True
        if line.startswith(FAILURE):
            failure = _read_failure(line[:MAX_LINE])
            self.failure = self.failure or failure
            return failure is not None
        return False

    def _take_part(self, line: str) -> bool:
        """Parts come whole and in order; if not, fewer than stated are there in the end."""
        match = _PART.fullmatch(line)
        if match is None or not int(match[1]) == len(self._parts) + 1 <= int(match[2]) <= MAX_PARTS:
            return False
        self._of = int(match[2])
        self._parts.append(match[3])
        return True


def _read_failure(line: str) -> JobFailure | None:
    try:
        return read_record(Field(parse_json(line.removeprefix(FAILURE), "line"), "line"), JobFailure)
    except InvalidProblem:
        return None
