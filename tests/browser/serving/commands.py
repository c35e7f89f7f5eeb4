"""The command itself, serving."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tests.browser.conftest import ROOT
from tests.browser.fakes.ports import free_port


class Served:
    """``placement-explorer app`` with flags, in a subprocess, for as long as the context lasts. root: the checkout that
    serves."""

    def __init__(self, environ: Mapping[str, str], *flags: str, root: Path = ROOT) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}/"
        command = [sys.executable, "-m", "explorer", "app", "--port", str(self.port), "--no-browser", *flags]
        self.process = subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output = ""

    def __enter__(self) -> Served:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            if "Placement Explorer: " in line:
                self._listener = threading.Thread(target=self._listen, daemon=True)
                self._listener.start()
                return self
        raise AssertionError(self.output)

    def _listen(self) -> None:
        """To the end: who writes to a pipe that nobody reads stands still."""
        for line in self.process.stdout:
            self.output += line

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._listener.join(10)
            self.process.stdout.close()

    def workers(self) -> list[bytes]:
        """The environments of the processes that it started."""
        for _ in range(100):
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            if children:
                return [Path(f"/proc/{child}/environ").read_bytes() for child in children]
            time.sleep(0.1)
        raise AssertionError("it has no workers")
