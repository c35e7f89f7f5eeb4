"""What is seen of a run from outside: the rank that it waits for, one that is stopped or stands still while others
wait, and whether the kernel ended processes for want of memory: counted, not guessed. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from explorer.runner.bundles import heartbeats
from explorer.runner.bundles.heartbeats import Heartbeat
from explorer.runner.targets.processes import state_of
from explorer.words import text

LOOK_S = 1.0
"""Between two looks."""
SILENT_S = 10.0
"""How long no rank does a step before one is said to stand still."""
COUNTS = Path("/proc/vmstat")


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
        found = [heartbeats.read(self.folder, rank) for rank in range(self.ranks)]
        if found != self._before:
            self._before, self._moved_s = found, now_s
        self.stall = _stopped(found) or _silent(found, now_s - self._moved_s)
        return (self.stall and self.stall.rank) != (before and before.rank)


def _stopped(found: list[Heartbeat | None]) -> Stall | None:
    for rank, beat in enumerate(found):
        state = "" if beat is None else state_of(beat.process)
        if beat is not None and state and state in "Tt":
            how = "is stopped" if state == "T" else "is stopped by a debugger"
            return Stall(rank, f"rank {rank} {how} (process {beat.process}, at {beat.at}; kill -CONT lets it go on)")
    return None


def _silent(found: list[Heartbeat | None], for_s: float) -> Stall | None:
    """The first that works, where nobody does a step and all others wait."""
    working = [rank for rank, beat in enumerate(found) if beat is None or not beat.waits]
    if for_s < SILENT_S or len(working) != 1 or len(found) < 2:
        return None
    beat = found[working[0]]
    at = "has not begun" if beat is None else f"(process {beat.process}) has been at {beat.at}"
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
    """How many since `memory_kills` told ``before``."""
    now = memory_kills()
    return None if now is None or before is None else now - before
