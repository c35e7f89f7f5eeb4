"""docs/models.md does what it says: its blocks run as they stand, one after the other, in one folder."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.explorer.cli.command import Command

PAGE = Path(__file__).parents[3] / "docs" / "models.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = {"hf:": "transformers", "timm:": "timm", "torchvision:": "torchvision"}
"""What a name in a block asks for, which this package does not."""


def blocks() -> list[tuple[str, str]]:
    """(language, text)."""
    return [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]


def missing(text: str) -> list[str]:
    return [package for name, package in NEEDS.items() if name in text and importlib.util.find_spec(package) is None]


def test_every_block_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = Command(capsys)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    ran = 0
    for language, text in blocks():
        if missing(text):
            continue
        file = re.match(r"# (\w+\.py)\n", text)
        if file:
            (tmp_path / file[1]).write_text(text)
        elif language == "python":
            exec(compile(text, str(PAGE), "exec"), {})
        else:
            for line in text.splitlines():
                program, *arguments = shlex.split(line)
                assert program == "placement-explorer"
                done = command(*arguments)
                assert done.status == 0, (line, done.err)
                assert "operators" in done.out
        ran += 1
    for name in ("my_model", "adapted"):
        sys.modules.pop(name, None)
    assert (tmp_path / "graph.json").is_file()
    assert ran >= 7
