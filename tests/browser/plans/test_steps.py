"""Changes are steps that can be undone, plans are kept and compared, and a link says whether its plan is the same."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.browser.page import DIM

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

START = "model=gpt-small&devices=2&micro_batches=4&planner=equal&effort=quick&v=2"


def all_of(page, selector):
    return page.browser.find_elements(By.CSS_SELECTOR, selector)


def drag(page, slider):
    """The thumb to the right, by hand, in several moves that each say something."""
    thumb = page.find(f"#{slider} [role=slider]")
    moves = ActionChains(page.browser).click_and_hold(thumb)
    for _ in range(4):
        moves = moves.move_by_offset(14, 0).pause(0.3)
    moves.release().perform()


def tab(page, name):
    next(t for t in all_of(page, "[role=tab]") if t.text == name).click()


def test_back_and_the_buttons_undo_and_redo_and_a_drag_is_one_step(real):
    page = real.open(START)
    page.browser.execute_cdp_cmd("Page.resetNavigationHistory", {})  # of other tests: a browser keeps 50 steps
    assert not page.find("#undo").is_enabled()
    page.change(lambda: page.put("micro-batches", "8"))
    page.change(lambda: page.put("memory", 5))
    two = page.query
    assert "memory=" in two
    page.change(lambda: drag(page, "devices"))
    assert "devices=2" not in page.query
    assert page.js("return history.state.step") == 3  # history.length stops at 50
    page.change(page.browser.back)
    assert page.query == two
    assert "cached" in page.text("status")
    assert {name.split(" · ")[0][:5] for name, _ in page.bars} == {"GPU 0", "GPU 1"}
    page.change(lambda: page.click("#undo"))
    assert ("memory=" in page.query, "micro_batches=8" in page.query) == (False, True)
    page.change(lambda: page.click("#undo"))
    assert "micro_batches=4" in page.query
    assert not page.find("#undo").is_enabled()
    page.change(lambda: page.click("#redo"))
    page.change(lambda: page.click("#redo"))
    assert page.query == two


def test_plans_are_kept_named_shown_again_and_compared(real):
    page = real.open(START)
    tab(page, "Scenarios")
    page.click("#scenarios [data-act=keep]")
    page.until(lambda: len(all_of(page, ".scenarios tbody tr")) == 1)
    first = page.query
    page.change(lambda: page.put("planner", "single"))
    page.click("#scenarios [data-act=keep]")
    page.until(lambda: len(all_of(page, ".scenarios tbody tr")) == 2)
    assert len(all_of(page, ".thumb[src^='data:image/svg']")) == 2
    name = all_of(page, ".scenario-name")[1]
    name.click()
    name.send_keys(Keys.CONTROL, "a")
    name.send_keys("all <b>on one</b>", Keys.ENTER)
    page.click("#scenarios [data-act=differ]")
    page.until(lambda: "moved; bright in the graph" in page.text("scenarios"))
    assert "all <b>on one</b> against" in page.text("scenarios")
    assert "peak memory, GPU 0" in page.text("scenarios")
    page.until(lambda: page.js(DIM))
    page.change(lambda: page.js("document.querySelector('#scenarios [data-act=show-kept]').click()"))
    assert page.query == first
    page.js("document.querySelectorAll('#scenarios [data-act=as-baseline]')[0].click()")
    page.until(lambda: "all" in page.find(".scenarios [aria-current] .scenario-name").text)
    page.js("document.querySelector('#scenarios [data-act=forget]').click()")
    page.until(lambda: len(all_of(page, ".scenarios tbody tr")) == 1)


def test_a_link_says_whether_the_plan_is_the_one_it_was_made_of(real):
    page = real.open(START)
    page.js("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.click("#share")
    link = page.until(lambda: page.js("return window.__pe_shared"))
    assert "plan=" in link
    page.open(link.partition("?")[2])
    page.until(lambda: page.text("same-plan") == "same plan as in the link")
    page.open(START + "&plan=" + "0" * 16)
    page.until(lambda: page.text("same-plan") == "not the link's plan")
    page.change(lambda: page.put("micro-batches", "2"))
    assert page.js("return document.getElementById('same-plan').hidden")
