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


@pytest.mark.first(1)
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


PRESS = """
const all = [...document.querySelectorAll('#tensor-parallel label')];
all.find((one) => one.innerText.trim() === arguments[0]).click();
"""
DRAWN = "return document.querySelector('#gantt canvas') ? window.explorer.gantt.drawn().lanes.length : 0"


def test_the_control_divides_tensors_and_a_search_over_degrees_can_be_cancelled(real):
    page = real.open("model=gpt-small&devices=4&planner=equal&effort=quick&v=3")
    assert page.js("return getComputedStyle(document.querySelector('.of-groups')).display") == "none"
    page.change(lambda: page.js(PRESS, "2"))
    assert "model=gpt-small&" in page.query
    assert "tensor_parallel=2" in page.query
    assert page.js("return getComputedStyle(document.querySelector('.of-groups')).display") != "none"
    assert "tensor-parallel=2" in page.text("model-chip")
    assert "groups" not in page.text("degrees")
    page.js(PRESS, "auto")
    page.until(lambda: "tensor_parallel=search" in page.query)
    page.click("#cancel")
    page.until(lambda: page.state in ("cancelled", "feasible", "optimal", "none"))
    page.settle()
    page.change(lambda: page.js(PRESS, "1"))
    assert "tensor_parallel" not in page.query
    assert "tensor-parallel" not in page.text("model-chip")


NEAR = """
const cy = document.getElementById('graph')._cyreg.cy;
cy.zoom(arguments[0]);
cy.center(cy.nodes()[8]);
return cy.edges('.chip').map((edge) => edge.data('chip'));
"""
EXCHANGES = """
const lanes = window.explorer.gantt.drawn().lanes.filter((lane) => lane.name.includes('exchange'));
return lanes.map((lane) => [lane.hatch.shape, lane.words[0]]);
"""
DIVIDED = "model=gpt-small&tensor_parallel=2&devices=4&planner=equal&effort=quick&micro_batches=4&v=3"


@pytest.mark.parametrize(("theme", "size"), [("light", (1440, 900)), ("dark", (1180, 760))])
def test_placements_and_exchanges_of_a_group_are_seen(real, theme, size):
    real.browser.set_window_size(*size)
    page = real.open(f"{DIVIDED}&theme={theme}")
    lanes = page.js(EXCHANGES)
    assert lanes
    assert all(shape == "+" and "exchange in the group" in words for shape, words in lanes)
    assert "exchange in the group" in page.js("return document.getElementById('gantt-legend').textContent")
    assert "exchange in the group" in page.text("why")
    assert "GPU 0-1" in page.js("return document.querySelector('.gantt-card').innerText")
    assert page.js(NEAR, 0.5) == []
    chips = page.js(NEAR, 1.5)
    assert "S(width)" in chips
    assert any(chip.startswith("all-gather ") and chip.endswith("→ R") for chip in chips)
    if FOLDER:
        page.browser.save_screenshot(str(Path(FOLDER) / f"chips-{theme}.png"))
    page.js("window.explorer.graph.select('o:4')")
    page.until(lambda: "S(width) → R" in page.text("inspector"))
    real.browser.set_window_size(1440, 900)
