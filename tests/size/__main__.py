"""``make size``: every room with its tests, beside what it was at the last release.

``python -m tests.size solvers/joint`` shows the folders in one; ``--functions`` names what is over the limits, and
``--release NAME`` writes down what is here now, to be shown beside what comes after.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path

from tests.size.count import Size, rooms
from tests.size.limits import over_the_limits

ROOT = Path(__file__).parents[2]
RELEASED = Path(__file__).with_name("released.json")
SOURCE = ("solvers", "explorer", "demo_models", "assets")
HEAD = (
    f"{'':32}{'files':>6}{'lines':>8}{'code':>8}{'was':>8}{'comments':>9}{'long':>5}{'wide':>5}{'tests':>9}{'was':>8}"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.size", description=__doc__)
    parser.add_argument("folder", nargs="?", default="", help="show the folders in this one, such as solvers/joint")
    parser.add_argument("--functions", action="store_true", help="name the functions over the limits")
    parser.add_argument("--release", metavar="NAME", help="write down these figures as those of a release")
    args = parser.parse_args()
    if args.functions:
        for top in ("solvers", "explorer"):
            print(*(f"{top}/{name}: {size}" for name, size in over_the_limits(ROOT / top).items()), sep="\n")
        return 0
    now = rooms(ROOT, (*SOURCE, "tests"))
    if args.release:
        figures = {room: astuple(size) for room, size in now.items()}
        rows = ",\n".join(f"  {json.dumps(room)}: {json.dumps(figures[room])}" for room in figures)
        RELEASED.write_text(f'{{"name": {json.dumps(args.release)}, "rooms": {{\n{rows}\n}}}}\n', encoding="utf-8")
    released = json.loads(RELEASED.read_text(encoding="utf-8"))
    before = {room: Size(*figures) for room, figures in released["rooms"].items()}
    print(f"code: without blanks, comments and docstrings; was: at {released['name']}; long, wide: functions over the")
    print("limits of tests/size/count.py; tests: code of the room's tests")
    print(HEAD)
    for room in shown(now, before, args.folder.rstrip("/")):
        print(row(room, now, before))
    return 0


def shown(now: Mapping[str, Size], before: Mapping[str, Size], folder: str) -> list[str]:
    """Rooms to print: those in a folder, or of every top folder, each top after its rooms as their sum."""
    tops = [folder] if folder else [*SOURCE, "tests"]
    picked: list[str] = []
    for top in tops:
        deeper = top.count("/") + 1
        inside = {"/".join(room.split("/")[: deeper + 1]) for room in (*now, *before) if room.startswith(f"{top}/")}
        if top == "tests":  # what mirrors a room stands beside that room
            inside -= {f"tests/{name}" for name in SOURCE}
        picked += [*sorted(inside), top]
    return picked


def row(room: str, now: Mapping[str, Size], before: Mapping[str, Size]) -> str:
    here, was = total(now, room), total(before, room)
    text = f"{room:32}{here.files:6,}{here.lines:8,}{here.code:8,}{was.code:8,}{here.comments:9,}"
    if room.split("/")[0] == "tests":
        return text
    tests = f"tests/{room}"
    return text + f"{here.long:5}{here.wide:5}{total(now, tests).code:9,}{total(before, tests).code:8,}"


def total(sizes: Mapping[str, Size], room: str) -> Size:
    return sum((size for name, size in sizes.items() if f"{name}/".startswith(f"{room}/")), Size())


if __name__ == "__main__":
    sys.exit(main())
