"""Keys do what the help says they do, wherever somebody clicked before."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

CHAIN = "model=chain&devices=4&micro_batches=4&v=2"
SELECTED = "return document.getElementById('graph')._cyreg.cy.nodes('.selected').map((n) => n.id())"


def press(page, *keys):
    """On whatever has the focus."""
    ActionChains(page.browser).send_keys(*keys).perform()


def undo(page):
    chain = ActionChains(page.browser)
    page.change(chain.key_down(Keys.CONTROL).send_keys("z").key_up(Keys.CONTROL).perform)


@pytest.mark.slow
def test_undo_works_right_after_a_slider_and_a_choice(fake):
    page = fake.open(CHAIN)
    page.change(lambda: page.slide("devices", 1))
    assert "devices=5" in page.query
    undo(page)
    assert "devices=4" in page.query
    page.change(page.js("return document.querySelector('#micro-batches input[value=\"8\"]').closest('label')").click)
    assert "micro_batches=8" in page.query
    undo(page)
    assert "micro_batches=4" in page.query


@pytest.mark.slow
def test_escape_lets_a_box_go_that_was_clicked_and_x_its_pin(fake):
    page = fake.at(CHAIN)
    box = next(name for name in page.boxes if name.startswith("m:"))
    page.point(*page.where(box), click=True)
    page.until(lambda: page.js(SELECTED) == [box])
    page.change(lambda: press(page, "p", "2"))
    assert "pins=" in page.query
    page.change(lambda: press(page, "x"))
    assert "pins=" not in page.query
    press(page, Keys.ESCAPE)
    page.until(lambda: page.js(SELECTED) == [])
    page.until(lambda: not page.js("return window.explorer.graph.bright()"))


def test_find_opens_the_modules_around_a_match(fake):
    page = fake.at(CHAIN)
    assert "m:blocks.5.mlp" in page.boxes
    press(page, "/")
    page.find(".find input").send_keys("blocks.5.mlp.op7")
    page.until(lambda: page.js("return document.querySelectorAll('.find li').length") == 1)
    press(page, Keys.ENTER)
    page.until(lambda: page.js(SELECTED) == ["o:67"])
    page.until(lambda: "blocks.5.mlp.op7" in page.text("inspector"))
    assert "m:blocks.1.mlp" in page.boxes
