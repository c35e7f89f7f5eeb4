"""Between whoever asked for a run and its processes: starts the launcher, and takes all down with itself.

    python -m explorer.runner.targets.agent PARENT COMMAND...

PARENT is the process that asked. When it is gone, or this process is asked to end, every process of the run is
ended, those too that made themselves a session of their own. The exit status is the launcher's; 128 + n where
signal n ended it. Imports no torch: it must be there at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from types import FrameType

from explorer.runner.targets.processes import MARK, adopt_orphans, die_with_parent, end_marked

POLL_S = 0.1
GRACE_S = 0.6
"""How long processes have to end by themselves before they are killed: a command ends 1.5 s after a signal, report
included."""
STOPPED = 143


def main(argv: list[str]) -> int:
    parent, command = int(argv[0]), argv[1:]
    signals: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        signals.append(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    die_with_parent()
    adopt_orphans()
    launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
    status: int | None = None
    while status is None and not signals and os.getppid() == parent:
        time.sleep(POLL_S)
        status = _reap(launcher.pid)
    if status is None:  # torchrun ends its ranks then, also where marks cannot be read
        with contextlib.suppress(ProcessLookupError):
            os.kill(launcher.pid, signal.SIGTERM)
    end_marked(os.environ.get(MARK, ""), GRACE_S if status is None else 0.5, meanwhile=lambda: _quietly(launcher.pid))
    _reap(launcher.pid)
    if status is None:
        return STOPPED
    return status if status >= 0 else 128 - status


def _reap(launcher: int) -> int | None:
    """Wait for whatever has ended, orphans too; the exit code of ``launcher`` if it is among them."""
    code: int | None = None
    with contextlib.suppress(ChildProcessError):
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                break
            if process == launcher:
                code = os.waitstatus_to_exitcode(status)
    return code


def _quietly(launcher: int) -> None:
    _reap(launcher)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # the launcher was waited for behind the back of subprocess, which would complain
