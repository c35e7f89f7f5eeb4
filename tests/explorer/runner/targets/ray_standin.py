"""A rank that computes nothing, on a cluster: it does what its "plan" says, {"do": "finish"}."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import explorer
from explorer.runner.bundles.outcome import Environment, Outcome, RunStatus
from explorer.runner.bundles.result_json import write_outcome

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FOLDER = Path(sys.argv[1])
LAST = 600.0
"""Longer than any test."""


def report(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def progress(phase: str, done: int, of: int) -> None:
    report(f"@progress {json.dumps({'phase': phase, 'done': done, 'of': of})}")


def meet() -> list[str]:
    """Rank 0 hears from every other one at the address that all were given."""
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if RANK == 0:
        received = [""] * (RANKS - 1)
        with socket.create_server(place) as server:
            server.settimeout(60.0)
            for _ in range(RANKS - 1):
                with server.accept()[0] as other:
                    number, messages = other.recv(1000).decode().split(" ")
                    received[int(number) - 1] = messages
        return received
    for _ in range(600):
        try:
            with socket.create_connection(place) as other:
                shown = [os.environ[key] for key in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES")]
                other.sendall(f"{RANK} {'/'.join(shown)}".encode())
                return []
        except OSError:
            time.sleep(0.1)
    raise SystemExit("nobody there")


def finish() -> None:
    received = meet()
    if RANK == 0:
        for step in range(1, 5):
            progress("measuring", step, 4)
            time.sleep(0.3)
        report('@failure {"status": "failed", "reason": "a rank must not speak for the job"}')
        report("\x1b[31mred and \udcff".encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        report("secrets: " + " ".join(sorted(key for key in os.environ if "TOKEN" in key)))
        request = json.loads((FOLDER / "request.json").read_text())
        environment = Environment((), (), request["backend"], "", "", int(os.environ["OMP_NUM_THREADS"]), "")
        notes = (str(explorer.__file__), os.environ["PYTHONPATH"], *received)
        outcome = Outcome(RunStatus.DONE, environment=environment, iterations_s=(0.5, 0.25) * 2000, notes=notes)
        write_outcome(FOLDER / "result.json", outcome)
    else:
        report('@progress {"phase": "of another rank", "done": 1, "of": 4}')
        report("here I am")


def fail() -> None:
    """Rank 1 says why; rank 0 then only lost its peer."""
    if RANK == 1:
        tell_failure("ValueError", "the shapes do not fit", "1F0")
        os._exit(1)
    time.sleep(1.0)
    tell_failure("RuntimeError", "Connection closed by peer [127.0.0.1]:4", "0F0")
    os._exit(1)


def tell_failure(kind: str, message: str, step: str) -> None:
    fields = {"rank": RANK, "type": kind, "message": message, "step": step}
    (FOLDER / f"failure-{RANK}.json").write_text(json.dumps(fields | {"out_of_memory": False, "expected": False}))


def killed() -> None:
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(LAST)


def hang() -> None:
    """All wait, deaf, and rank 0 has started a process that wants to be on its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if RANK == 0:
        code = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({LAST})"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        report("hanging")
        progress("measuring", 3, 10)
    time.sleep(LAST)


if __name__ == "__main__":
    {"finish": finish, "fail": fail, "killed": killed, "hang": hang}[
        json.loads((FOLDER / "plan.json").read_text())["do"]
    ]()
