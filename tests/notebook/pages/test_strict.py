"""The module on a page that forbids to compile text and to ask anybody else: as in the webviews of editors."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from explorer.notebook.built import built
from explorer.question.graphs.demos import traced_before
from tests.notebook.pages.jupyter import PAINTED
from tests.notebook.standins.strict_page import strict_page
from tests.notebook.standins.worker import ListedWidget, drawn, say

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("bundle", "watched")]

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def answered() -> Iterator[ListedWidget]:
    """A widget with a plan, answered by hand."""
    made = ListedWidget(traced_before("gpt-small", True, None), devices=4, micro_batches=4)
    made.listed.answer()
    yield made
    made.close()


@pytest.fixture
def page(bundle: None, chromium: Any, answered: ListedWidget, watched: Any) -> Iterator[Any]:
    answered.selection = None
    with strict_page(drawn(answered), built("widget.js"), built("widget.css")) as address:
        chromium.set_window_size(1280, 1100)
        chromium.get(address)
        until(lambda: chromium.execute_script("return window.ready === true"))
        yield chromium
        chromium.get("about:blank")


def until(test):
    end = time.monotonic() + PATIENCE_S
    while not (found := test()):
        assert time.monotonic() < end, f"not in {PATIENCE_S:g} s"
        time.sleep(0.05)
    return found


def sent(page, kind):
    return [message for message in page.execute_script("return window.sent") if message["type"] == kind]


def find(page, selector):
    return page.find_element("css selector", f".placement-explorer {selector}")


def colours(page, selector):
    return set(page.execute_script(PAINTED, find(page, selector)))


def test_the_module_draws_a_plan_under_the_policy(page):
    until(lambda: {"0,114,178", "0,158,115"} <= colours(page, ".chart canvas"))
    until(lambda: {"0,114,178", "0,158,115"} <= colours(page, "canvas[data-id='layer2-node']"))
    assert len(page.find_elements("css selector", ".placement-explorer .kpi")) == 5
    assert page.execute_script("return typeof window.explorer") == "undefined"


def test_what_python_selects_is_bright_and_what_is_clicked_is_told(page, answered):
    answered.selection = "GPU 1"
    page.execute_script("put({_selected: arguments[0]})", drawn(answered)["_selected"])
    assert [card.get_attribute("data-device") for card in page.find_elements("css selector", ".mem.held")] == ["1"]
    page.find_element("css selector", ".mem[data-device='2']").click()
    assert sent(page, "select")[-1] == {"type": "select", "kind": "device", "id": "2"}
    page.find_elements("css selector", ".row-name")[3].click()
    assert sent(page, "select")[-1] == {"type": "select", "kind": "stage", "id": "3"}


def test_every_control_tells_its_value(page):
    for name, value in (("memory", "24GiB"), ("micro_batches", "8"), ("devices", "6")):
        field = find(page, f"input[name='{name}']")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(value, Keys.ENTER)
        assert sent(page, "set")[-1] == {"type": "set", "name": name, "value": value}
    find(page, "select[name='planner'] option[value='pipedream']").click()
    assert sent(page, "set")[-1] == {"type": "set", "name": "planner", "value": "pipedream"}
    find(page, ".more-controls summary").click()
    find(page, "input[name='recompute']").click()
    assert sent(page, "set")[-1] == {"type": "set", "name": "recompute", "value": True}
    assert len(sent(page, "set")) == 5
    find(page, ".acts .strong").click()
    assert sent(page, "solve")


def test_everything_is_reached_by_keyboard(page):
    seen = set()
    page.execute_script("document.body.focus()")
    for _ in range(70):
        page.switch_to.active_element.send_keys(Keys.TAB)
        seen.add(page.execute_script(
            "const e = document.activeElement;"
            "return e.name || e.getAttribute('aria-label') || e.textContent.slice(0, 20)"
        ))  # fmt: skip
    assert {"devices", "memory", "planner", "micro_batches", "Solve", "Path", "Fit", "Devices"} <= seen
    assert [name for name in seen if re.search(r"GPU\s*1", name)], f"no row and no card of a device among {seen}"
    assert any(name.startswith("Operators grouped") for name in seen)
    assert any(name.startswith("Schedule: a row") for name in seen)


def test_the_keyboard_looks_closer_and_back(page):
    chart = find(page, ".gantt-card .canvas")
    before = page.execute_script("return document.querySelector('.chart canvas').toDataURL()")
    chart.send_keys("+", "+", Keys.ARROW_RIGHT)
    until(lambda: page.execute_script("return document.querySelector('.chart canvas').toDataURL()") != before)
    chart.send_keys("0")
    until(lambda: page.execute_script("return document.querySelector('.chart canvas').toDataURL()") == before)
    chart.send_keys(Keys.ESCAPE)


def test_a_refusal_and_an_infeasible_cap_are_told_with_a_way_out(page, answered):
    say(answered, {"type": "set", "name": "memory", "value": "much"})
    page.execute_script("put({_told: arguments[0]})", drawn(answered)["_told"])
    assert "much" in find(page, ".refused").text
    banner = {"title": "No plan fits.", "lines": ["Proved."], "cap": {"bytes": 7e9, "words": "Set the cap"}}
    told = {**drawn(answered)["_told"], "state": "infeasible", "refused": None, "banner": banner}
    page.execute_script("put({_told: arguments[0]})", told)
    find(page, ".banner .strong").click()
    assert sent(page, "set")[-1] == {"type": "set", "name": "memory", "value": 7000000000}


@pytest.mark.parametrize("width", [360, 480, 760, 1280, 1920])
def test_nothing_overflows_from_a_third_of_a_screen_to_a_whole_one(page, width):
    page.set_window_size(max(width, 500), 1100)
    page.execute_script("document.getElementById('cell').style.width = arguments[0] + 'px'", width - 16)
    until(lambda: page.execute_script(
        "const root = document.querySelector('.placement-explorer').getBoundingClientRect();"
        "return [...document.querySelectorAll('.placement-explorer :is(.card, .kpi, .field)')].every((e) => {"
        "const box = e.getBoundingClientRect(); return box.width === 0 || box.right <= root.right + 1; })"
    ))  # fmt: skip


def test_a_dark_notebook_is_told_and_painted_dark(page, answered):
    page.execute_script("document.body.dataset.jpThemeLight = 'false'")
    until(lambda: sent(page, "theme")[-1:] == [{"type": "theme", "theme": "dark"}])
    assert page.execute_script("return document.querySelector('.placement-explorer').dataset.theme") == "dark"


def test_a_theme_that_comes_back_before_the_kernel_answered_is_told(page, answered):
    before = page.execute_script("return document.querySelector('.placement-explorer').dataset.theme")
    for light in ("false", "true"):
        page.execute_script("document.body.dataset.jpThemeLight = arguments[0]", light)
        name = "light" if light == "true" else "dark"
        until(lambda name=name: sent(page, "theme")[-1:] == [{"type": "theme", "theme": name}])
    assert before == "light"


def test_names_of_operators_are_text(page, answered):
    graph = drawn(answered)["_plan"]
    evil = '<img src=x onerror="window.hacked = 1">'
    plan = {**graph, "story": evil, "why": {**graph["why"], "headline": evil, "notes": [evil]},
            "cards": [{**card, "note": evil} for card in graph["cards"]]}  # fmt: skip
    page.execute_script("put({_plan: arguments[0]})", plan)
    assert find(page, ".story").text == evil
    assert page.execute_script("return window.hacked") is None
    assert page.execute_script("return document.querySelectorAll('.placement-explorer img').length") == 0


def test_a_view_that_is_closed_leaves_nothing_behind(page):
    assert page.execute_script("return window.listeners()") > 0
    page.execute_script("window.dispose()")
    assert page.execute_script("return window.listeners()") == 0
    page.execute_script(
        "document.getElementById('cell').replaceChildren(); document.body.dataset.jpThemeLight = 'false'"
    )
    time.sleep(0.3)
    assert [message for message in sent(page, "theme") if message["theme"] == "dark"] == []
