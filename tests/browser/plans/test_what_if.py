"""What else there could be: single changes and sweeps are solved, listed, and opened with a click."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

START = "model=gpt-small&devices=2&micro_batches=4&planner=equal&effort=quick&v=2"
POINTS = "return [...document.querySelectorAll('#sweep-plot .point')].map((p) => p.getAttribute('aria-label'))"


def all_of(page, selector):
    return page.browser.find_elements(By.CSS_SELECTOR, selector)


def tab(page, name):
    next(t for t in all_of(page, "[role=tab]") if t.text == name).click()


def test_single_changes_are_solved_and_the_best_is_gone_to(real):
    page = real.open(START)
    page.js("document.querySelector('[data-act=help]').click()")
    page.until(lambda: "Throughput against this plan" in page.text("help"))
    text = page.text("help")
    for words in (
        "1 GPU more",
        "links twice as fast",
        "8 micro-batches",
        "2 micro-batches",
        "replicated",
        "recomputed",
    ):
        assert words in text
    go = next(b for b in all_of(page, "[data-act=go-help]") if "8 micro" in b.get_attribute("aria-label"))
    predicted = go.get_attribute("aria-label").rpartition(", ")[2]
    page.change(lambda: page.js("arguments[0].click()", go))
    assert "micro_batches=8" in page.query
    assert not page.js("return document.body.classList.contains('stale')")
    assert predicted in page.text("kpis")
    assert "quick search" in page.text("status")
    assert "Try single changes" in page.text("help")


def test_what_a_change_is_stated_to_give_is_what_its_click_gives(real):
    """Said by a search with little effort, of which the click shows the very plan, whichever planner is asked."""
    page = real.open(START.replace("equal", "auto"))
    page.js("document.querySelector('[data-act=help]').click()")
    page.until(lambda: "Throughput against this plan" in page.text("help"), 150)
    count = len(all_of(page, "[data-act=go-help]"))
    assert count >= 4
    go = all_of(page, "[data-act=go-help]")[0]
    name = go.get_attribute("aria-label")
    row = page.js("return arguments[0].closest('li').innerText", go)
    page.change(lambda: page.js("arguments[0].click()", go))
    message = name.rpartition(", ")[2]
    assert message in page.text("kpis"), row
    assert "from before" not in page.text("why"), "a plan of another question beats none"
    before = page.query
    page.change(lambda: press_undo(page))
    assert page.query != before


def press_undo(page):
    page.js("document.activeElement.blur()")
    ActionChains(page.browser).key_down(Keys.CONTROL).send_keys("z").key_up(Keys.CONTROL).perform()


def test_what_is_tried_is_dropped_when_the_question_changes(real):
    page = real.open(START)
    page.js("document.querySelector('[data-act=help]').click()")
    page.change(lambda: page.put("micro-batches", "2"))
    page.until(lambda: "Try single changes" in page.text("help"))
    assert not all_of(page, "#help li")


def test_a_sweep_draws_a_plan_a_point_that_a_click_asks_for(real):
    page = real.open(START)
    tab(page, "Sweep")
    page.click("#sweep-axis [data-value=micro_batches]")
    page.click("#sweep-start")
    page.until(lambda: "A click on one asks it" in page.text("sweep-note"))
    labels = page.js(POINTS)
    assert len(labels) >= 5
    assert all_of(page, "#sweep-plot .bound")
    assert all_of(page, "#sweep-plot .objective")
    point = next(p for p in all_of(page, "#sweep-plot .point") if "Go to 16:" in p.get_attribute("aria-label"))
    page.change(point.click)
    assert "micro_batches=16" in page.query


def test_the_knee_of_a_sweep_over_memory_has_a_ring(real):
    page = real.open(START)
    tab(page, "Sweep")
    page.click("#sweep-axis [data-value=memory_bytes]")
    plan = {"bound_s": 2.0, "status": "feasible", "reason": ""}
    points = [{"objective_s": s, "text": f"{s} s", **plan} for s in (4.0, 2.5, 2.4)]
    message = {"type": "sweep", "going": False, "words": "3 plans", "points": points, "axis": "memory_bytes",
               "values": [8e9, 16e9, 32e9], "labels": ["8 GB", "16 GB", "32 GB"], "knee": 1}  # fmt: skip
    page.js("window.explorer.sweep.draw(arguments[0])", message)
    assert len(all_of(page, "#sweep-plot .knee")) == 1
    rings, dots = page.js(  # at once: a change of size draws again
        "return ['.knee', '.point'].map(each => [...document.querySelectorAll('#sweep-plot ' + each)]"
        ".map(mark => mark.getAttribute('cx')))"
    )
    assert [dot in rings for dot in dots] == [False, True, False]
    page.js("window.explorer.sweep.draw(arguments[0])", {**message, "knee": None})
    assert not all_of(page, "#sweep-plot .knee")
