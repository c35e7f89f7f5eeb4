"""Run the command in this process, on a workload small enough to check by hand."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from explorer.cli import main
from explorer.cli.terminal.progress import COMPILING

COMPILING_LINES = re.compile(rf"{re.escape(COMPILING)}\n|compiling kernels, once: .*\n")
SEEN = "placement-explorer: error: "


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as JSON; NaN and Infinity, which are not JSON, fail the test."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} was printed"))


@dataclass(frozen=True)
class Command:
    """``command("plan", "x.json")``: exit status, stdout and stderr."""

    capture: pytest.CaptureFixture[str]

    def __call__(self, *args: object) -> Ran:
        try:
            status = main([str(arg) for arg in args])
        except SystemExit as end:
            status = int(end.code or 0)
        out, err = self.capture.readouterr()
        return Ran(status, out, COMPILING_LINES.sub("", err))  # what a first run of the tests says

    def refused(self, *args: object) -> str:
        """The message of a command line that must be refused: exit 2, one line on stderr, no output."""
        ran = self(*args)
        assert ran.status == 2
        assert ran.out == ""
        assert ran.err.startswith(SEEN)
        assert ran.err.count("\n") == 1
        return ran.err.removeprefix(SEEN).strip()


def workload(**changes: Any) -> dict[str, Any]:
    """An MSR 2020 file: a chain of four operators of 4 ms and 10 bytes on two accelerators."""
    node = {"supportedOnFpga": 1, "cpuLatency": 40.0, "fpgaLatency": 4.0, "isBackwardNode": 0, "size": 10.0}
    return {
        "maxSizePerFPGA": 100.0,
        "maxFPGAs": 2,
        "maxCPUs": 1,
        "nodes": [{"id": i, "name": name, **node} for i, name in enumerate("abcd")],
        "edges": [{"sourceId": i, "destId": i + 1, "cost": 1.0} for i in range(3)],
    } | changes


def write(folder: Path, value: object, name: str = "model.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path
