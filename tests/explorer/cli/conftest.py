from __future__ import annotations

from pathlib import Path

import pytest

from tests.explorer.cli.command import Command, workload, write


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The chain of four operators, as a file."""
    return write(tmp_path, workload())


@pytest.fixture
def plan_file(command: Command, model: Path, tmp_path: Path) -> Path:
    """The best plan of the chain on two accelerators."""
    path = tmp_path / "plan.json"
    assert command("plan", model, "-o", path).status == 0
    return path
