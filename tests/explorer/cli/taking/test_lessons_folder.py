"""``app --lessons``: what is wrong with a lesson is one line before anything is served."""

from __future__ import annotations

import pytest

from explorer.cli import main
from tests.explorer.view.lessons.written import GOOD

SMALL = GOOD.replace('"chain"', '"gpt-small"')


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (None, "expected a folder of lessons"),
        ("", "there is no lesson in it"),
        (GOOD, "1-mine.toml, step 1: model: expected one of"),
        (SMALL.replace("{bubble}.", "{bubbel}.", 1), "1-mine.toml, step 1: text: {bubbel}"),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_read_is_reported_in_one_line(tmp_path, capsys, write, message):
    pytest.importorskip("dash")
    folder = tmp_path / "lessons"
    if write is not None:
        folder.mkdir()
        if write:
            (folder / "1-mine.toml").write_text(write)
    assert main(["app", "--no-browser", "--port", "0", "--lessons", str(folder)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
