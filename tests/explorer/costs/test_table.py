"""The table in docs/costs.md is what the code prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.costs.__main__ import main


@pytest.mark.slow
def test_the_table_in_the_docs_is_the_one_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["resnet50"])
    docs = (Path(__file__).parents[3] / "docs" / "costs.md").read_text(encoding="utf-8")
    for line in capsys.readouterr().out.splitlines():
        assert line in docs
