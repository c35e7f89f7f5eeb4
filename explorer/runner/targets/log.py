"""What is seen of a run from outside: what it prints (progress, failures, exits), and the rank that it waits for.

A rank may be stopped or stand still while others wait; whether the kernel ended processes for want of memory is
counted, not guessed. No torch here.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from explorer.files import os_words
from explorer.runner.bundles import heartbeats
from explorer.runner.bundles.heartbeats import Heartbeat
from explorer.runner.bundles.progress import MARK as PROGRESS
from explorer.runner.bundles.words import one_line
from explorer.runner.targets.failures import EXIT, Exit, read_exit
from explorer.runner.targets.processes import state_of
from explorer.runner.targets.target import OnProgress, RunProgress
from explorer.words import text
from solvers.errors import InvalidProblem, RunError
from solvers.formats.json_fields import Field
from solvers.formats.json_text import parse_json
from solvers.formats.records import record_of

MAX_LINE_BYTES = 16 * 1024
"""Longer lines are cut into several."""
MAX_LOG_BYTES = 64 * 2**20
"""Kept of a log; what comes later is shown, but not kept."""
NOTE_MARK = "# "
"""Begins what is said here and by no process: when the run began and how it ended, so that no log is empty."""
LAST_WORDS = 300
"""Characters kept of the last line, which is shown where nothing else says why a run failed."""
LOOK_S = 1.0
"""Between two looks."""
SILENT_S = 10.0
"""How long no rank does a step before one is said to stand still."""
COUNTS = Path("/proc/vmstat")


class RunLog:
    """Takes the output of a run as it comes, line by line. exits: those reported so far; last: the last line of log
    that says something, made fit to be shown; notes: why the file lacks some of it, if it does. A disk that is full
    costs the log and not the run."""

    def __init__(self, path: Path, on_progress: OnProgress) -> None:
        self.exits: list[Exit] = []
        self.last = ""
        self.notes: tuple[str, ...] = ()
        self.progress = RunProgress("starting")
        self._on_progress = on_progress
        self._path = path
        self._rest = b""
        self._written = 0

    def __enter__(self) -> RunLog:
        try:
            self._file = self._path.open("wb")
        except OSError as error:
            raise RunError(self._trouble(error)) from None
        self._began_s = time.monotonic()
        self._note(f"begun {datetime.now(UTC).isoformat(timespec='seconds')}")
        self._on_progress(self.progress)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._rest:
            self._take(self._rest)
        self._note(f"ended after {time.monotonic() - self._began_s:.1f} s, while {self.progress.phase}")
        for end in self.exits:
            self._note(f"rank {end.rank} ended with status {end.code}")
        with contextlib.suppress(OSError):  # reported when it was written
            self._file.close()

    def feed(self, data: bytes) -> None:
        """More output; what is no whole line yet waits for the rest."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) > MAX_LINE_BYTES:
            lines.append(self._rest[:MAX_LINE_BYTES])
            self._rest = self._rest[MAX_LINE_BYTES:]
        for line in lines:
            self._take(line)

    def stall(self, words: str) -> None:
        """Which rank stands still; "": none does any more."""
        line = words or "all ranks go on"
        self._note(line)
        self._on_progress(RunProgress(self.progress.phase, self.progress.done, self.progress.of, line, line))

    def _take(self, data: bytes) -> None:
        line = data.decode("utf-8", "replace").rstrip("\r")
        for mark, hear in ((EXIT, self._hear_exit), (PROGRESS, self._hear_progress)):
            # All processes write to one pipe: another one may have left its line open, or begun its own in this one.
            before, marked, rest = line.partition(mark)
            value, brace, after = rest.partition("}")
            if marked and hear(value + brace):
                line = before + after
                if not line.strip():
                    return
        self._log(line)

    def _hear_exit(self, text: str) -> bool:
        end = read_exit(text)
        if end is not None:
            self.exits.append(end)
        return end is not None

    def _hear_progress(self, text: str) -> bool:
        progress = read_progress(text)
        if progress is not None:
            self.progress = progress
            self._on_progress(progress)
        return progress is not None

    def _log(self, line: str) -> None:
        self._write(line)
        if line.strip():
            self.last = one_line(line, LAST_WORDS)
        self._on_progress(RunProgress(self.progress.phase, self.progress.done, self.progress.of, line))

    def _note(self, line: str) -> None:
        """Something of ours, however long the log is."""
        if not self.notes:
            try:
                self._file.write(f"{NOTE_MARK}{line}\n".encode())
                self._file.flush()
            except OSError as error:
                self.notes = (self._trouble(error),)

    def _write(self, line: str) -> None:
        if self._written <= MAX_LOG_BYTES and not self.notes:
            data = (line + "\n").encode()
            self._written += len(data)
            try:
                self._file.write(
                    data if self._written <= MAX_LOG_BYTES else b"(the log was too long: the rest is left out)\n"
                )
                self._file.flush()
            except OSError as error:
                self.notes = (self._trouble(error),)

    def _trouble(self, error: OSError) -> str:
        return f"could not write {self._path} while keeping the log of the run: {os_words(error)}"


def read_progress(text: str) -> RunProgress | None:
    """What follows the mark of a progress line; None if it is no such thing, which is then log."""
    try:
        parts = Field(parse_json(text, "progress"), "progress:").fields(("phase", "done", "of"))
        return record_of(RunProgress, parts)
    except InvalidProblem:
        return None


@dataclass(frozen=True, slots=True)
class Stall:
    """rank: which one stands still. words: how, as the end of a sentence."""

    rank: int
    words: str


class Watch:
    """Looks at the ranks of a bundle now and then. It says what it sees, and ends nothing: a rank that somebody stopped
    may go on."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self.folder, self.ranks = folder, ranks
        self.stall: Stall | None = None
        """Of the last look."""
        self._looked_s = self._moved_s = 0.0
        self._before: list[Heartbeat | None] = []

    def look(self, now_s: float) -> bool:
        """Whether what is to be said has changed. now_s: of a clock that does not jump."""
        if now_s - self._looked_s < LOOK_S:
            return False
        self._looked_s, before = now_s, self.stall
        beats = [heartbeats.read(self.folder, rank) for rank in range(self.ranks)]
        if beats != self._before:
            self._before, self._moved_s = beats, now_s
        self.stall = _stopped(beats) or _silent(beats, now_s - self._moved_s)
        return (self.stall and self.stall.rank) != (before and before.rank)


def _stopped(beats: list[Heartbeat | None]) -> Stall | None:
    for rank, heartbeat in enumerate(beats):
        state = "" if heartbeat is None else state_of(heartbeat.process)
        if heartbeat is not None and state and state in "Tt":
            how = "is stopped" if state == "T" else "is stopped by a debugger"
            return Stall(
                rank, f"rank {rank} {how} (process {heartbeat.process}, at {heartbeat.at}; kill -CONT lets it go on)"
            )
    return None


def _silent(beats: list[Heartbeat | None], for_s: float) -> Stall | None:
    """The first that works, where nobody does a step and all others wait."""
    working = [rank for rank, heartbeat in enumerate(beats) if heartbeat is None or not heartbeat.waits]
    if for_s < SILENT_S or len(working) != 1 or len(beats) < 2:
        return None
    heartbeat = beats[working[0]]
    at = "has not begun" if heartbeat is None else f"(process {heartbeat.process}) has been at {heartbeat.at}"
    return Stall(working[0], f"rank {working[0]} {at} for {text.seconds(for_s)} or more, and the others wait for it")


def memory_kills() -> int | None:
    """Processes of this machine that the kernel has ended for want of memory since it started, those that reached a
    limit of their group included; None where it does not tell."""
    try:
        lines = COUNTS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.isdigit():
            return int(count)
    return None


def kills_since(before: int | None) -> int | None:
    """How many since `memory_kills` returned ``before``."""
    now = memory_kills()
    return None if now is None or before is None else now - before
