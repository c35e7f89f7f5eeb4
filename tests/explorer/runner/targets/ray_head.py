"""A Ray head of its own for tests, on loopback, guarded by a token, gone without a trace at the end."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[4]
MARK = "PLACEMENT_EXPLORER_TEST_HEAD"
START_S, END_S = 120.0, 20.0


@dataclass(frozen=True)
class Head:
    """address, token: where and how to ask it. mark: in the environment of all that it starts; some overwrite
    theirs, but these stay in the sessions of the two that were started, whose numbers are those of these."""

    address: str
    token: str
    mark: str
    sessions: list[int] = field(default_factory=list)

    def processes(self) -> list[int]:
        """All that the head started and that still is."""
        needle = f"{MARK}={self.mark}".encode()
        return [process for process in _processes() if _session(process) in self.sessions or _carries(process, needle)]

    def kill(self) -> None:
        """Everything at once, as when the machine loses its power."""
        deadline = time.monotonic() + END_S
        while (left := self.processes()) and time.monotonic() < deadline:
            for process in left:
                _signal(process, signal.SIGKILL)
            time.sleep(0.05)


@contextmanager
def running_head(cpus: int) -> Iterator[Head]:
    """A head and a second node, as if of another host, with ``cpus`` CPUs each and no GPU. At the end nothing of
    them is left, however the tests went."""
    with ExitStack() as stack:
        # a short path: sockets below it must have names of at most 107 bytes
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ray", dir="/tmp")))
        address, control, agent, other_agent, client = free_ports(5)
        head = Head(f"http://127.0.0.1:{address}", secrets.token_hex(20), secrets.token_hex(8))
        log = stack.enter_context((folder / "head.log").open("wb"))
        each = (
            *("--block", "--disable-usage-stats", "--include-log-monitor=false", "--object-store-memory=80000000"),
            *("--min-worker-port=0", "--max-worker-port=0", f"--num-cpus={cpus}", "--num-gpus=0"),
        )
        first = (
            *("--head", "--node-ip-address=127.0.0.1", f"--port={control}", f"--ray-client-server-port={client}"),
            *("--dashboard-host=127.0.0.1", f"--dashboard-port={address}", f"--temp-dir={folder}/r"),
            f"--dashboard-agent-listen-port={agent}",
        )
        second = (f"--address=127.0.0.1:{control}", f"--dashboard-agent-listen-port={other_agent}")
        started: list[subprocess.Popen[bytes]] = []

        def start(*options: str) -> None:
            command = [sys.executable, "-m", "ray.scripts.scripts", "start", *options, *each]
            started.append(
                subprocess.Popen(
                    command,
                    env=environment(head),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=folder,
                    start_new_session=True,
                )
            )
            head.sessions.append(started[-1].pid)

        try:
            start(*first)
            wait_until(lambda: _answer(head, "/api/version") is not None, started[0], folder / "head.log")
            start(*second)
            wait_until(lambda: len(_nodes(head)) == 2, started[1], folder / "head.log")
            yield head
        finally:
            for process in reversed(started):
                process.terminate()
            for process in reversed(started):
                try:
                    process.wait(END_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            head.kill()
        assert head.processes() == []


def environment(head: Head) -> dict[str, str]:
    without_ray = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    return {
        **without_ray,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": str(ROOT),  # the stand-in ranks are there
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": head.token,
        "RAY_USAGE_STATS_ENABLED": "0",
        MARK: head.mark,
    }


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the node that ``process`` starts is there. Raises AssertionError with the last words if it is not."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError(f"a node of Ray did not start: {log.read_text(errors='replace')[-3000:]}")


def _nodes(head: Head) -> list[object]:
    """Those that the head knows. It repeats an answer for two seconds to who asks the same."""
    shown = _answer(head, f"/nodes?view=summary&asked={time.monotonic_ns()}")
    return [] if shown is None else list(json.loads(shown)["data"]["summary"])


def _answer(head: Head, path: str) -> bytes | None:
    """What the head answers; None if it does not."""
    question = urllib.request.Request(f"{head.address}{path}", headers={"Authorization": f"Bearer {head.token}"})
    try:
        with urllib.request.urlopen(question, timeout=5.0) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, OSError):
        return None


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _carries(process: int, needle: bytes) -> bool:
    try:
        return needle in Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _session(process: int) -> int:
    """0 for one that has ended."""
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if words[0] == "Z" else int(words[3])


def _signal(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
