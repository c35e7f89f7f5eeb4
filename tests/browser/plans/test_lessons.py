"""Each lesson is played to its end with the real engine: its question answered wrong once, and right once."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(280)]

STEP = "return document.querySelector('#lesson-steps [aria-current]')?.innerText || ''"
VERDICT = "return document.querySelector('#lesson-verdict p')?.className || ''"
VALUE = """
const fields = document.querySelectorAll('.rail :is(input, select)');
const all = [...fields].filter((field) => field.id && field.type !== 'radio');
return Object.fromEntries(all.map((field) => [field.id, field.type === 'checkbox' ? field.checked : field.value]));
"""
HIDES = """
const strip = document.getElementById('lesson').getBoundingClientRect();
const at = (selector) => document.querySelector(selector).getBoundingClientRect();
const [graph, schedule] = ['.graph-card', '.gantt-card'].map(at);
return [strip.bottom <= graph.top, strip.bottom <= schedule.top, schedule.bottom <= innerHeight + 1];
"""
CLIPPED = """
return ['#lesson-text', '#lesson-verdict', '.lesson-head'].filter((selector) => {
  const box = document.querySelector(selector);
  return box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1;
});
"""
START = "model=gpt-small&devices=2&micro_batches=4&planner=equal&effort=quick&v=2"


def step(page) -> str:
    return page.js(STEP)


def verdict(page) -> str:
    return page.js(VERDICT)


def onward(page, to: str) -> None:
    page.click("#lesson-next")
    page.until(lambda: step(page) == to)
    page.until(lambda: f"step={to}" in page.query)
    page.settle()
    assert "lesson=measured" in page.query or "–" not in page.text("lesson-text"), page.text("lesson-text")


def micro_batches(page, number: int) -> None:
    page.js("document.querySelector('#micro-batches input[value=\"' + arguments[0] + '\"]').click()", str(number))


def divided(page, degree: str) -> None:
    page.js("document.querySelector('#tensor-parallel input[value=\"' + arguments[0] + '\"]').click()", degree)


def cap(page, text: str) -> None:
    field = page.find("#memory-field")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(text, Keys.ENTER)


WAYS = {
    "why-split": [lambda p: p.slide("devices", 1), lambda p: p.slide("devices", 2)],
    "balance": [lambda p: p.choose("planner", "layer-split"), lambda p: p.choose("planner", "pipedream")],
    "bubbles": [lambda p: micro_batches(p, 4), lambda p: micro_batches(p, 16)],
    "pipelines": [lambda p: p.choose("pipeline", "1F1B"), lambda p: p.choose("pipeline", "Zero-bubble")],
    "graph-of-stages": [
        lambda p: p.choose("planner", "equal"),
        lambda p: (p.choose("planner", "pipedream-iter"), p.js("document.getElementById('in-sequence').click()")),
    ],
    "memory": [
        lambda p: cap(p, "16 GiB"),
        lambda p: p.choose("recompute", "stages"),
    ],
    "measured": [lambda p: micro_batches(p, 1), lambda p: micro_batches(p, 8)],
    "divided-tensors": [lambda p: divided(p, "2"), lambda p: divided(p, "1")],
}
"""What a reader moves: to a plan that does not answer, then to one that does."""


@pytest.mark.parametrize("name", WAYS)
def test_a_lesson_is_gone_through_and_its_question_answered(real, name):
    wrong, right = WAYS[name]
    page = real.open(f"lesson={name}&step=1")
    page.until(lambda: step(page) == "1")
    assert "–" not in page.text("lesson-text")
    last = page.js("return document.querySelectorAll('#lesson-steps button').length")
    for number in range(2, last + 1):
        onward(page, str(number))
    page.until(lambda: verdict(page) == "is-asked")
    if name == "why-split":
        assert not page.find(".banner [data-act=cap]").is_displayed()
    page.change(lambda: wrong(page))
    page.until(lambda: verdict(page) == "is-wrong")
    page.change(lambda: right(page))
    page.until(lambda: verdict(page) == "is-right")
    assert page.text("lesson-verdict").splitlines()[1].startswith("Yes: ")
    assert f"lesson={name}&step={last}" in page.query


def test_what_the_reader_had_comes_back_when_they_leave(real):
    page = real.open(START + "&graph=stages")
    had, query = page.js(VALUE), page.query
    page.click("#lessons-menu > summary")
    page.click("#lessons-menu [data-lesson=bubbles]")
    page.until(lambda: "lesson=bubbles&step=1" in page.query)
    page.settle()
    assert page.js("return document.activeElement.id") == "lesson-title"
    assert page.js(VALUE) != had
    onward(page, "2")
    page.change(lambda: micro_batches(page, 32))
    page.change(lambda: page.click("#lesson-leave"))
    assert page.query == query
    assert page.js(VALUE) == had
    assert not page.find("#lesson").is_displayed()
    assert "Lessons" in page.js("return document.activeElement.innerText")


def test_back_of_the_browser_goes_through_steps_and_out_of_the_lesson(real):
    page = real.open(START)
    query = page.query
    page.js("document.querySelector('#lessons-menu [data-lesson=pipelines]').click()")
    page.until(lambda: "lesson=pipelines&step=1" in page.query)
    page.settle()
    onward(page, "2")
    page.browser.back()
    page.until(lambda: step(page) == "1")
    page.settle()
    assert "pipeline=gpipe" in page.query
    page.browser.back()
    page.until(lambda: not page.find("#lesson").is_displayed())
    page.settle()
    assert page.query == query


def test_another_control_is_no_answer_and_again_begins_anew(real):
    page = real.open("lesson=bubbles&step=3")
    page.change(lambda: page.choose("pipeline", "Zero-bubble"))
    page.until(lambda: verdict(page) == "is-elsewhere")
    assert "Pipeline" in page.text("lesson-verdict")
    page.change(lambda: page.click("#lesson-again"))
    page.until(lambda: verdict(page) == "is-asked")


def test_a_reload_keeps_the_step_and_what_there_was_before(real):
    page = real.open(START)
    query = page.query
    page.js("document.querySelector('#lessons-menu [data-lesson=bubbles]').click()")
    page.until(lambda: "lesson=bubbles&step=1" in page.query)
    page.settle()
    onward(page, "2")
    page.browser.refresh()
    page.settle()
    page.until(lambda: step(page) == "2")
    page.change(lambda: page.click("#lesson-leave"))
    assert page.query == query


def test_a_lesson_that_is_not_here_is_reported(real):
    page = real.open("lesson=no-such&step=1")
    page.until(lambda: "no such lesson" in page.text("lesson-text"))
    page.click("#lesson-leave")
    page.until(lambda: "lesson" not in page.query)


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
def test_the_strip_covers_nothing_and_clips_nothing(real, size):
    real.open("lesson=bubbles&step=3")
    with real.sized(*size):
        for name, last in (("bubbles", 3), ("pipelines", 4), ("memory", 3)):
            real.open(f"lesson={name}&step={last}")
            real.until(lambda: verdict(real) == "is-asked")
            assert real.js(HIDES) == [True, True, True], name
            assert real.js(CLIPPED) == [], name


def test_every_light_is_somewhere_on_the_page(real):
    from explorer.view.lessons.lesson import LIGHTS

    page = real.open("lesson=bubbles&step=1")
    assert set(page.js("return Object.keys(window.explorer.lessons.SPOTS)")) == set(LIGHTS)
    missing = page.js(
        "return Object.entries(window.explorer.lessons.SPOTS)"
        ".filter(([, spots]) => !spots.some((spot) => document.querySelector(spot))).map(([name]) => name)"
    )
    assert missing == []
    look = "return getComputedStyle(document.querySelector(arguments[0])).filter"
    assert page.js(look, ".kpi:nth-child(3)") == "none"
    assert "grayscale" in page.js(look, ".kpi:nth-child(1)")


def test_a_question_leads_to_its_controls(real):
    page = real.open("lesson=memory&step=3")
    page.until(lambda: verdict(page) == "is-asked")
    page.click("#lesson-verdict [data-spot=recompute]")
    assert page.js("return document.activeElement.id") == "recompute"
    page.click("#lesson-verdict [data-spot=memory]")
    assert page.js("return document.activeElement.id") == "memory-field"
