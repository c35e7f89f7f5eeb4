"""The page searches over degrees of tensor parallelism, and shows the table beside the best plan."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]
QUESTION = "model=gpt-small,tensor-parallel%3Dauto&devices=4&max_replicas=all&planner=equal&effort=quick&v=2"
CELLS = """
return [...document.querySelectorAll('#degrees td')].map((cell) => [cell.innerText, cell.className, cell.title]);
"""
WIDER = "const rail = document.querySelector('.rail.right'); return rail.scrollWidth - rail.clientWidth"
FOLDER = os.environ.get("DEGREES_PICTURES")


@pytest.mark.parametrize(("theme", "size"), [("light", (1440, 900)), ("dark", (1180, 760))])
def test_the_table_over_degrees_is_beside_the_plan(real, theme, size):
    real.browser.set_window_size(*size)
    page = real.open(f"{QUESTION}&theme={theme}")
    page.settle()
    cells = page.js(CELLS)
    assert len([words for words, _, _ in cells if words]) == 6
    best = [cell for cell in cells if "best" in cell[1]]
    assert len(best) == 1
    assert "replica" in best[0][2]
    assert page.js("return document.querySelectorAll('#degrees th[scope=col]').length") == 4
    assert page.js(WIDER) == 0
    page.js("document.getElementById('degrees').scrollIntoView()")
    if FOLDER:
        page.browser.save_screenshot(str(Path(FOLDER) / f"degrees-{theme}.png"))
    real.browser.set_window_size(1440, 900)
