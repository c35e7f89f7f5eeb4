"""``python -m explorer`` is the command ``placement-explorer``, which begins here; Ctrl-C (SIGINT) and SIGTERM end it
within two seconds, wherever it is, with a line.

In Python code an exception ends it, through all that tidies up. Code that does not come back to Python in time (a
compiler, a solver, a trace) is ended by a thread that is notified of the signal by itself.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

ENDED = 6
"""Exit status of a command that was stopped before it was done; `explorer.cli.launching` has it for runs."""
WORDS = "placement-explorer: ended before it was done"
GRACE_S = 1.5
"""From a signal until the process is ended, whatever it is doing: see `_running_s`."""
TIDY_S = 0.3
"""For what is to be done at exit, temporary files above all."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit status, see `explorer.cli`. Does not return after a signal."""
    with ended_in_time() as interrupted:
        try:
            from explorer.cli import main as command

            status = command(argv)
        except KeyboardInterrupt:
            print(WORDS, file=sys.stderr)
            status = ENDED
        if interrupted.is_set():
            with suppress(OSError):
                sys.stdout.flush()
            _leave(status)
    return status


@contextmanager
def ended_in_time() -> Iterator[threading.Event]:
    """While this lasts SIGINT and SIGTERM raise KeyboardInterrupt in the main thread, and end the process GRACE_S later
    if it is still in here. Yields whether there was one."""
    interrupted = threading.Event()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        for each in SIGNALS:  # once is enough: what tidies up is not to be disturbed
            signal.signal(each, signal.SIG_IGN)
        interrupted.set()
        os.write(writer, bytes([number]))  # an event loop may have a wakeup descriptor of its own
        raise KeyboardInterrupt

    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    unraisable, sys.unraisablehook = sys.unraisablehook, _without_interrupts
    threading.Thread(target=_watch, args=(reader, interrupted), daemon=True).start()
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        sys.unraisablehook = unraisable
        os.close(writer)


def _without_interrupts(unraisable: Any) -> None:
    """Say nothing of an interrupt where none can be raised: the watch sees to it."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def _watch(reader: int, interrupted: threading.Event) -> None:
    """End the process GRACE_S after the first of SIGNALS whose number comes out of a pipe, unless that is closed."""
    with os.fdopen(reader, "rb", buffering=0) as numbers:
        while (byte := numbers.read(1)) and byte[0] not in SIGNALS:
            pass
        if byte:
            interrupted.set()
        began_s = _running_s()
        while byte and (left_s := began_s + GRACE_S - _running_s()) > 0:
            if select.select([numbers], [], [], left_s)[0]:
                byte = numbers.read(1)
        if byte:
            with suppress(OSError):
                os.write(2, f"{WORDS}\n".encode())
            _leave(ENDED)


def _running_s() -> float:
    """Seconds in which the main thread ran, or waited for something else than a core, where the system says that: on a
    machine that is loaded a plan takes longer to be printed, and is not to be lost."""
    try:
        with open("/proc/self/schedstat", encoding="ascii") as statistics:
            starved_s = int(statistics.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        starved_s = 0.0
    return time.monotonic() - starved_s


def _leave(status: int) -> NoReturn:
    """End the process once its temporary files are gone. What Python takes down beside, module by module, is memory
    that the system takes back anyway, and takes seconds."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what is cut short has nothing to say
    tidying = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
    tidying.start()
    tidying.join(TIDY_S)
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
