"""Why something is where it is: asked in the inspector, answered by the worker, never of another plan."""

from __future__ import annotations

import json

import pytest
from selenium.webdriver.common.keys import Keys

from explorer.jobs.requests import WhyHereRequest
from explorer.view import events
from explorer.web.contract import ids
from explorer.web.serving.live import encode
from tests.browser.test_conversation import page, result, solve

__all__ = ["page"]

MOVE = {"device": 1, "name": "GPU 1", "delta_s": 1e-3, "delta": "+1 ms", "changes": ["GPU 1: +4 ms of work"],
        "reason": "", "here": False, "edge": ""}  # fmt: skip


@pytest.fixture
def answered(page):
    event = result()
    event["plan"]["held"] = "plan-1-1"
    solve(page, model="chain")(events.model(chain()))
    page.backend.requests[-1][1](event)
    page.receive({"type": "select", "kind": "box", "id": "m:blocks.1.mlp"})
    page.sent.clear()
    return page


def chain():
    from tests.explorer.view.small import chain_workload

    return chain_workload()


def shown(page):
    """The inspector as it was sent last, as text."""
    props = [m["props"][ids.INSPECTOR] for m in page.sent if ids.INSPECTOR in m.get("props", {})]
    return json.dumps(json.loads(encode(props[-1])), ensure_ascii=False) if props else ""


def why_here(page):
    page.receive({"type": "why-here"})
    request, on_event = page.backend.requests[-1]
    assert isinstance(request, WhyHereRequest)
    return request, on_event


def test_the_request_has_the_selected_operators_and_the_plan_on_the_page(answered):
    request, _ = why_here(answered)
    assert request.plan.held == "plan-1-1"
    assert request.operators == tuple(range(18, 24))
    assert "Trying …" in shown(answered)


def test_answers_come_one_by_one_and_a_failure_is_shown(answered):
    _, on_event = why_here(answered)
    on_event(events.part({"of": 4, "along": 2}))
    on_event(events.part({"move": MOVE}))
    assert "Trying 2 of 4 places" in shown(answered)
    assert "+1 ms" in shown(answered)
    on_event(events.done({"took_s": 2.0, "stopped": False}))
    assert "2 operators must come along" in shown(answered)
    _, on_event = why_here(answered)
    on_event(events.failed("this plan is no longer held"))
    assert "no longer held" in shown(answered)


def test_nothing_is_requested_without_a_selection_or_a_finished_plan(answered, page):
    before = len(answered.backend.requests)
    answered.receive({"type": "select", "kind": "none", "id": ""})
    answered.receive({"type": "why-here"})
    answered.receive({"type": "select", "kind": "device", "id": "0"})
    answered.receive({"type": "why-here"})
    answered.receive({"type": "select", "kind": "box", "id": "m:nothing"})
    answered.receive({"type": "why-here", "operators": [0], "plan": "x"})
    assert len(answered.backend.requests) == before


def test_an_answer_of_another_selection_or_plan_is_not_shown(answered):
    _, on_event = why_here(answered)
    job = f"job{len(answered.backend.requests)}"
    answered.receive({"type": "select", "kind": "box", "id": "m:blocks.2.mlp"})
    assert job in answered.backend.cancelled
    on_event(events.part({"of": 4, "along": 0}))
    on_event(events.part({"move": MOVE}))
    assert "+1 ms" not in shown(answered)
    _, on_event = why_here(answered)
    solve(answered, model="chain", devices=3)  # the question changes
    on_event(events.part({"of": 4, "along": 0}))
    on_event(events.part({"move": MOVE}))
    assert "+1 ms" not in shown(answered)


def test_after_a_quick_answer_the_next_selection_is_tried_at_once(answered):
    _, on_event = why_here(answered)
    on_event(events.part({"of": 1, "along": 0}))
    on_event(events.done({"took_s": 0.1, "stopped": False}))
    before = len(answered.backend.requests)
    answered.receive({"type": "select", "kind": "box", "id": "m:blocks.2.mlp"})
    assert len(answered.backend.requests) == before + 1
    answered.receive({"type": "select", "kind": "device", "id": "1"})
    assert len(answered.backend.requests) == before + 1


def test_it_can_be_stopped(answered):
    _, on_event = why_here(answered)
    answered.receive({"type": "stop-why-here"})
    assert "Stopped." in shown(answered)
    on_event(events.part({"move": MOVE}))
    assert "+1 ms" not in shown(answered)


@pytest.mark.slow
@pytest.mark.browser
def test_a_person_sees_what_each_place_would_cost_and_what_is_forbidden(fake):
    fake.at()
    canvas = fake.find(".graph-card .canvas")
    for _ in range(4):
        canvas.send_keys(Keys.ARROW_DOWN)
    fake.until(lambda: "blocks.1.mlp" in fake.text("inspector"))
    fake.click("[data-act='why-here']")
    fake.until(lambda: "Each plan was evaluated" in fake.text("inspector"))
    rows = fake.js(
        "return [...document.querySelectorAll('.places:not(.edges) li')].map((each) => each.innerText.split('\\n'))"
    )
    assert [row[0] for row in rows] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
    assert rows[0][1] == "here"
    assert rows[1][1].startswith("+")
    assert rows[2][1] == "not allowed"
    assert "not contiguous" in rows[2][-1]
    fake.change(lambda: fake.slide("devices", 1))
    assert "Each plan was evaluated" not in fake.text("inspector")
    fake.change(lambda: fake.slide("devices", -1))


@pytest.mark.browser
def test_the_real_engine_says_it_too(real):
    real.open("model=gpt-small&devices=2&micro_batches=4&planner=equal")
    canvas = real.find(".graph-card .canvas")
    canvas.send_keys(Keys.ARROW_DOWN)
    real.until(lambda: real.browser.find_elements("css selector", "[data-act='why-here']"))
    real.js("document.querySelector('[data-act=\"why-here\"]').click()")
    real.until(lambda: "Each plan was evaluated" in real.text("inspector"))
    assert real.js("return document.querySelectorAll('.places:not(.edges) li').length") == 2
    edges = real.js("return [...document.querySelectorAll('.edges li')].map((row) => row.innerText)")
    assert len(edges) == 2
    assert "to GPU 1" in edges[0]
    assert "to GPU 0" in edges[1]
