"""A lesson from its file, and those of a folder: TOML, read as data, each error with file and step in one line."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from explorer.view.lessons.figures import FIGURES
from explorer.view.lessons.lesson import BEGUN, CONTROLS, LIGHTS, Goal, Lesson, Piece, Question, Step, Text
from explorer.view.lessons.stated import session_of
from explorer.view.session import Choices
from solvers.errors import InvalidProblem, printable_lines

MAX_BYTES = 65_536
MAX_STEPS = 12
MAX_TITLE = 60
MAX_ABOUT = 110
MAX_TEXT = 600
MAX_ANSWER = 240
MAX_GOALS = 3
MAX_LIT = 8
RELATIONS = {"<": "below", "<=": "at most", ">": "above", ">=": "at least", "=": "exactly"}
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME = 40

_FIGURE = re.compile(r"\{([\w.-]{1,60})\}")
SHIPPED = Path(__file__).parent / "shipped"
MAX_FILES = 24
_NUMBERED = re.compile(r"^[0-9]+-(?=.)")


def read_lesson(data: bytes, name: str, choices: Choices, file: str = "") -> Lesson:
    """The lesson that a file holds. name: what links call it; file: its name in messages.

    Raises InvalidProblem.
    """
    return _Reader(file or f"{name}.toml", choices).lesson(data, name)


class _Reader:
    """where: the file, and the step that is read."""

    def __init__(self, file: str, choices: Choices) -> None:
        self.file, self.where, self.choices = file, file, choices

    def lesson(self, data: bytes, name: str) -> Lesson:
        if len(data) > MAX_BYTES:
            self.fail(f"a lesson has at most {MAX_BYTES // 1024} KiB")
        if not NAME.fullmatch(name) or len(name) > MAX_NAME:
            self.fail(f"a lesson's name is of small letters, digits and hyphens, at most {MAX_NAME}")
        try:
            raw = tomllib.loads(data.decode("utf-8"))
        except UnicodeDecodeError:
            self.fail("not UTF-8")
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
            self.fail(f"not TOML: {str(error)[:120]}")
        self.only(raw, ("title", "about", "settings", "steps"))
        title, about = self.line(raw, "title", MAX_TITLE), self.line(raw, "about", MAX_ABOUT)
        common = self.table(raw, "settings")
        steps = raw.get("steps")
        if not isinstance(steps, list) or not 0 < len(steps) <= MAX_STEPS:
            self.fail(f"[[steps]]: expected 1 to {MAX_STEPS} of them")
        read = tuple(self.step(step, number, common) for number, step in enumerate(steps, 1))
        if read[-1].question is None:
            self.fail("the last step asks no question: give it a [steps.question]")
        return Lesson(name, title, about, read)

    def step(self, raw: object, number: int, common: Mapping[str, Any]) -> Step:
        self.where = f"{self.file}, step {number}"
        if not isinstance(raw, Mapping):
            self.fail("expected a table [[steps]]")
        self.only(raw, ("title", "text", "light", "settings", "question"))
        settings = {**common, **self.table(raw, "settings")}
        try:
            session_of(settings, self.choices)
        except InvalidProblem as error:
            self.fail(str(error))
        question = self.question(self.table(raw, "question")) if "question" in raw else None
        return Step(
            self.line(raw, "title", MAX_TITLE),
            self.text(raw, "text", MAX_TEXT),
            settings,
            self.names(raw, "light", LIGHTS, MAX_LIT),
            question,
        )

    def question(self, raw: Mapping[str, Any]) -> Question:
        self.only(raw, ("goals", "move", "right", "wrong"))
        goals = raw.get("goals")
        if not isinstance(goals, list) or not 0 < len(goals) <= MAX_GOALS:
            self.fail(f"goals: expected 1 to {MAX_GOALS} of them")
        move = self.names(raw, "move", tuple(CONTROLS), MAX_LIT)
        if not move:
            self.fail("move: expected the names of the settings that answer the question")
        right, wrong = self.text(raw, "right", MAX_ANSWER), self.text(raw, "wrong", MAX_ANSWER)
        return Question(tuple(self.goal(goal) for goal in goals), move, right, wrong)

    def goal(self, raw: object) -> Goal:
        if not isinstance(raw, Mapping):
            self.fail('goals: expected { figure = "bubble", is = "<", than = 0.2 }')
        self.only(raw, ("figure", "is", "than", "times"))
        figure, relation, than = raw.get("figure"), raw.get("is"), raw.get("than")
        if not isinstance(figure, str) or figure not in FIGURES:
            self.fail(f"figure: {_shown(figure)} is none; there are {', '.join(FIGURES)}")
        if not isinstance(relation, str) or relation not in RELATIONS:
            self.fail(f"is: expected one of {' '.join(RELATIONS)}, found {_shown(relation)}")
        if than == BEGUN:
            times = raw.get("times", 1.0)
            if not _is_number(times) or not 0.001 <= times <= 1000:
                self.fail(f"times: expected a number from 0.001 to 1000, found {_shown(times)}")
            return Goal(figure, relation, None, float(times))
        if "times" in raw:
            self.fail(f'times: belongs to than = "{BEGUN}"')
        if not isinstance(than, int | float) or not _is_number(than):
            self.fail(f'than: expected a number or "{BEGUN}", found {_shown(than)}')
        return Goal(figure, relation, float(than))

    # -- values ---------------------------------------------------------------------------------------

    def line(self, raw: Mapping[str, Any], key: str, most: int) -> str:
        value = raw.get(key)
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{key}: expected a text")
        if printable_lines(value, ("\t", "\n")) != value:
            self.fail(f"{key}: has a character that cannot be seen")
        words = " ".join(value.split())
        if len(words) > most:
            self.fail(f"{key}: {len(words)} characters, at most {most}")
        return words

    def text(self, raw: Mapping[str, Any], key: str, most: int) -> Text:
        """Words and {figures}; whatever else it holds is words."""
        pieces: list[Piece] = []
        at = 0
        words = self.line(raw, key, most)
        for match in _FIGURE.finditer(words):
            begun, _, figure = match[1].rpartition(".")
            if figure not in FIGURES or begun not in ("", BEGUN):
                self.fail(
                    f"{key}: {{{match[1]}}} is no figure; there are {', '.join(FIGURES)}, also as {{begin.bubble}}"
                )
            pieces += [Piece(words[at : match.start()])] if match.start() > at else []
            pieces.append(Piece(figure=figure, begun=begun == BEGUN))
            at = match.end()
        return (*pieces, Piece(words[at:])) if at < len(words) else tuple(pieces)

    def names(self, raw: Mapping[str, Any], key: str, allowed: Sequence[str], most: int) -> tuple[str, ...]:
        value = raw.get(key, [])
        if not isinstance(value, list) or len(value) > most:
            self.fail(f"{key}: expected at most {most} names")
        for name in value:
            if not isinstance(name, str) or name not in allowed:
                self.fail(f"{key}: {_shown(name)} is none; there are {', '.join(allowed)}")
        return tuple(value)

    def table(self, raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = raw.get(key, {})
        if not isinstance(value, Mapping):
            self.fail(f"{key}: expected a table")
        return value

    def only(self, raw: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
        for key in raw:
            if key not in allowed:
                self.fail(f"{_shown(key)} has no place here; expected {', '.join(allowed)}")

    def fail(self, why: str) -> NoReturn:
        raise InvalidProblem(f"{self.where}: {why}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18 and math.isfinite(value)


def _shown(value: object) -> str:
    return repr(value)[:40]


def all_lessons(choices: Choices, folder: str = "") -> tuple[Lesson, ...]:
    """Those that are shipped and fit this server's models, then those of the owner's folder; of a name that both have,
    the owner's alone. Raises InvalidProblem for the owner's."""
    own = tuple(_lessons(owners_files(folder), choices)) if folder else ()
    names = {lesson.name for lesson in own}
    return (*(lesson for lesson in _fitting(choices) if lesson.name not in names), *own)


def owners_files(folder: str) -> list[Path]:
    """The files of a folder of lessons. Raises InvalidProblem."""
    directory = Path(folder)
    if not directory.is_dir():
        raise InvalidProblem(f"{folder}: expected a folder of lessons, files that end in .toml")
    files = sorted(path for path in directory.iterdir() if path.suffix == ".toml")
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
