"""One rank on a host of a cluster: a process of its own beside the actor that watches it.

A process and not a thread of the actor: a crash inside the model then ends the rank alone, and the actor can tell
of it. It never outlives the actor (`explorer.runner.targets.agent`).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from explorer.files import write_file
from explorer.runner.targets.processes import MARK, end_marked, new_mark
from explorer.runner.targets.ray_package import BUNDLE
from solvers.formats.json_text import dump_json

MAX_WAITING = 20_000
"""Lines kept until they are fetched; of more, the oldest are lost."""
MAX_LINE_BYTES = 16_000
MAX_FAILURE_BYTES = 16_000
OUTPUT_S = 3.0
"""How long the output of a rank that has ended may take to arrive."""
SECRETS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""What the code of a model needs not know."""

_ERROR = re.compile(r"\b(\w+Error): (.+?)\)?$")
"""What a traceback ends with."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is new of a rank. code: how it ended, as `failures.Exit`; None while it runs. failure: its failure
    file, or ""."""

    lines: tuple[str, ...]
    code: int | None
    failure: str


class RankProcess:
    """Starts one rank, and is asked from time to time what it said."""

    def __init__(self) -> None:
        # in the package, which Ray removes some time after the job, however that ended
        self._folder = Path(tempfile.mkdtemp(prefix="run-", dir=Path.cwd()))
        self._lines: deque[str] = deque(maxlen=MAX_WAITING)
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._mark = new_mark()
        self._last = ""

    def free_port(self) -> int:
        """A port of this host that nothing listens on at the moment."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return int(probe.getsockname()[1])

    def start(self, module: str, request_text: str, environment: Mapping[str, str]) -> None:
        """Run ``module`` on the bundle of the package, with ``request_text`` as its request."""
        package = Path.cwd()
        write_file(self._folder / "plan.json", (package / BUNDLE / "plan.json").read_bytes(), "starting a rank")
        write_file(self._folder / "request.json", request_text, "starting a rank")
        inherited = {key: value for key, value in os.environ.items() if key not in SECRETS}
        paths = [str(package), *filter(None, [inherited.get("PYTHONPATH", "")])]
        command = [sys.executable, "-m", module, str(self._folder)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "explorer.runner.targets.agent", str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={
                **inherited,
                **environment,
                MARK: self._mark,
                "PYTHONPATH": os.pathsep.join(paths),
                "PYTHONUNBUFFERED": "1",
            },
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def look(self) -> Look:
        assert self._process is not None
        status = self._process.poll()
        if status is not None and self._reader is not None:
            self._reader.join(OUTPUT_S)
        lines = []
        with contextlib.suppress(IndexError):
            while True:
                lines.append(self._lines.popleft())
        code = status if status is None or status <= 128 else 128 - status
        return Look(tuple(lines), code, "" if code in (None, 0) else self._failure())

    def result(self) -> str:
        """The text of result.json, or "" if there is none."""
        try:
            return (self._folder / "result.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def end(self) -> None:
        """End the rank, however it is, and forget what it wrote."""
        if self._process is not None:
            end_marked(self._mark, 0.0)
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _failure(self) -> str:
        for path in sorted(self._folder.glob("failure-*.json")):
            with contextlib.suppress(OSError), path.open("rb") as file:
                return file.read(MAX_FAILURE_BYTES).decode("utf-8", "replace")
        # it did not get as far as to write one: torch is not there, say
        error = _ERROR.search(self._last)
        return "" if error is None else dump_json({"type": error[1], "message": error[2][:500]})

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                self._lines.append(line.decode("utf-8", "replace").rstrip("\r\n"))
                self._last = self._lines[-1].strip() or self._last
