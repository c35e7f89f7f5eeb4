"""Comparing planners on the page, as a person does."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELLS = """
return [...document.querySelectorAll('#comparison tbody tr')]
  .map((row) => [...row.children].map((cell) => cell.innerText.trim().replace(/\\s+/g, ' ')));
"""
CURRENT = "return [...document.querySelectorAll('#comparison [aria-current] .row-link')].map((e) => e.innerText)"
OVERFLOW = "const e = document.querySelector(arguments[0]); return e.scrollWidth - e.clientWidth"
PLANNER = "return document.getElementById('planner').value"


def cells(page):
    """The table, row by row."""
    return page.js(CELLS)


def opened(page, query=""):
    """The page with the tab open."""
    page.at(query)
    page.js("[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText === 'Compare').click()")
    page.until(lambda: cells(page) or "Runs every planner" in page.text("compare-note"))
    return page


def compared(page, rows=3):
    """All rows are there; they are asked for unless a test before left them."""
    if len(cells(page)) != rows:
        page.click("#compare")
        page.until(lambda: len(cells(page)) == rows)
    page.until(lambda: page.js("return document.getElementById('compare-stop').disabled"))
    return page.settle()


def test_every_planner_is_a_row_the_best_first_and_those_left_out_with_a_reason(fake):
    page = compared(opened(fake))
    rows = cells(page)
    assert [row[0].split()[0] for row in rows[:-1]] == ["auto", "single"]
    assert "best" in rows[0][0]
    assert "best" not in rows[1][0]
    assert rows[0][2] == rows[0][1]
    assert rows[0][3:5] == ["0 %", "optimal"]
    assert rows[-1] == ["round unsupported: it is square"]
    assert page.js(CURRENT) == ["auto"]
    assert page.state == "optimal"


def test_a_click_on_a_row_shows_its_plan_and_asks_nobody(fake):
    page = compared(opened(fake))
    count = page.js("return window.__pe_timing.length")
    page.change(lambda: page.click("#comparison [data-arg='1']"))
    assert set(page.boxes.values()) == {"d0"}
    assert page.js(CURRENT) == ["single"]
    assert page.js(PLANNER) == "single"
    assert "planner=single" in page.query
    assert "single" in page.text("status")
    assert page.state == "feasible"
    page.js("return new Promise((done) => setTimeout(done, 700))")
    assert page.state == "feasible"
    assert page.js("return window.__pe_timing.length") - count <= 1
    page.change(lambda: page.click("#comparison [data-arg='2']"))
    assert set(page.boxes.values()) == {"d0", "d1", "d2", "d3"}
    assert "planner=" not in page.query


def test_the_rows_are_reached_and_shown_by_keyboard(fake):
    page = compared(opened(fake))
    page.find("#compare").send_keys(Keys.TAB)
    seen = []
    for _ in range(6):
        active = page.js("return [document.activeElement.id, document.activeElement.innerText]")
        seen.append(active)
        if active[1] == "single":
            break
        ActionChains(page.browser).send_keys(Keys.TAB).perform()
    assert seen[-1][1] == "single", seen
    page.change(lambda: ActionChains(page.browser).send_keys(Keys.ENTER).perform())
    assert page.js(CURRENT) == ["single"]
    assert page.js("return document.activeElement.innerText") == "single"
    page.change(lambda: page.click("#comparison [data-arg='2']"))


def test_rows_of_other_settings_wait_until_these_come_back(fake):
    page = compared(opened(fake))
    page.change(lambda: page.slide("devices", 1))
    page.until(lambda: "other settings" in page.text("compare-note"))
    assert page.js("return document.querySelectorAll('#comparison .row-link').length") == 0
    page.change(lambda: page.slide("devices", -1))
    page.until(lambda: page.js(CURRENT) == ["auto"])


def test_all_contiguities_come_in_one_table_that_fits_its_place_with_their_story(fake):
    page = opened(fake)
    page.js("document.getElementById('compare-every').click()")
    compared(page, 7)
    assert [row[1] for row in cells(page)[:6]] == ["acyclic", "acyclic", "convex", "convex", "none", "none"]
    assert "(equal)" in page.text("compare-note")
    for _ in ("light", "dark"):
        for width, height in ((1440, 900), (1024, 700)):
            with page.sized(width, height):
                for part in ("#comparison", ".rail-scroll"):
                    assert page.js(OVERFLOW, part) <= 0, (part, width, page.theme)
                assert page.js("return document.documentElement.scrollWidth") <= width
                assert page.js("return document.getElementById('comparison').getBoundingClientRect().height") > 60
        before = page.theme
        page.click("#theme-toggle")
        page.until(lambda: page.theme != before)  # noqa: B023
    page.js("localStorage.clear()")
    page.change(lambda: page.click("#comparison tr:nth-child(5)"))
    assert "contiguity=none" in page.query
    assert page.js("return document.querySelector('#contiguity input:checked').value") == "none"


def test_a_comparison_is_stopped_with_its_rows(fake):
    page = opened(fake, "time_limit=100")
    page.click("#compare")
    page.until(lambda: "comparing 4 of 4" in page.text("status"))
    page.until(lambda: len(cells(page)) == 3)
    page.click("#compare-stop")
    page.until(lambda: len(cells(page)) == 4)
    page.settle()
    assert page.state == "optimal"


def test_contiguity_is_a_setting_that_a_link_keeps(fake):
    fake.open("contiguity=convex")
    assert "contiguity=convex" in fake.query
    assert "convex stages" in fake.text("why")
    fake.change(lambda: fake.js("document.querySelector('#contiguity input[value=none]').click()"))
    assert "contiguity=none" in fake.query
    assert "any set of operators" in fake.text("why")
