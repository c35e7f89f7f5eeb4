"""A rank that computes nothing: it ends, fails or hangs as $STANDIN says, and leaves its id in the bundle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from explorer.runner.bundles import heartbeats
from explorer.runner.bundles.outcome import Agreement, Environment, MeasuredAction, MeasuredMessage, Outcome, RunStatus
from explorer.runner.bundles.result_json import write_outcome

RANK = int(os.environ.get("RANK", "0"))
FOLDER = Path(sys.argv[-1])
LAST = 600.0
"""Longer than any test."""


def report(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def fail(kind: str, message: str, step: str = "", *, out_of_memory: bool = False, expected: bool = False) -> None:
    fields = {"rank": RANK, "type": kind, "message": message, "step": step}
    fields |= {"out_of_memory": out_of_memory, "expected": expected}
    (FOLDER / f"failure-{RANK}.json").write_text(json.dumps(fields))
    os._exit(1)


def is_alive(process: int) -> bool:
    """Whether it has not ended yet, be it waited for or not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def finish() -> None:
    if RANK == 0:
        report('@progress {"phase": "tracing", "done": 0, "of": 0}\n')
        report(f"threads {os.environ['OMP_NUM_THREADS']}\n")
        report('a line left open @progress {"phase": "measuring", "done": 1, "of": 2}\n')
        report('@progress {"phase": "measuring", "done": -1, "of": 2}\n')
        write_outcome(FOLDER / "result.json", Outcome(RunStatus.DONE, iterations_s=(0.5, 0.25)))


def measure() -> None:
    """Three passes of `tests.explorer.runner.two_ranks`, of 8, 12 and 10 s; each rank computes 3 s."""
    if RANK == 0:
        actions = [
            MeasuredAction(rank, i, f"{rank}F0", 4.0 * rank, 4.0 * rank + 3.0, 4.0 * rank)
            for i in range(3)
            for rank in (0, 1)
        ]
        messages = [MeasuredMessage(0, 0, 0, 1, i, "0SEND0", 4, 3.0, 4.0, True) for i in range(3)]
        environment = Environment(("here", "here"), ("a CPU", "a CPU"), "gloo", "2.13.0", "3.11.7", 1, "2026-11-21")
        outcome = Outcome(
            RunStatus.DONE,
            environment=environment,
            iterations_s=(8.0, 12.0, 10.0),
            actions=tuple(actions),
            messages=tuple(messages),
            segments=((0,), (1,)),
            rank_devices=(0, 1),
            peak_bytes=(1024.0, 2048.0),
            losses=(2.5, 2.25, 2.0),
            noise=0.01,
            agreement=Agreement(1e-12, 2e-12, 0.0, "head.weight", "float64"),
        )
        write_outcome(FOLDER / "result.json", outcome)


def crash_late() -> None:
    if RANK == 0:
        write_outcome(FOLDER / "result.json", Outcome(RunStatus.DONE, iterations_s=(0.5,)))
        os._exit(3)


def damage() -> None:
    if RANK == 0:
        (FOLDER / "result.json").write_text('{"format": "placement-explorer/run"')


def fail_alone() -> None:
    """Rank 1 fails; the others wait for it and do not listen."""
    if RANK == 1:
        fail("ValueError", "the shapes do not fit", "1F0")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(LAST)


def refuse() -> None:
    if RANK == 0:
        fail("RunError", "2 ranks need 2 GPUs on this host, found 0; run with --backend cpu", expected=True)
    time.sleep(LAST)


def lost_in_thought() -> None:
    """Rank 1 fails, and does not know where."""
    if RANK == 0:
        report('@progress {"phase": "measuring", "done": 3, "of": 10}\n')
        (FOLDER / "said").touch()
    else:
        while not (FOLDER / "said").exists():
            time.sleep(0.02)
        fail("ValueError", "no")
    time.sleep(LAST)


def no_memory() -> None:
    if RANK == 1:
        fail("RuntimeError", "can't allocate memory: you tried to allocate 4 bytes", "1B0", out_of_memory=True)
    while not (FOLDER / "failure-1.json").exists():
        time.sleep(0.02)
    fail("RuntimeError", "Connection closed by peer [127.0.0.1]:4", "0B0")


def killed() -> None:
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while not (FOLDER / "pid-1").exists():
        time.sleep(0.02)
    while is_alive(int((FOLDER / "pid-1").read_text())):
        time.sleep(0.02)
    fail("RuntimeError", "[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4", "0F0")


def crash() -> None:
    if RANK == 1:
        report("Fatal Python error: something\n")
        os._exit(3)
    time.sleep(LAST)


def mumble() -> None:
    """The launcher is ended before it can say anything."""
    if RANK == 0:
        report("\x1b[31mfatal: no room\x1b[0m\n \n")
        os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(LAST)


def hang() -> None:
    """All wait, deaf, and rank 0 has started a process that wants to be on its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if RANK == 0:
        code = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({LAST})"
        child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        (FOLDER / "part-child").write_text(str(child.pid))
        (FOLDER / "part-child").rename(FOLDER / "pid-child")
        while not (FOLDER / "pid-1").exists():
            time.sleep(0.02)
        report('@progress {"phase": "measuring", "done": 3, "of": 10}\n')
    time.sleep(LAST)


def stopped() -> None:
    """Rank 1 is stopped at a step, for good."""
    heartbeats.begin(FOLDER, RANK)
    if RANK == 1:
        heartbeats.at("1F0")
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(LAST)


def silent() -> None:
    """Rank 0 waits for rank 1, which takes as long as it likes."""
    heartbeats.begin(FOLDER, RANK)
    heartbeats.at(f"{RANK}F0", waits=RANK == 0)
    time.sleep(LAST)


def main() -> None:
    part = FOLDER / f"part-{RANK}"
    part.write_text(str(os.getpid()))
    part.rename(FOLDER / f"pid-{RANK}")
    globals()[os.environ["STANDIN"]]()


if __name__ == "__main__":
    main()
