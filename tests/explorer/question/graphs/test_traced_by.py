"""A graph that was traced before is given only where it would be traced so today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.question.graphs import traced_by
from explorer.question.graphs.demos import traced_before
from explorer.question.graphs.sources import code_hash, written_hash
from explorer.question.graphs.traced_by import STATED, TracedBy, holds_still, of_today, stated_text

SOURCE = '''"""A model."""
WIDTH = 8  # features


def build():
    """Its parts."""
    return WIDTH
'''


@pytest.fixture(autouse=True)
def _cleared_caches():
    for cached in (traced_by.holds_still, traced_by.torch_version, traced_by.traced_here):
        cached.cache_clear()
    yield
    for cached in (traced_by.holds_still, traced_by.torch_version, traced_by.traced_here):
        cached.cache_clear()


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sources that stands for all that makes a graph."""
    place = tmp_path / "models"
    place.mkdir()
    (place / "gpt.py").write_text(SOURCE)
    monkeypatch.setattr(traced_by, "PLACES", (place,))
    return place


def stated(folder: Path, by: TracedBy) -> Path:
    path = folder / STATED
    path.write_text(stated_text(by))
    return path


def test_what_the_same_code_traced_holds(places: Path, tmp_path: Path) -> None:
    assert holds_still(stated(tmp_path, of_today()))


def test_what_other_code_traced_does_not(places: Path, tmp_path: Path) -> None:
    before = stated(tmp_path, of_today())
    (places / "gpt.py").write_text(SOURCE.replace("8", "16"))
    assert not holds_still(before)


def test_nor_what_a_file_more_could_change(places: Path, tmp_path: Path) -> None:
    before = stated(tmp_path, of_today())
    (places / "blocks.py").write_text("DEPTH = 2\n")
    assert not holds_still(before)


def test_words_for_people_change_no_graph(places: Path, tmp_path: Path) -> None:
    before = stated(tmp_path, of_today())
    (places / "gpt.py").write_text(SOURCE.replace("# features", "# of a token").replace("Its parts", "All of it"))
    assert holds_still(before)
    assert traced_by.of_today().written != json.loads(before.read_text())["written"]


@pytest.mark.parametrize(("torch", "holds"), [("2.13.9+cu130", True), ("2.14.0", False), ("", True)])
def test_another_pytorch_may_trace_another_graph(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str, holds: bool
) -> None:
    before = stated(tmp_path, of_today()._replace(torch="2.13"))
    monkeypatch.setattr(traced_by, "torch_version", lambda: torch)
    assert holds_still(before) is holds


@pytest.mark.parametrize("text", ["", "{", "[]", '{"torch": "2.13"}', "[" * 100_000])
def test_what_does_not_say_what_traced_it_is_traced_anew(places: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / STATED).write_text(text)
    assert not holds_still(tmp_path / STATED)
    assert not holds_still(tmp_path / "none.json")


def test_a_demo_whose_code_changed_is_not_taken_from_what_ships(places: Path) -> None:
    assert traced_before("gpt-small", True, None) is None


def test_what_is_kept_here_goes_with_every_change(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {traced_by.traced_here()}
    for change in ("# more", "WIDTH = 9"):
        (places / "gpt.py").write_text(SOURCE + change)
        traced_by.traced_here.cache_clear()
        fields.add(traced_by.traced_here())
    monkeypatch.setattr(traced_by, "torch_version", lambda: "2.13.1")
    traced_by.traced_here.cache_clear()
    assert len(fields | {traced_by.traced_here()}) == 4


def test_a_docstring_inside_an_expression_is_code(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    hashes = set()
    for line in ("x = 'a'", "x = 'b'", "def f(): return 'a'", "def f():\n    'a'\n    return 'a'"):
        path.write_text(line)
        hashes.add(code_hash([path]))
    assert len(hashes) == 3
    assert written_hash([path]) not in hashes
