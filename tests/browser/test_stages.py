"""The picture for teaching: stages as a DAG and as rows, and the same model as a chain of them."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.browser.page import DIM
from tests.browser.test_page import lanes

pytestmark = pytest.mark.browser

BRANCHES = "model=branches&devices=7&theme=light"
PRESSED = "return document.querySelector(`#${arguments[0]} [aria-pressed=true]`)?.innerText"
ROWS = """
return [...document.querySelectorAll('#gantt .row-name')].map((name) => name.textContent);
"""
END = "return window.explorer.gantt.drawn().range[1]"
STAGES = """
const boxes = [...document.querySelectorAll('#stages .stage')].map((b) => b.getBoundingClientRect());
return boxes.map((r) => [r.left, r.top, r.right, r.bottom]);
"""
FRAME = """
const r = document.getElementById('stages').getBoundingClientRect();
return [r.left, r.top, r.right, r.bottom];
"""
VEIL = "return window.explorer.gantt.drawn().over.some((shape) => ['veil', 'off path'].includes(shape.name))"


def test_the_stages_are_a_view_of_their_own_and_rows_are_stages_or_devices_as_a_link_keeps(fake):
    fake.open(BRANCHES)
    assert fake.js(PRESSED, "gantt-rows") == "Stages"
    assert fake.js(ROWS)[0] == "0 · GPU 0"
    assert "warm-up" in fake.text("gantt-legend")
    fake.click("#gantt-rows [data-value=devices]")
    fake.until(lambda: fake.js(ROWS) == [f"GPU {i}" for i in range(7)])
    fake.until(lambda: "rows=devices" in fake.query)
    fake.click("#graph-kind [data-value=stages]")
    fake.until(lambda: "graph=stages" in fake.query)
    boxes = fake.js(STAGES)
    assert len(boxes) == 7
    frame = fake.js(FRAME)
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert frame[0] <= left < right <= frame[2]
        assert frame[1] <= top < bottom <= frame[3]
        for x0, y0, x1, y1 in boxes[:i]:
            assert right <= x0 or x1 <= left or bottom <= y0 or y1 <= top
    assert fake.js("return document.querySelectorAll('#stages .arrow').length") == 6
    assert "7 stages, depth 3" in fake.text("stages-note")
    fake.open(fake.query.removeprefix("?"))
    assert fake.js(PRESSED, "graph-kind") == "Stages"
    assert len(fake.js(STAGES)) == 7
    assert fake.js(PRESSED, "gantt-rows") == "Devices"
    assert lanes(fake) == {f"GPU {i}" for i in range(7)}
    fake.click("#graph-kind [data-value=operators]")
    fake.until(lambda: "graph=" not in fake.query)


def test_a_click_on_a_stage_selects_it_everywhere_and_a_second_one_releases(fake):
    fake.at(BRANCHES + "&graph=stages")
    fake.click("#stages [data-stage='3']")
    fake.until(lambda: "Stage 3" in fake.text("inspector"))
    assert fake.js(VEIL)
    assert 0 < fake.js(DIM) < len(fake.boxes)
    fake.click("#stages [data-stage='3']")
    fake.until(lambda: not fake.js(VEIL))
    assert fake.js(DIM) == 0


def test_stages_are_reached_by_keyboard(fake):
    fake.at(BRANCHES + "&graph=stages")
    fake.js("document.querySelector('#stages .stage').focus()")
    keys = ActionChains(fake.browser)
    keys.send_keys(Keys.ARROW_RIGHT, Keys.ENTER).perform()
    fake.until(lambda: "Stage 1" in fake.text("inspector"))
    assert fake.js("return document.activeElement").accessible_name.startswith("Stage 1 GPU ")
    keys.send_keys(Keys.ESCAPE).perform()
    fake.until(lambda: not fake.js(VEIL))


def test_one_click_plans_the_sequential_pipeline_too_and_toggling_asks_nobody(fake):
    fake.at(BRANCHES + "&graph=stages")
    fake.click("[data-act=pair]")
    fake.until(lambda: "1.69× faster" in fake.text("pair"))
    fake.settle()
    assert fake.js(PRESSED, "pair") == "Graph pipeline"
    assert "Sequential ends at" in fake.js("return window.explorer.gantt.drawn().notes[0]")
    end, graph = fake.js(END), fake.js(STAGES)
    count = fake.js("return window.__pe_timing.length")
    fake.change(lambda: fake.click("[data-act=show-pair][data-arg='1']"))
    assert fake.js(PRESSED, "pair") == "Sequential"
    assert fake.js(END) == end
    assert "depth 7" in fake.text("stages-note")
    assert fake.js(STAGES) != graph
    assert "planner=pipedream-iter" in fake.query
    assert "in_sequence=true" in fake.query
    assert fake.js("return document.getElementById('in-sequence').checked")
    assert fake.js("return window.__pe_timing.length") - count <= 1
    fake.open(fake.query.removeprefix("?"))
    fake.until(lambda: "1.69× faster" in fake.text("pair"))
    fake.settle()
    assert fake.js(PRESSED, "pair") == "Sequential"
    fake.click("[data-act=unpair]")
    fake.until(lambda: "pair=" not in fake.query)


def test_zooming_in_numbers_the_micro_batches(fake):
    fake.open(BRANCHES + "&micro_batches=64")
    numbered = "return window.explorer.gantt.drawn().numbers.length"
    before = fake.js(numbered)
    canvas = fake.find(".gantt-card .canvas")
    for _ in range(8):
        canvas.send_keys("+")
    fake.until(lambda: fake.js(numbered) > before)
    canvas.send_keys("0")
    fake.until(lambda: fake.js(numbered) == before)


def test_on_a_chain_both_are_the_same_and_it_says_so(fake):
    fake.open("model=chain&pair=graph-pipeline,pipedream-iter/in-sequence")
    fake.until(lambda: "equally fast, as both are chains of stages" in fake.text("pair"))
    fake.settle()


def test_the_settings_of_pipelines_are_kept_by_a_link(fake):
    query = "model=chain&pipeline=zero-bubble&devices_per_node=4&max_replicas=all&recompute=budget&in_sequence=true"
    fake.open(query)
    for part in query.split("&"):
        assert part in fake.query
    assert fake.js("return document.getElementById('pipeline').value") == "zero-bubble"
    assert fake.js("return document.getElementById('recompute').value") == "budget"
