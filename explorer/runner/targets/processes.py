"""The processes of one run: known by a mark in their environment, ended together, none left behind.

A mark and not a session or a group: torchrun starts every rank in a session of its own. Linux has the
environment of a process in /proc; elsewhere only the group of the one that was started is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection

MARK = "PLACEMENT_EXPLORER_RUN"
"""The environment variable that every process of a run carries; its value is the run's."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SWEEPS = 50


def new_mark() -> str:
    return os.urandom(8).hex()


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Get signal ``number`` when the process (rather: the thread) that started this one ends. Linux only."""
    parent = os.getppid()
    _prctl(_PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:  # it ended in between
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ended. Linux only."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def marked(mark: str) -> list[int]:
    """The processes that carry ``mark``, this one left out. One that has ended and was not waited for is none."""
    needle = f"{MARK}={mark}".encode()
    processes = []
    for name in _process_names():
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                carries = needle in file.read().split(b"\0")
        except OSError:  # ended meanwhile, or somebody else's
            continue
        if carries and int(name) != os.getpid():
            processes.append(int(name))
    return processes


def end_marked(
    mark: str, grace_s: float, spare: Collection[int] = (), meanwhile: Callable[[], None] = lambda: None
) -> None:
    """End all that carry ``mark``: asked to at first, killed after ``grace_s``. meanwhile is called while waiting.

    One that was seen is waited for until it has ended: a process that is being killed, or is just becoming another
    program, has no environment to read and still holds its devices.
    """
    seen: dict[int, str] = {}

    def left() -> list[int]:
        for process in marked(mark):
            if process not in spare and (began := _running_since(process)):
                seen[process] = began
        for process, began in tuple(seen.items()):
            if _running_since(process) != began:
                del seen[process]
        return list(seen)

    for process in left():
        _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
        meanwhile()
    for _ in range(_SWEEPS):  # one may have started another between two looks
        remaining = left()
        if not remaining:
            return
        for process in remaining:
            _signal(process, signal.SIGKILL)
        time.sleep(0.02)
        meanwhile()


def state_of(process: int) -> str:
    """The letter that Linux has for it: "T" where it is stopped, "t" by a debugger; "" where that is not known."""
    return _stat(process)[0]


def _running_since(process: int) -> str:
    """When a process was started, in ticks since the machine was; "" if it has ended, waited for or not."""
    state, began = _stat(process)
    return "" if state in "ZX" else began


def _stat(process: int) -> tuple[str, str]:
    """(its state, when it was started); empty where there is none."""
    try:
        with open(f"/proc/{process}/stat") as file:
            after_name = file.read().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return after_name[0], after_name[19]


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def _process_names() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
