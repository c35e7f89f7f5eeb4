"""What is pinned stays on its device, is seen and listed, and can be unpinned again."""

from __future__ import annotations

import json
from urllib.parse import parse_qs

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from explorer.view.session import Choices, parse, parse_query, to_query
from solvers.errors import InvalidProblem

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

START = "model=gpt-small&devices=2&micro_batches=4&effort=quick&v=2"
PINNED = "return document.getElementById('graph')._cyreg.cy.nodes('.pinned').map((n) => n.id())"
CHOICES = Choices(("gpt-small",), ("auto",), ())


def pins(page):
    return json.loads(parse_qs(page.query.lstrip("?")).get("pins", ["{}"])[0])


def press(page, *keys):
    ActionChains(page.browser).send_keys(*keys).perform()


def test_a_module_is_pinned_by_keys_moved_by_a_button_and_let_go_by_its_chip(real):
    page = real.at(START)
    box = next(name for name, paint in page.boxes.items() if paint == "d0")
    page.js("window.explorer.graph.select(arguments[0])", box)
    page.until(lambda: "Pin to" in page.text("inspector"))
    page.change(lambda: press(page, "p", "1"))
    (name,) = pins(page)
    assert pins(page) == {name: 1}
    assert page.state in ("optimal", "feasible")
    assert page.boxes[box] == "d1"
    assert box in page.js(PINNED)
    assert name in page.text("pinned")
    page.until(lambda: page.find('#inspector [data-pin="1"]').get_attribute("aria-pressed") == "true")
    page.change(lambda: page.click('#inspector [data-pin="0"]'))
    assert pins(page) == {name: 0}
    assert page.boxes[box] == "d0"
    page.change(lambda: page.click("#pinned .tool"))
    assert pins(page) == {}
    assert page.js(PINNED) == []


def test_what_a_pin_costs_is_shown_once_its_plan_is_there(real):
    page = real.open(START + "&planner=local-search")
    before = page.text("kpis").split("Iteration time")[1].split()[0]
    box = next(name for name, paint in page.boxes.items() if paint == "d0")
    page.js("window.explorer.graph.select(arguments[0])", box)
    page.until(lambda: "Pin to" in page.text("inspector"))
    page.change(lambda: press(page, "p", "1"))
    (name,) = pins(page)
    text = page.until(lambda: page.text("pin-cost"))
    assert text.startswith(f"pinned {name} to GPU 1: ")
    after = page.text("kpis").split("Iteration time")[1].split()[0]
    assert ("costs nothing" in text) == (before == after)
    page.change(lambda: page.choose("kind", "L4"))
    assert page.text("pin-cost") == "", "more changed than the pin"


def groups(page):
    return json.loads(parse_qs(page.query.lstrip("?")).get("together", ["[]"])[0])


def test_two_modules_are_kept_together_by_a_key_and_part_again(real):
    page = real.at(START)
    one, two = (next(name for name, paint in page.boxes.items() if paint == device) for device in ("d0", "d1"))
    page.js("window.explorer.graph.select(arguments[0])", one)
    page.until(lambda: "Keep together" in page.text("inspector"))
    press(page, "t")
    page.until(lambda: "Now choose" in page.text("pin-note"))
    page.change(lambda: page.js("window.explorer.graph.select(arguments[0])", two))
    (group,) = groups(page)
    assert len(group) >= 2
    assert page.boxes[one] == page.boxes[two]
    assert group[0] in page.text("pinned")
    page.js("window.explorer.graph.select(arguments[0])", one)
    page.until(lambda: "Keep together" in page.text("inspector"))
    page.click("#inspector [data-together]")
    page.until(lambda: "Now choose" in page.text("pin-note"))
    press(page, Keys.ESCAPE)
    assert groups(page) == [group]
    page.change(lambda: page.click("#pinned .tool"))
    assert groups(page) == []
    assert page.boxes[one] != page.boxes[two]


def test_a_stage_of_the_schedule_and_a_row_of_a_table_are_pinned_and_a_link_keeps_it(real):
    page = real.open(START)
    page.js("window.explorer.gantt.holdStage(0, 0)")
    page.until(lambda: "Pin to" in page.text("inspector"))
    page.change(lambda: press(page, "p", "1"))
    assert set(pins(page).values()) == {1}
    assert page.js(PINNED)
    page.change(lambda: page.js("document.querySelector('#unpin-all:not([hidden]), #pinned .tool').click()"))
    assert pins(page) == {}
    summary = next(s for s in page.browser.find_elements(By.CSS_SELECTOR, ".twin summary") if "Graph" in s.text)
    summary.click()
    row = page.until(lambda: page.browser.find_elements(By.CSS_SELECTOR, "#graph-table .row-link"))[0]
    name = row.text
    row.send_keys(Keys.ENTER)
    page.until(lambda: name in page.text("inspector"))
    page.change(lambda: press(page, "p", "1"))
    query = page.query
    assert name in pins(page)
    page.open(query.lstrip("?"))
    assert page.query == query
    assert page.js(PINNED)


def test_pins_that_contradict_the_model_are_reported_in_a_line(real):
    page = real.open(START + '&pins={"nowhere":1}')
    assert "there is no operator or module 'nowhere'" in page.text("banner")
    page.change(lambda: page.click("#pinned .tool"))
    assert page.state in ("optimal", "feasible")


def test_pins_fit_a_link_and_what_is_no_pin_is_refused():
    session = parse({"model": "gpt-small", "pins": '{"blocks.0":1,"a=b,c":0}'}, CHOICES)
    assert parse_query(to_query(session), CHOICES) == session
    for bad in ("[1]", "{", {"a": -1}, {"a": True}, {"": 1}, {str(i): 0 for i in range(65)}, '{"a":1e9}', 3):
        with pytest.raises(InvalidProblem, match="pins"):
            parse({"model": "gpt-small", "pins": bad}, CHOICES)
