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
from tests.notebook.fakes.strict_page import strict_page
from tests.notebook.fakes.worker import ListedWidget, drawn, receive
from tests.notebook.pages.jupyter import PAINTED

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
    while not (value := test()):
        assert time.monotonic() < end, f"not in {PATIENCE_S:g} s"
        time.sleep(0.05)
    return value


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


def test_what_python_selects_is_bright_and_what_is_clicked_is_sent(page, answered):
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
    find(page, "select[name='recompute'] option[value='budget']").click()
    assert sent(page, "set")[-1] == {"type": "set", "name": "recompute", "value": "budget"}
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


def test_a_refusal_and_an_infeasible_cap_are_shown_with_a_way_out(page, answered):
    receive(answered, {"type": "set", "name": "memory", "value": "much"})
    page.execute_script("put({_status: arguments[0]})", drawn(answered)["_status"])
    assert "much" in find(page, ".refused").text
    banner = {"title": "No plan fits.", "lines": ["Proved."], "cap": {"bytes": 7e9, "words": "Set the cap"}}
    fields = {**drawn(answered)["_status"], "state": "infeasible", "refused": None, "banner": banner}
    page.execute_script("put({_status: arguments[0]})", fields)
    find(page, ".banner .tool").click()
    assert sent(page, "set")[-1] == {"type": "set", "name": "memory", "value": 7000000000}


def test_the_instant_is_stepped_to_and_says_what_every_device_does(page, answered):
    chart = find(page, ".gantt-card .canvas")
    chart.send_keys(".")
    until(lambda: sent(page, "course"))
    page.execute_script("deliver(arguments[0])", {"type": "course", **answered._showing.course()})
    chart.send_keys(".")
    until(lambda: find(page, ".cursor.on .line").is_displayed())
    assert find(page, ".clock-time").text.endswith("s")
    readings = [each.text for each in page.find_elements("css selector", ".cursor .reading")]
    assert len(readings) == 4
    assert any("forward" in words for words in readings), readings
    assert len(page.find_elements("css selector", ".shell.timed .mem-now")) == 4
    assert len(sent(page, "course")) == 1, "it is asked for once"
    find(page, ".clock .tool[title^='What an idle']").click()
    question = until(lambda: sent(page, "waits"))[-1]
    shown = answered._showing.waits(question["device"], question["at_s"])
    page.execute_script("deliver(arguments[0])", {"type": "waits", **shown})
    assert find(page, ".inspector b").text == shown["wait"]["title"]
    chart.send_keys(Keys.ESCAPE)
    until(lambda: not page.find_elements("css selector", ".shell.timed"))


def test_the_schedule_plays_and_stops_with_its_view(page, answered):
    find(page, ".clock .tool[title^='Play']").click()
    until(lambda: sent(page, "course"))
    page.execute_script("deliver(arguments[0])", {"type": "course", **answered._showing.course()})
    first = until(lambda: find(page, ".clock-time").text)
    until(lambda: find(page, ".clock-time").text != first)
    page.execute_script("window.dispose()")
    before = page.execute_script("return document.querySelector('.clock-time').textContent")
    time.sleep(0.3)
    assert page.execute_script("return document.querySelector('.clock-time').textContent") == before


def test_without_a_plan_no_box_keeps_the_colour_of_the_one_before(page, answered):
    page.execute_script("put({_plan: {}, _overlay: {}})")
    time.sleep(0.5)  # each look at the pixels is one more of which a browser complains
    assert "0,114,178" not in colours(page, "canvas[data-id='layer2-node']")
    assert page.execute_script("return document.querySelector('.gantt-card .canvas').dataset.empty")


def test_planners_are_compared_in_a_table_whose_rows_are_pressed(page, answered):
    find(page, "[data-act='compare']").click()
    assert sent(page, "compare")
    row = {"planner": "equal", "place": 3, "guarantee": "heuristic", "source": "baseline", "can_show": True,
           "best": True, "current": True, "objective": "1 s", "gap": "0 %", "bound": "1 s", "word": "optimal",
           "peak": "1 GiB", "runtime": "2 s"}  # fmt: skip
    out = {"planners": "downset-dp, piper", "status": "unsupported", "reason": "<b>no</b>"}
    tried = {"rows": [row], "left_out": [out], "going": "2 of 3: single", "words": ""}
    shown = drawn(answered)["_status"]
    page.execute_script("put({_status: arguments[0]})", {**shown, "tried": tried})
    find(page, ".compared .tool").click()
    assert sent(page, "stop")
    find(page, ".comparison .row-link").click()
    assert sent(page, "show")[-1] == {"type": "show", "place": 3}
    find(page, ".left-out summary").click()
    assert "2 planners" in find(page, ".left-out summary").text
    assert "<b>no</b>" in find(page, ".left-out p").text
    page.execute_script("put({_status: arguments[0]})", {**shown, "busy": True})
    assert find(page, ".beside-card").find_elements("css selector", "table") == [], "of another question"


def test_ways_out_pins_and_what_they_cost_are_one_press_away(page, answered):
    shown = drawn(answered)["_status"]
    banner = {"title": "No plan fits.", "lines": ["Proved."], "cap": None}
    ways = {"list": [{"change": "1 GPU more", "held": "3 GiB at most", "took": "2 s"}], "words": "Found."}
    pins = {"pins": [["blocks.0", "GPU 1"]], "cost": "pinned blocks.0 to GPU 1: +0.3 s (+11 %)"}
    page.execute_script("put({_status: arguments[0]})", {**shown, "banner": banner, "ways": ways, **pins})
    find(page, ".ways button[aria-label='Go to: 1 GPU more, 2 s']").click()
    assert sent(page, "way")[-1] == {"type": "way", "place": 0}
    assert "+0.3 s" in find(page, ".pinned").text
    find(page, "button[aria-label='Unpin blocks.0']").click()
    assert sent(page, "unpin")[-1] == {"type": "unpin", "name": "blocks.0"}


def test_why_here_review_and_a_difference_are_shown_as_they_come(page, answered):
    answered.selection = "stage 1"
    page.execute_script("put({_selected: arguments[0]})", drawn(answered)["_selected"])
    find(page, ".why-here button").click()
    assert sent(page, "elsewhere")
    place = {"edge": False, "here": False, "device": 2, "name": "GPU 2", "delta_s": 0.5, "delta": "+500 ms",
             "reason": "", "changes": ["GPU 2 +3 GiB"]}  # fmt: skip
    page.execute_script("deliver(arguments[0])", {"type": "elsewhere", "rows": [place, {**place, "edge": True}]})
    assert "+500 ms" in find(page, ".why-here").text
    assert "stage's edge" in find(page, ".why-here").text.lower()
    for press in ("review", "keep"):
        find(page, f"[data-act='{press}']").click()
        assert sent(page, press)
    lines = [
        {"verdict": "pass", "what": "rules", "reason": "all"},
        {"verdict": "warn", "what": "times", "reason": "est"},
    ]
    page.execute_script("deliver(arguments[0])", {"type": "review", "verdict": "warn", "lines": lines})
    assert [row.text.split()[0] for row in page.find_elements("css selector", ".review-lines tr")] == ["warn", "pass"]
    page.execute_script("deliver(arguments[0])", {"type": "kept", "words": "Kept: equal, 1 s"})
    find(page, "[data-act='differ']").click()
    assert sent(page, "differ")
    page.execute_script("deliver(arguments[0])", {"type": "difference", "lines": ["asked  micro-batches"]})
    assert find(page, ".difference").text.startswith("asked")


@pytest.mark.parametrize("width", [360, 480, 760, 1280, 1920])
def test_nothing_overflows_from_a_third_of_a_screen_to_a_whole_one(page, width):
    page.set_window_size(max(width, 500), 1100)
    page.execute_script("document.getElementById('cell').style.width = arguments[0] + 'px'", width - 16)
    until(lambda: page.execute_script(
        "const root = document.querySelector('.placement-explorer').getBoundingClientRect();"
        "return [...document.querySelectorAll('.placement-explorer :is(.card, .kpi, .field)')].every((e) => {"
        "const box = e.getBoundingClientRect(); return box.width === 0 || box.right <= root.right + 1; })"
    ))  # fmt: skip


def test_a_dark_notebook_is_reported_and_painted_dark(page, answered):
    page.execute_script("document.body.dataset.jpThemeLight = 'false'")
    until(lambda: sent(page, "theme")[-1:] == [{"type": "theme", "theme": "dark"}])
    assert page.execute_script("return document.querySelector('.placement-explorer').dataset.theme") == "dark"


def test_a_theme_that_comes_back_before_the_kernel_answered_is_reported(page, answered):
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
