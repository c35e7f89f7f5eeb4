"""``python -m tests.project.coverage REPORT``: the share of lines that tests run, by room, from coverage's JSON report.

Shown, not enforced (`make coverage`). Kernels are left out: what is compiled cannot be counted line by line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

DEPTH = 2
"""Folders in the name of a room, as in `make size`."""


def by_room(files: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, tuple[int, int]]:
    """(lines that ran, lines) of each room and, under its first folder, of all rooms in it.

    files: of a report, by path: ``summary`` has ``covered_lines`` and ``num_statements``.
    """
    rooms: dict[str, tuple[int, int]] = {}
    for path, file in files.items():
        folders = PurePosixPath(path).parent.parts
        for name in {"/".join(folders[:DEPTH]), folders[0]}:
            ran, lines = rooms.get(name, (0, 0))
            rooms[name] = ran + file["summary"]["covered_lines"], lines + file["summary"]["num_statements"]
    return dict(sorted(rooms.items()))


def table(rooms: Mapping[str, tuple[int, int]]) -> str:
    """A line a room, sums of top folders before theirs."""
    rows = [
        f"{name:32}{lines:>8,}{lines - ran:>8,}{100 * ran / lines if lines else 100:>8.1f} %"
        for name, (ran, lines) in rooms.items()
    ]
    return "\n".join([f"{'':32}{'lines':>8}{'not run':>8}{'run':>8}", *rows])


if __name__ == "__main__":
    print(table(by_room(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["files"])))
