"""What a person does with the page, on hand-made plans."""

from __future__ import annotations

import re

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.browser.conftest import serve
from tests.browser.page import BRIGHT, DIM, Page

pytestmark = pytest.mark.browser


VEIL = """
const canvas = document.querySelectorAll('#gantt canvas')[1];
const box = canvas.getBoundingClientRect();
const copy = document.createElement('canvas').getContext('2d');
copy.drawImage(canvas, box.left - arguments[0], box.top - arguments[1]);
return copy.getImageData(0, 0, 1, 1).data[3];
"""
"""How much lies over a bar at a point."""


def lanes(page):
    return {re.match(r"GPU \d+", name)[0] for name, _ in page.bars}


def devices(page):
    return set(page.boxes.values()) - {"mixed", ""}


def test_everything_is_reached_by_keyboard(fake):
    fake.open()
    seen = set()
    fake.js("document.body.focus()")
    for _ in range(90):
        ActionChains(fake.browser).send_keys(Keys.TAB).perform()
        active = "const e = document.activeElement; return e.id || e.closest('[id]')?.id || e.className"
        seen.add(fake.js(active))
    assert {"share", "theme-toggle", "model", "kind", "planner", "solve", "deeper", "memory-cards"} <= seen


def test_the_first_view_shows_a_coloured_graph_and_a_schedule(fake):
    fake.at()
    assert fake.state == "optimal"
    assert devices(fake) == {"d0", "d1", "d2", "d3"}
    assert lanes(fake) == {"GPU 0", "GPU 1", "GPU 2", "GPU 3"}
    assert "proved optimal" in fake.text("kpis")
    assert "192 operators" in fake.text("model-chip")


def test_another_gpu_count_recolours_the_graph_and_redraws_the_schedule_and_its_time_is_shown(fake):
    fake.at()
    count = fake.js("return window.__pe_timing.length")
    fake.change(lambda: fake.slide("devices", 1))
    assert fake.text("devices-value") == "5"
    assert devices(fake) == {f"d{i}" for i in range(5)}
    assert len(lanes(fake)) == 5
    assert len(fake.browser.find_elements(By.CSS_SELECTOR, ".mem")) == 5
    fake.until(lambda: fake.js("return window.__pe_timing.length") > count)
    entry = fake.js("return window.__pe_timing.at(-1)")
    assert entry["total_ms"] > 0
    assert {"solve_ms", "server_ms", "figure_ms", "transport_ms", "paint_ms"} <= set(entry)
    fake.change(lambda: fake.slide("devices", -1))


def test_settings_wait_for_solve_when_set_to(fake):
    fake.at()
    fake.js("document.getElementById('solve-on-change').click()")
    before = fake.query
    fake.slide("devices", 1)
    fake.until(lambda: fake.js("return document.body.classList.contains('stale')"))
    assert fake.query == before
    fake.change(lambda: fake.click("#solve"))
    assert "devices=5" in fake.query
    fake.js("document.getElementById('solve-on-change').click()")
    fake.change(lambda: fake.slide("devices", -1))


def test_a_model_that_fails_says_why(fake):
    fake.at()
    fake.put("model", "broken")
    fake.until(lambda: fake.state == "failed")
    assert "this model is here to fail" in fake.text("banner")
    fake.put("model", "chain")
    fake.until(lambda: fake.state == "optimal")
    fake.settle()


def test_hovering_a_box_dims_what_is_elsewhere(fake):
    fake.at()
    x, y = fake.where("m:blocks.2.attention")
    chain = ActionChains(fake.browser)
    chain.w3c_actions.pointer_action.move_to_location(x, y)
    chain.perform()
    fake.until(lambda: fake.js(BRIGHT))
    assert "m:blocks.7.mlp" not in fake.js(BRIGHT)
    assert {"m:blocks.2.attention", "m:blocks.2.mlp"} <= set(fake.js(BRIGHT))
    names = [name for name, _ in fake.bars]
    veiled = {name: fake.js(VEIL, *fake.bar(names.index(name))) for name in ("GPU 1 forward", "GPU 3 forward")}
    assert veiled["GPU 1 forward"] == 0 < veiled["GPU 3 forward"]


def test_a_click_on_a_bar_highlights_its_stage(fake):
    fake.at()
    fake.point(*fake.bar(), click=True)
    fake.until(lambda: "In flight" in fake.text("inspector"))
    assert 0 < fake.js(DIM) < len(fake.boxes)


def test_a_click_on_a_device_filters_and_a_second_one_releases(fake):
    fake.at()
    fake.click(".mem[data-device='2']")
    fake.until(lambda: fake.js(DIM) == 12)
    assert "GPU 2" in fake.text("inspector")
    fake.click(".mem[data-device='2']")
    fake.until(lambda: fake.js(DIM) == 0)


def test_modules_expand_by_keyboard_and_level(fake):
    fake.at()
    canvas = fake.find(".graph-card .canvas")
    canvas.send_keys(Keys.ARROW_DOWN)
    fake.until(lambda: "blocks.0.attention" in fake.text("inspector"))
    canvas.send_keys(Keys.ENTER)
    fake.until(lambda: len(fake.boxes) == 21)
    fake.click("#shallower")
    fake.until(lambda: len(fake.boxes) == 16)
    fake.click("#shallower")
    fake.until(lambda: len(fake.boxes) == 8)
    fake.click("#deeper")
    fake.until(lambda: len(fake.boxes) == 16)
    assert devices(fake) == {"d0", "d1", "d2", "d3"}


def test_each_canvas_has_a_table_twin(fake):
    fake.at()
    for card, words in (("graph", "blocks.0.attention"), ("gantt", "forward, stage 0, micro-batch 0")):
        fake.click(f".{card}-card summary")
        fake.until(lambda: words in fake.text(f"{card}-table"))  # noqa: B023
        fake.click(f".{card}-card summary")
    fake.click("button[role=tab]:nth-of-type(2)")
    fake.until(lambda: "Static memory" in fake.text("device-table"))
    fake.click("button[role=tab]:nth-of-type(1)")


def test_the_boxes_are_really_painted(fake):
    fake.at("theme=light")
    fake.until(lambda: {"0,114,178", "230,159,0", "0,158,115"} <= fake.colours)


def test_the_theme_switches_everything_and_is_kept(fake):
    fake.at("theme=light")
    light = fake.js("return getComputedStyle(document.body).backgroundColor")
    fake.click("#theme-toggle")
    fake.until(lambda: fake.theme == "dark")
    assert fake.js("return getComputedStyle(document.body).backgroundColor") != light
    fake.until(lambda: fake.js("return window.explorer.gantt.drawn().figure.colours.text") == "#e8eaee")
    fake.open("devices=3")
    assert fake.theme == "dark"
    fake.js("localStorage.clear()")


def test_a_cap_that_nothing_fits_tells_whom_to_blame_and_offers_one_that_fits(fake):
    fake.open("memory=536870912&devices=2")
    assert fake.state == "infeasible"
    assert "No plan fits 2 devices of 512 MiB" in fake.text("banner")
    assert "blocks.0.attention.op0" in fake.text("banner")
    fake.change(lambda: fake.click("[data-act=cap]"))
    assert fake.state == "optimal"
    assert fake.text("banner") == ""
    assert fake.js("return document.getElementById('memory-field').value").endswith("GiB")


def test_another_question_takes_away_the_words_on_the_one_before(fake):
    fake.open("memory=536870912&devices=2")
    assert "No plan fits" in fake.text("banner")
    fake.js("""
      const send = explorer.send;
      explorer.send = function (message) {
        if (message.type === 'solve') window.said = document.getElementById('banner').innerText;
        send(message);
      }""")
    fake.change(lambda: fake.slide("devices", 1))
    assert fake.js("return window.said") == ""
    fake.open("devices=8")


def test_a_search_shows_incumbents_gives_way_to_a_newer_question_and_stops_when_cancelled_or_late(fake):
    fake.browser.get(fake.address + "?planner=slow&time_limit=60")
    fake.until(lambda: fake.state == "solving" and "gap 20 %" in fake.text("status"))
    fake.until(lambda: devices(fake) == {"d0", "d1", "d2", "d3"})
    assert fake.state == "solving"
    fake.slide("devices", 2)
    fake.until(lambda: len(lanes(fake)) == 6)
    fake.until(lambda: fake.find("#cancel").is_enabled())
    fake.click("#cancel")
    fake.settle()
    assert fake.state == "feasible"
    assert "cancelled" in fake.text("status")
    fake.change(lambda: fake.put("time-limit", 0.5))
    assert fake.state == "feasible"
    assert "gap 20 %" in fake.text("status")
    assert "time limit" in fake.text("status")


def test_a_link_opens_the_same_state(fake):
    query = "model=chain&devices=6&device_kind=H100-80GB&mini_batch=32&micro_batches=4&pipeline=gpipe&theme=dark"
    fake.open(query)
    shown = fake.query
    assert fake.text("devices-value") == "6"
    assert "GPipe" in fake.text("gantt-count")
    assert "mini-batch 32" in fake.text("kpis")
    assert "micro-batches 4" in fake.text("kpis")
    fake.open(shown.removeprefix("?"))
    assert fake.query == shown


def test_a_link_with_nonsense_is_refused_in_words(fake):
    fake.open("devices=99999")
    assert fake.state == "failed"
    assert "devices: expected a number from 1 to 16384, found 99999" in fake.text("banner")


def test_a_lost_connection_is_shown(chromium):
    server = serve("tests.browser.fakes.serve_fake")
    page = Page(chromium, next(server)).open()
    server.close()
    page.until(lambda: page.state == "lost")
    assert "connection lost" in page.text("status")
    chromium.get("about:blank")


def test_nothing_sticks_out_of_the_window(fake):
    fake.at("devices=8")
    clipped = """
      const told = '.kpi b, .kpi .value, .card-head h2:not(.sr), .choice button, .run button, .status b';
      return [...document.querySelectorAll(told)]
        .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText)"""
    cut = """
      const right = (e) => e.getBoundingClientRect().right;
      return [...document.querySelectorAll('.card-head > *')]
        .filter((e) => right(e) > right(e.closest('.card'))).map((e) => e.outerHTML)"""
    changed = """document.querySelector('.kpi .value').innerHTML = '<b>55,778 /s</b><i class="change">+19.3 %</i>'"""
    wider = "const e = document.getElementById('device-table'); return e.scrollWidth - e.clientWidth"
    fake.click("#tab-devices")
    for width, height in ((1440, 900), (1280, 720), (1024, 700), (1920, 1080)):
        with fake.sized(width, height):
            fake.js(changed)
            assert fake.js("return document.documentElement.scrollWidth") <= width
            assert fake.js(clipped) == [], width
            assert fake.js(cut) == [], width
            if width > 1024:
                assert fake.js(wider) <= 0, width
    fake.click("#tab-memory")


def test_the_header_has_room_for_a_large_model_and_an_answer_from_before(fake):
    fake.at("devices=8")
    put = """
      const told = {'.chip .name': 'multimodal', '.status .what': 'graph-pipeline',
        '.status .more': '12.3 s · gap 20.8 % · cached'};
      for (const place of Object.keys(told)) document.querySelector(place).textContent = told[place];
      document.querySelector('.chip .facts').firstChild.textContent = '1,284 operators'"""
    cut = """
      return [...document.querySelectorAll('.header *')].filter((e) => e.checkVisibility() && !e.closest('.menu, .sr'))
        .filter((e) => getComputedStyle(e).display !== 'inline' && e.scrollWidth > e.clientWidth + 1)
        .map((e) => e.innerText)"""
    for width in (1280, 1366, 1440, 1920):
        with fake.sized(width, 720):
            fake.js(put)
            assert "costs" in fake.text("model-chip")
            assert fake.js(cut) == [], width
    fake.open("devices=8")
