"""Time on the page: played, stepped, dragged, and what idle devices wait for."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from explorer.words import text
from solvers.evaluation.simulation import simulate
from tests.explorer.view.small import chain_problem, even_plan

pytestmark = [pytest.mark.browser, pytest.mark.slow]

POINT = """
const sight = window.explorer.gantt.sight();
const box = sight.plot.getBoundingClientRect();
const x = box.left + sight.left + ((arguments[1] - sight.from) / (sight.to - sight.from)) * sight.width;
return [x, arguments[0] === null ? box.top + 12 : box.top + sight.top(arguments[0])];
"""
LINE = """
const line = document.querySelector('#cursor .line');
if (getComputedStyle(line).display === 'none') return null;
const sight = window.explorer.gantt.sight();
const x = line.getBoundingClientRect().left - sight.plot.getBoundingClientRect().left - sight.left;
return sight.from + (x / sight.width) * (sight.to - sight.from);
"""
READINGS = "return [...document.querySelectorAll('#cursor .reading')].map((each) => each.textContent)"
MEMORY = """
return [...document.querySelectorAll('.mem-now')].map((each) => [...each.children].map((part) => part.textContent));
"""
CLOCK_TEXT = "return document.getElementById('clock-says').textContent"
SHAPES = "return window.explorer.gantt.drawn().over.map((shape) => shape.name)"


@pytest.fixture(scope="module")
def schedule():
    problem = chain_problem()
    return simulate(problem, even_plan(problem))


@pytest.fixture
def page(fake):
    fake.at()
    yield fake
    fake.js("window.explorer.clock.rest()")


def at(page, row, seconds):
    x, y = page.js(POINT, row, seconds)
    return round(x), round(y)


def pointer(page):
    chain = ActionChains(page.browser, duration=20)
    return chain, chain.w3c_actions.pointer_action


def click(page, place):
    chain, hand = pointer(page)
    hand.move_to_location(*place)
    hand.pointer_down()
    hand.pointer_up()
    chain.perform()


def clock(page):
    return page.text("clock-time")


def test_at_rest_there_is_no_line(page):
    assert page.js(LINE) is None
    assert clock(page) == ""
    assert not page.find(".mem-now").is_displayed()


def test_a_step_goes_to_the_next_event_and_says_what_every_device_does(page, schedule):
    for _ in range(4):
        page.click("#clock-on")
    events = sorted({round(t, 9) for s in schedule.spans for t in (s.start_s, s.end_s)})
    page.until(lambda: page.js(LINE) is not None)
    assert page.js(LINE) == pytest.approx(events[3], abs=schedule.makespan_s / 400)
    now = events[3]
    expected = []
    for device in range(4):
        spans = [s for s in schedule.spans if not s.is_transfer and s.device == device]
        running = [s for s in spans if s.start_s <= now + 1e-9 < s.end_s]
        after = min(s.start_s for s in spans if s.start_s > now)
        expected.append(f"forward {running[0].action[-1]}" if running else f"idle {text.seconds(after)}")
    assert page.js(READINGS) == expected
    shown = page.js(MEMORY)
    for device, (words, held) in enumerate(shown):
        curve = schedule.memory[device]
        so_far = [b for t, b in zip(curve.times_s, curve.nbytes, strict=True) if t <= now + 1e-9]
        assert held == text.nbytes(so_far[-1])
        assert words.startswith(expected[device])
    assert "holds 0–2" in shown[0][0]
    page.until(lambda: "GPU 0 forward 2, holds 0–2" in page.js(CLOCK_TEXT))
    page.click("#clock-back")
    assert page.js(LINE) == pytest.approx(events[2], abs=schedule.makespan_s / 400)


def test_playing_asks_nobody_and_a_second_press_pauses(page, schedule):
    page.click("#clock-on")  # the course is there
    page.until(lambda: clock(page))
    page.js("""
        window.sent = [];
        const send = WebSocket.prototype.send;
        WebSocket.prototype.send = function (text) { window.sent.push(text); return send.call(this, text); };
    """)
    body = page.find("body")
    body.send_keys(Keys.SPACE)
    assert page.find("#clock-play").get_attribute("aria-label").startswith("Pause")
    page.until(lambda: page.js(LINE) > schedule.makespan_s / 20)
    body.send_keys(Keys.SPACE)
    stood = clock(page)
    assert page.find("#clock-play").get_attribute("aria-label").startswith("Play")
    page.js("return new Promise((done) => setTimeout(done, 200))")
    assert clock(page) == stood
    assert page.js("return window.sent") == []


def test_the_whole_is_played_in_ten_to_twenty_seconds_and_ends(page, schedule):
    page.js("document.getElementById('clock-on').click()")
    page.until(lambda: clock(page))
    page.js("window.began = performance.now(); document.getElementById('clock-play').click()")
    page.until(lambda: page.js(LINE) > schedule.makespan_s / 10)
    took = page.js("return (performance.now() - window.began) / 1000")
    assert 10 < took / (page.js(LINE) / schedule.makespan_s) < 40  # a machine that is busy draws few frames
    page.js("document.getElementById('clock-play').click()")
    page.find("#clock-at").send_keys(Keys.END)
    whole = clock(page).split(" / ")
    assert whole[0] == whole[1].split()[0]


def test_who_wants_less_motion_sees_pictures_half_a_second_apart(page):
    page.browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    )
    try:
        page.click("#clock-on")
        page.until(lambda: clock(page))
        seen = page.js("""
            const line = document.querySelector('#cursor .line');
            const seen = new Set([line.style.transform]);
            document.getElementById('clock-play').click();
            const watch = new MutationObserver(() => seen.add(line.style.transform));
            watch.observe(line, {attributes: true});
            return new Promise((done) => setTimeout(() => { watch.disconnect(); done(seen.size); }, 1800));
        """)
        assert 2 <= seen <= 5
    finally:
        page.js("document.getElementById('clock-play').click()")
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_line_is_dragged_along_the_axis(page, schedule):
    end = schedule.makespan_s
    click(page, at(page, None, end / 2))
    page.until(lambda: page.js(LINE) is not None)
    assert page.js(LINE) == pytest.approx(end / 2, abs=end / 100)
    chain, hand = pointer(page)
    hand.move_to_location(*at(page, None, end / 2))
    hand.pointer_down()
    hand.move_to_location(*at(page, None, end / 4))
    hand.pointer_up()
    chain.perform()
    assert page.js(LINE) == pytest.approx(end / 4, abs=end / 100)
    assert page.js("return window.explorer.gantt.sight().from") == 0  # the schedule did not move with it


def test_the_slider_has_all_of_it_by_pointer_and_by_keyboard(page, schedule):
    slider = page.find("#clock-at")
    slider.click()
    page.until(lambda: page.js(LINE) is not None)
    assert page.js(LINE) == pytest.approx(schedule.makespan_s / 2, abs=schedule.makespan_s / 50)
    slider.send_keys(Keys.HOME)
    assert page.js(LINE) == pytest.approx(0, abs=schedule.makespan_s / 100)
    slider.send_keys(Keys.ARROW_RIGHT)
    assert slider.get_attribute("aria-valuetext") == clock(page).replace(" / ", " ").split()[0] + " ms"
    assert float(clock(page).split()[0]) == pytest.approx(4.8, abs=0.06)
    slider.send_keys(Keys.ESCAPE)
    assert page.js(LINE) is None


def test_full_stop_and_comma_step_but_not_while_somebody_types(page):
    body = page.find("body")
    body.send_keys(".")
    body.send_keys(".")
    page.until(lambda: clock(page).startswith("4.8"))
    body.send_keys(",")
    assert float(clock(page).split()[0]) == 0
    page.find("#memory-field").send_keys(".")
    assert float(clock(page).split()[0]) == 0
    page.find("#memory-field").send_keys(Keys.BACKSPACE)


def test_a_click_on_idle_time_tells_what_the_device_waits_for(page):
    click(page, at(page, 3, 0.008))
    page.until(lambda: "GPU 3 idle 15.4 ms" in page.text("inspector"))
    words = page.text("inspector")
    assert "before forward 0" in words
    assert "activations of micro-batch 0, GPU 2 → 3" in words
    assert "Started by GPU 0, forward 0, at 0 s." in words
    assert "waits for activations of micro-batch 0 from GPU 2" in page.js(CLOCK_TEXT)
    assert {"idle", "path"} <= set(page.js(SHAPES))
    page.find(".gantt-card .canvas").send_keys(Keys.ESCAPE)
    page.until(lambda: "idle" not in page.js(SHAPES))
    page.until(lambda: "Hover or click" in page.text("inspector"))


def test_a_click_on_a_bar_is_none_on_idle_time(page):
    click(page, at(page, 3, 0.018))
    page.until(lambda: "In flight" in page.text("inspector"))
    assert "idle" not in page.js(SHAPES)


def test_at_the_line_w_tells_the_wait_of_one_idle_device_after_another(page):
    body = page.find("body")
    body.send_keys(".")
    page.until(lambda: page.find("#clock-waits").is_enabled())
    body.send_keys("w")
    page.until(lambda: "GPU 1 idle" in page.text("inspector"))
    body.send_keys("w")
    page.until(lambda: "GPU 2 idle" in page.text("inspector"))
    page.click("#clock-waits")
    page.until(lambda: "GPU 3 idle" in page.text("inspector"))
    page.click("#clock-waits")
    page.until(lambda: "GPU 1 idle" in page.text("inspector"))


def test_the_line_follows_a_zoom_and_leaves_with_what_it_stands_at(page, schedule):
    end = schedule.makespan_s
    click(page, at(page, None, end / 2))
    page.until(lambda: page.js(LINE) is not None)
    page.js("window.explorer.gantt.look(arguments[0], arguments[1])", end * 0.4, end * 0.6)
    page.until(lambda: page.js("return window.explorer.gantt.sight().from") > 0)
    assert page.js(LINE) == pytest.approx(end / 2, abs=end / 200)
    page.js("window.explorer.gantt.look(arguments[0], arguments[1])", end * 0.7, end * 0.8)
    page.until(lambda: page.js(LINE) is None)
    page.find("body").send_keys(".")  # a step looks where it goes
    page.until(lambda: page.js(LINE) is not None)
    page.click("#gantt-fit")


def test_another_plan_keeps_the_instant_and_another_look_too(page):
    for _ in range(3):
        page.click("#clock-on")
    page.until(lambda: clock(page))
    before = clock(page)
    page.click("#theme-toggle")
    page.until(lambda: page.theme == "dark")
    page.settle()
    assert clock(page) == before
    assert page.js(READINGS)[0].startswith("forward")
    page.click("#theme-toggle")
    page.change(lambda: page.slide("devices", 1))
    page.until(lambda: len(page.js(READINGS)) == 5 and page.js(READINGS)[4] != "")
    assert clock(page).split()[0] == before.split()[0]
    assert clock(page) != before
    page.change(lambda: page.slide("devices", -1))


def test_operators_are_listed_one_by_one(page):
    page.open("model=lattice&objective=makespan")
    for _ in range(6):
        page.click("#clock-on")
    page.until(lambda: page.js(READINGS))
    assert any(reading.startswith(("forward of", "…")) for reading in page.js(READINGS))
    assert page.js(MEMORY)[0][1].endswith(("B", "iB"))


def test_the_real_engine_plays_a_model(real):
    real.open("model=gpt-small&devices=4&micro_batches=8&pipeline=1f1b&planner=equal")
    real.click("#clock-on")
    real.until(lambda: real.js(READINGS))
    assert [reading.split()[0] for reading in real.js(READINGS)] == ["forward", "idle", "idle", "idle"]
    real.until(lambda: "GPU 3 idle" in real.js(CLOCK_TEXT))
    real.find("body").send_keys("w")
    real.until(lambda: "GPU 1 idle" in real.text("inspector"))
    assert "Started by GPU 0, forward 0, at 0 s." in real.text("inspector")
    real.find("#clock-at").send_keys(Keys.END)
    assert "done" in real.js(READINGS)
