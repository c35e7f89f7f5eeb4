"""What a page is sent about a lesson, message by message."""

from __future__ import annotations

import json

import pytest

from explorer.view import events
from explorer.web.contract import ids
from explorer.web.layout.lesson_strip import lessons_menu
from explorer.web.serving.live import encode
from tests.browser.test_conversation import Recorder, result
from tests.explorer.view.lessons.written import CHOICES, read, spoiled
from tests.explorer.view.small import chain_workload
from tests.explorer.web.pages import OpenPage


@pytest.fixture
def page():
    return OpenPage(Recorder(), CHOICES, lessons=(read(),))


def lesson(page, step=1, **more):
    page.receive({"type": "lesson", "lesson": "two-devices", "step": step, **more})
    return [message for message in page.sent if message["type"] == "lesson"][-1]


def answered(page, **session):
    """The last words and verdict after the page has asked, and a plan has come."""
    page.receive({"type": "solve", "session": {"model": "chain", "training": True, "device_kind": "toy", **session}})
    on_event = page.backend.requests[-1][1]
    on_event(events.model(chain_workload()))
    on_event(result())
    fields = {}
    for message in page.sent:
        fields |= {key: value for key, value in message.get("props", {}).items() if key.startswith("lesson")}
    return text_of(fields[ids.LESSON_TEXT]["children"]), text_of(fields[ids.LESSON_VERDICT]["children"])


def text_of(component):
    if isinstance(component, (list, tuple)):
        return "".join(text_of(part) for part in component)
    if isinstance(component, str):
        return component
    return "" if component is None else text_of(component.children)


def test_a_step_brings_its_settings_lights_and_words(page):
    shown = lesson(page)
    assert (shown["lesson"], shown["step"], shown["back"], shown["next"]) == (
        "two-devices",
        1,
        None,
        ("two-devices", 2),
    )
    assert shown["light"] == ["devices", "bubble"]
    assert shown["controls"]["devices"] == 1
    assert "<b>idles</b>" in text_of(shown["props"][ids.LESSON_TEXT]["children"])
    assert json.loads(encode(shown))
    assert lesson(page, 2)["next"] is None


@pytest.mark.parametrize("step", [0, 3, -1, "1", 1.0, True, None, [1], 10**30])
def test_a_step_that_is_not_there_is_refused(page, step):
    assert lesson(page, step)["lesson"] is None
    assert page.lesson.lesson is None


@pytest.mark.parametrize("name", ["", "three", None, ["two-devices"], {"a": 1}, "x" * 100_000])
def test_a_lesson_that_is_not_there_is_refused(page, name):
    page.receive({"type": "lesson", "lesson": name, "step": 1})
    assert page.sent[-1]["lesson"] is None
    assert "no such lesson" in encode(page.sent[-1])
    assert len(encode(page.sent[-1])) < 2000


def test_the_words_tell_the_plan_once_it_is_there(page):
    lesson(page)
    before = text_of(page.sent[-1]["props"][ids.LESSON_TEXT]["children"])
    assert before == "OneIt takes – & <b>idles</b> –."
    words, verdict = answered(page, devices=1, micro_batches=4)
    assert words.startswith("OneIt takes ")
    assert "–" not in words
    assert verdict == ""


def test_a_question_begins_with_the_steps_own_plan_and_looks_at_what_follows(page):
    lesson(page, 2)
    own = {"devices": 2, "micro_batches": 4, "memory": 2**30}
    words, verdict = answered(page, **own)
    assert "It took" in words
    assert "Move Micro-batches. Wanted: bubble below" in verdict
    _, verdict = answered(page, **{**own, "micro_batches": 8})
    assert "Not yet: bubble" in verdict  # the stand-in's plan is the same
    assert verdict.endswith("More pieces.")
    _, verdict = answered(page, **{**own, "devices": 3})
    assert "Also changed: GPUs" in verdict


def test_a_question_that_is_kept_from_before_has_no_first_plan(page):
    lesson(page, 2, same_controls=True)
    _, verdict = answered(page, devices=2, micro_batches=16, memory=2**30)
    assert "start the step again" in verdict


def test_who_has_left_a_lesson_is_sent_no_more_of_it(page):
    lesson(page)
    page.receive({"type": "leave-lesson"})
    page.sent.clear()
    page.receive({"type": "solve", "session": {"model": "chain"}})
    on_event = page.backend.requests[-1][1]
    on_event(events.model(chain_workload()))
    on_event(result())
    assert not [message for message in page.sent if ids.LESSON_TEXT in message.get("props", {})]


def test_the_menu_has_titles_as_text():
    shown = encode({"menu": lessons_menu([read(spoiled({"Two devices": "<img src=x> & more"}))])})
    assert "<img src=x> & more" in shown
    assert "dangerously" not in shown
