"""The graph on the page as people look at it: arrows between boxes, bytes where tensors cross, a map, a part in place
of the whole page, and what a box is before it is clicked."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser
CHAIN = "model=gpt-small&devices=4&micro_batches=8&effort=quick&time_limit=5&v=2"
BRANCHES = "model=multimodal-small&devices=4&effort=quick&time_limit=5&v=2"
GAPS = """
const cy = document.getElementById('graph')._cyreg.cy;
const boxes = cy.nodes().map((n) => [n.renderedPosition(), n.renderedOuterWidth(), n.renderedOuterHeight()]);
let least = Infinity;
boxes.forEach(([a, wide, tall], i) => boxes.slice(i + 1).forEach(function ([b]) {
  least = Math.min(least, Math.max(Math.abs(a.x - b.x) - wide, Math.abs(a.y - b.y) - tall));
}));
return least;
"""
"""Pixels between the two boxes that are nearest to each other; negative where some overlap."""
LABELS = """
const cy = document.getElementById('graph')._cyreg.cy;
return cy.edges().map((e) => [e.hasClass('cut') || e.hasClass('inner'), e.style('label') + e.style('target-label')]);
"""
FILLED = """
const cy = document.getElementById('graph')._cyreg.cy;
const box = cy.elements().renderedBoundingBox();
return Math.max(box.w / cy.width(), box.h / cy.height());
"""
ROWS = """
const cy = document.getElementById('graph')._cyreg.cy;
const rows = {};
cy.nodes().forEach(function (n) {
  const y = Math.round(n.position().y);
  (rows[y] = rows[y] || []).push(n.id());
});
return Object.values(rows);
"""
NOTED = "const b = document.querySelector('.pointed').getBoundingClientRect(); return [b.top, b.bottom]"
MAP = "return !document.querySelector('.graph-card .minimap').hidden"
PAN = "return document.getElementById('graph')._cyreg.cy.pan().y"
SIZE = "const e = document.querySelector(arguments[0]); return [e.offsetWidth, e.offsetHeight]"


@pytest.mark.first(1)
@pytest.mark.parametrize("size", [(1280, 800), (1440, 900), (1920, 1080)])
def test_arrows_have_room_bytes_stand_at_cuts_alone_and_the_frame_is_filled(real, size):
    page = real.at(CHAIN)
    with page.sized(*size):
        page.open(CHAIN)
        page.until(lambda: page.js(FILLED) > 0.9)
        assert page.js(GAPS) >= 2
        labels = page.js(LABELS)
        assert any(crosses and label for crosses, label in labels)
        assert not [label for crosses, label in labels if label and not crosses]


@pytest.mark.slow
def test_branches_of_a_model_stand_side_by_side(real):
    page = real.open(BRANCHES)
    sides = [{box.split(".")[1] for box in row if box.startswith("m:branches.")} for row in page.js(ROWS)]
    assert max(map(len, sides)) == len(set().union(*sides)) > 2


def test_a_box_says_what_a_click_would_in_a_corner_away_from_it(real):
    page = real.at(CHAIN)
    box = next(iter(page.boxes))
    page.point(*page.where(box))
    note = page.find(".pointed")
    page.until(lambda: note.is_displayed() and "GPU" in note.text)
    text = note.text
    top, bottom = page.js(NOTED)
    assert not top <= page.where(box)[1] <= bottom
    page.point(*page.where(box), click=True)
    page.until(lambda: "Fwd / bwd time" in page.text("inspector"))
    assert page.js("return document.querySelector('#inspector .tag').textContent") in text
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()


def test_escape_lets_go_wherever_the_focus_is(real):
    page = real.at(CHAIN)
    page.point(*page.where(next(iter(page.boxes))), click=True)
    page.until(lambda: page.js("return explorer.graph.selection()"))
    page.js("document.activeElement.blur()")
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()
    page.until(lambda: page.js("return explorer.graph.selection()") is None)


def test_a_map_shows_where_one_is_in_a_graph_larger_than_its_frame(real):
    page = real.at(CHAIN)
    assert not page.js(MAP)
    page.js("const cy = document.getElementById('graph')._cyreg.cy; cy.zoom(1.9); cy.center()")
    page.until(lambda: page.js(MAP))
    before = page.js(PAN)
    small = page.find(".graph-card .minimap")
    ActionChains(page.browser).move_to_element_with_offset(small, 0, -30).click().perform()
    page.until(lambda: page.js(PAN) > before + 20)
    page.js("document.getElementById('graph-fit').click()")
    page.until(lambda: not page.js(MAP))


def test_one_part_takes_the_place_of_all_by_key_and_button_and_bars_move_by_keys(real):
    page = real.at(CHAIN)
    wide = page.js(SIZE, ".graph-card")
    page.find(".canvas.of-operators").send_keys("m")
    page.until(lambda: page.js(SIZE, ".graph-card")[0] > 1.8 * wide[0])
    assert not page.find(".gantt-card").is_displayed()
    page.until(lambda: page.js(FILLED) > 0.6)
    page.find(".canvas.of-operators").send_keys("m")
    page.until(lambda: page.js(SIZE, ".graph-card") == wide)
    page.browser.find_elements(By.CSS_SELECTOR, "[data-whole-of=details]")[0].click()
    page.until(lambda: not page.find(".views").is_displayed())
    page.browser.find_elements(By.CSS_SELECTOR, "[data-whole-of=details]")[0].click()
    page.until(lambda: page.find(".views").is_displayed())
    bar = page.find(".split.flat")
    bar.send_keys(Keys.ARROW_UP)
    page.until(lambda: page.js(SIZE, ".graph-card")[1] < wide[1] - 10)
    page.js("document.querySelector('.split.flat').dispatchEvent(new MouseEvent('dblclick'))")
    page.until(lambda: page.js(SIZE, ".graph-card")[1] == wide[1])


def test_any_number_of_micro_batches_can_be_typed_and_taken_back(real):
    page = real.open(CHAIN)
    field = page.find("#micro-batches .other")
    page.change(lambda: field.send_keys("64" + Keys.ENTER))
    assert page.js("return new URLSearchParams(location.search).get('micro_batches')") == "64"
    field.send_keys(Keys.TAB)
    page.change(lambda: ActionChains(page.browser).key_down(Keys.CONTROL).send_keys("z").key_up(Keys.CONTROL).perform())
    assert page.js("return document.querySelector('#micro-batches input:checked').value") == "8"
    assert field.get_attribute("value") == ""
