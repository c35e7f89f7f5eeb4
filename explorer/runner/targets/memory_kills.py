"""Whether the kernel ended processes of this machine for want of memory: counted, not guessed."""

from __future__ import annotations

from pathlib import Path

COUNTS = Path("/proc/vmstat")


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
