"""Words, coverage and what workflows and releases rely on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.project import words
from tests.project.coverage import by_room, table
from tests.project.words import Out

ROOT = Path(__file__).parents[2]


def test_a_word_that_is_out_is_detected_in_pages_messages_and_scripts(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n\nIt is told here.\n\n```\nand told here\n```\n\n`told` and [a link](told.md)\n")
    assert [text.line for text in words.prose(page) if Out("told", "").pattern.search(text.words)] == [3]
    module = tmp_path / "module.py"
    module.write_text('"""What is told of it."""\nraise ValueError(f"what {told} is told")\nname = "told"\n')
    assert [text.line for text in words.messages(module) if Out("told", "").pattern.search(text.words)] == [2]
    script = tmp_path / "script.js"
    script.write_text('// what is told\nconst label = "as set below";\n')
    assert [text.words for text in words.script(script)] == ["as set below"]


EVERY_KIND = """
import json as told
from told import loads

class Told:
    told: int

class Message(TypedDict):
    told: int

class Settings:
    def __init__(self, told):
        self.told = told
        self.other.told

def _told(*told, key="told", **asked):
    for told in "told":
        print(told, untold := told)
    try:
        told_apart = [told for told in asked]
    except OSError as told:
        match told:
            case {"told": told, **rest}:
                return told(told=1)
"""


def test_every_kind_of_definition_with_a_name_that_is_out_is_detected(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(EVERY_KIND)
    lines = [name.line for name in words.identifiers(module) if words.is_out(name.words, Out("told", ""))]
    assert sorted(lines) == [2, 5, 6, 12, 13, 16, 16, 17, 20, 21, 23]
    assert [name.line for name in words.identifiers(module) if words.is_out(name.words, Out("asked", ""))] == [16]


@pytest.mark.parametrize(
    ("name", "phrase", "is_out"),
    [
        ("kept", "kept", True),
        ("KEPT_", "kept", True),
        ("kept_bytes", "kept", False),
        ("kept_bytes", "_kept_", True),
        ("whatIsToldLast", "_told_", True),
        ("TOLD", "_told_", True),
        ("untold", "_told_", False),
        ("foundry", "_found_", False),
    ],
)
def test_a_name_is_out_as_a_whole_or_for_a_part_of_it(name: str, phrase: str, is_out: bool) -> None:
    assert words.is_out(name, Out(phrase, "")) is is_out


REMARKS = '''"""Of a module: told.

A second paragraph, told with `told` and ``told`` (see https://example.org/told for more).
"""

LIMIT = 1
"""Of an attribute: told."""


class Told:
    """Of a class, which lets
    go of it."""

    async def told(self, name="what is told"):
        """Of a function: told."""
        # A comment that lets
        # go of it
        value = "# told"  # told
        return f"told {value}"
'''


def test_a_phrase_that_is_out_is_detected_in_docstrings_and_comments_on_its_line(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(REMARKS)
    remarks = words.remarks(module)
    assert [text.line for text in remarks if Out("told", "").pattern.search(text.words)] == [1, 3, 7, 15, 18]
    assert [text.line for text in remarks if Out("lets go", "").pattern.search(text.words)] == [11, 16]
    assert {text.words for text in remarks if text.line == 3} == {
        "A second paragraph, told with `` and `` (see ] for more)."
    }


def test_a_phrase_that_is_out_is_detected_in_comments_of_scripts(tmp_path: Path) -> None:
    page = tmp_path / "script.js"
    page.write_text(
        '/* one\n * is told */\nconst text = "told"; // told\n// what lets\n// go\nconst address = "http://told";\n'
    )
    remarks = list(words.script_remarks(page))
    assert [text.line for text in remarks if Out("told", "").pattern.search(text.words)] == [1, 3]
    assert [text.line for text in remarks if Out("lets go", "").pattern.search(text.words)] == [4]


@pytest.mark.slow
def test_docstrings_and_comments_of_the_project_are_read() -> None:
    remarks = words.of_python(Path(words.__file__)).remarks
    assert len(remarks) >= 20
    assert set(remarks) <= set(words.texts())


def test_names_in_scripts_are_read_but_for_properties_texts_and_comments(tmp_path: Path) -> None:
    page = tmp_path / "script.js"
    page.write_text(
        '/* told */\nconst told = (one) => one.told;\nsend({ told: "told", other: `told` }); // told\ntold();\n'
    )
    assert [name.line for name in words.script_names(page) if words.is_out(name.words, Out("told", ""))] == [2, 4]


def test_the_list_of_identifiers_that_are_out_is_read_from_its_table() -> None:
    listed = words.words_out(words.IDENTIFIERS)
    assert {"_told_", "tell", "kept"} <= {out.phrase for out in listed}
    assert all(out.better for out in listed)


@pytest.mark.slow
def test_a_planted_name_and_phrase_are_the_only_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = words.Text(Path(words.__file__), 1, "what lets go"), words.Text(Path(words.__file__), 1, "TOLD")
    names, texts = words.names(), words.texts()
    assert min(len(names), len(texts)) >= 10_000
    monkeypatch.setattr(words, "texts", lambda: [*texts, planted[0]])
    monkeypatch.setattr(words, "names", lambda: [*names, planted[1]])
    assert [fault.partition(" is out")[0].split()[-1] for fault in words.faults()] == ['go"', '"_told_"']


@pytest.mark.parametrize(
    ("phrase", "text", "matches"),
    [
        ("told", "he TOLD them", True),
        ("told", "untold", False),
        ("let go", "let\n  go of it", True),
        ("seconds that no * can beat", "seconds that no iteration can beat", True),
        (", as usual", "the iteration, as usual", True),
    ],
)
def test_phrases_are_whole_words_in_any_case(phrase: str, text: str, matches: bool) -> None:
    assert bool(Out(phrase, "").pattern.search(text)) == matches


def test_the_word_lists_are_tables_with_what_to_say_instead() -> None:
    assert len(words.words_out()) >= 60
    assert all(out.phrase and out.better for out in words.words_out())
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    terms = contributing.split("| term | meaning | source |\n")[1].split("\n\n")[0].splitlines()[1:]
    assert all(len([cell for cell in row.strip("|").split("|") if cell.strip()]) == 3 for row in terms)


def test_places_to_change_things_are_there() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = contributing.split("## Where do I change ...\n")[1].split("\n\n")[0]
    places = re.findall(r"`((?:solvers|explorer|assets|docs|demo_models)/[\w/.]*)`", table)
    assert len(table.splitlines()) - 2 >= 20
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_coverage_is_added_up_by_room() -> None:
    files = {
        path: {"summary": {"covered_lines": ran, "num_statements": lines}}
        for path, ran, lines in (
            ("solvers/plan/a.py", 3, 4),
            ("solvers/plan/x/b.py", 0, 4),
            ("solvers/errors.py", 2, 2),
        )
    }
    rooms = by_room(files)
    assert rooms == {"solvers": (5, 10), "solvers/plan": (3, 8)}
    assert table(rooms).splitlines()[1].split() == ["solvers", "10", "5", "50.0", "%"]


def test_the_changelog_begins_with_what_is_not_released_and_names_releases_by_number_and_date() -> None:
    titles = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert titles[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+ \(\d{4}-\d\d-\d\d\)", title) for title in titles[1:])
    assert titles[1:] == sorted(titles[1:], key=lambda title: int(title.split()[0].split(".")[1]), reverse=True)
    pages = {page.stem for page in (ROOT / "docs/guide/changes").glob("*.md")}
    assert pages == {title.split()[0] for title in titles[1:]}


def test_version_and_citation_agree() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_what_docs_and_coverage_install_is_pinned() -> None:
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = {re.split(r"[\[><=]", one)[0] for one in extras["docs"]} | {"coverage"}
    assert wanted <= pinned
