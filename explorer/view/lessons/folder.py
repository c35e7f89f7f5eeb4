"""The lessons of a folder: a file each, in the order of their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from explorer.view.lessons.lesson import Lesson
from explorer.view.lessons.reading import MAX_BYTES, read_lesson
from explorer.view.session import Choices
from solvers.errors import InvalidProblem

SHIPPED = Path(__file__).parent / "shipped"
MAX_FILES = 24
_NUMBERED = re.compile(r"^[0-9]+-(?=.)")


def all_lessons(choices: Choices, folder: str = "") -> tuple[Lesson, ...]:
    """Those that are shipped and fit this server's models, then those of the owner's folder; of a name that both have,
    the owner's alone. Raises InvalidProblem for the owner's."""
    own = tuple(_lessons(owners_files(folder), choices)) if folder else ()
    names = {lesson.name for lesson in own}
    return (*(lesson for lesson in _fitting(choices) if lesson.name not in names), *own)


def owners_files(folder: str) -> list[Path]:
    """The files of a folder of lessons. Raises InvalidProblem."""
    place = Path(folder)
    if not place.is_dir():
        raise InvalidProblem(f"{folder}: expected a folder of lessons, files that end in .toml")
    files = sorted(path for path in place.iterdir() if path.suffix == ".toml")
    if not files:
        raise InvalidProblem(f"{folder}: there is no lesson in it, no file that ends in .toml")
    if len(files) > MAX_FILES:
        raise InvalidProblem(f"{folder}: {len(files)} lessons, at most {MAX_FILES}")
    return files


def lesson_name(path: Path) -> str:
    """ "3-bubbles.toml" is "bubbles": the number only orders."""
    return _NUMBERED.sub("", path.stem)


def read_file(path: Path, choices: Choices) -> Lesson:
    """Raises InvalidProblem."""
    if not path.is_file():
        raise InvalidProblem(f"{path.name}: expected a plain file")
    with path.open("rb") as file:
        return read_lesson(file.read(MAX_BYTES + 1), lesson_name(path), choices, path.name)


def _lessons(files: Iterable[Path], choices: Choices) -> Iterable[Lesson]:
    seen: dict[str, Path] = {}
    for path in files:
        lesson = read_file(path, choices)
        if lesson.name in seen:
            raise InvalidProblem(f"{path.name}: has the name of {seen[lesson.name].name}, {lesson.name}")
        seen[lesson.name] = path
        yield lesson


def _fitting(choices: Choices) -> Iterable[Lesson]:
    """Shipped lessons whose models, planners and kinds there are."""
    for path in sorted(SHIPPED.glob("*.toml")):
        try:
            yield read_file(path, choices)
        except InvalidProblem:
            continue
