"""What a page is sent about instants of its schedule: all of it once, and waits on request."""

from __future__ import annotations

import json

import pytest

from explorer.view import events
from explorer.web.contract import ids
from explorer.web.serving.live import encode
from tests.browser.test_conversation import page, result, solve
from tests.explorer.view.small import chain_workload

__all__ = ["page"]


@pytest.fixture
def answered(page):
    on_event = solve(page, model="chain")
    on_event(events.model(chain_workload()))
    on_event(result())
    page.sent.clear()
    return page


def test_the_course_of_the_drawn_plan_is_sent_once(answered):
    answered.receive({"type": "course"})
    (message,) = answered.sent
    content = json.loads(encode(message))["course"]
    assert content["span_s"] == answered.plan["span_s"]
    assert [device["name"] for device in content["devices"]] == [f"GPU {i}" for i in range(4)]


def test_nothing_is_sent_before_there_is_a_plan(page):
    page.receive({"type": "course"})
    page.receive({"type": "waits", "device": 0, "at_s": 0.0})
    assert page.sent == []


def test_a_schedule_that_is_too_large_says_so(answered):
    answered.state.plan = {**answered.plan, "course": None, "spans": 123456}
    answered.receive({"type": "course"})
    assert answered.sent == [
        {"type": "course", "course": None, "words": "A schedule of 123,456 spans is too large to be played."}
    ]
    answered.receive({"type": "waits", "device": 0, "at_s": 0.0})
    assert len(answered.sent) == 1


def test_a_wait_is_shown_in_the_inspector_and_as_a_way_through_the_schedule(answered):
    answered.receive({"type": "waits", "device": 3, "at_s": 0.001})
    (message,) = answered.sent
    encode(message)
    assert message["device"] == 3
    assert message["idle_s"] == (0.0, pytest.approx(0.01542163296))
    assert message["path"]["row"] == [0, 0, 1, 1, 2, 2]
    assert message["path"]["link"] == [False, True, False, True, False, True]
    assert message["text"].startswith("GPU 3 idle 15.4 ms before forward 0: waits for activations of micro-batch 0")
    assert ids.INSPECTOR in message["props"]
    assert answered.selected is None


def test_a_busy_device_is_described_in_words_only(answered):
    answered.receive({"type": "waits", "device": 0, "at_s": 0.001})
    assert answered.sent == [{"type": "say", "text": "GPU 0 works then"}]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"device": 0},
        {"device": True, "at_s": 0.0},
        {"device": "0", "at_s": 0.0},
        {"device": -1, "at_s": 0.0},
        {"device": 4, "at_s": 0.0},
        {"device": 1.0, "at_s": 0.0},
        {"device": 10**400, "at_s": 0.0},
        {"device": 1, "at_s": None},
        {"device": 1, "at_s": "0"},
        {"device": 1, "at_s": -1e-3},
        {"device": 1, "at_s": 1e9},
        {"device": 1, "at_s": 10**400},
        {"device": 1, "at_s": float("nan")},
        {"device": [1], "at_s": {}},
    ],
    ids=str,
)
def test_what_is_no_device_or_no_instant_is_left_alone(answered, message):
    answered.receive({"type": "waits", **message})
    assert answered.sent == []
