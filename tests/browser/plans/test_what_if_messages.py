"""What a page is sent about single changes: a click shows the very plan that was found for one."""

from __future__ import annotations

from explorer.view import events
from tests.browser.test_conversation import page, result, solve, status
from tests.explorer.view.small import chain_workload

__all__ = ["page"]


def tried(page, **controls):
    """A page whose only change tried has these controls and a plan of 2 ms."""
    on_event = solve(page, model="chain", devices=4, micro_batches=8)
    on_event(events.model(chain_workload()))
    on_event({**result(), "plan": {**result()["plan"], "held": "plan-1"}})
    page.receive({"type": "help"})
    answer = {**result(), "status": "FEASIBLE", "plan": {**result()["plan"], "objective_s": 2e-3, "held": "plan-2"}}
    one = {"words": "4 micro-batches", "controls": controls, "reason": "", "gain": -0.1}
    page.backend.requests[-1][1](events.part({**one, "answer": events.packed_plan(answer)}))


def test_a_click_on_a_change_shows_its_plan_and_starts_no_search(page):
    tried(page, micro_batches=4)
    before = len(page.backend.requests)
    page.sent.clear()
    page.receive({"type": "go-help", "element": "0"})
    assert len(page.backend.requests) == before
    assert page.plan["objective_s"] == 2e-3
    assert page.session.settings.micro_batches == 4
    adopted = next(message for message in page.sent if message["type"] == "adopt")
    assert adopted["controls"]["micro_batches"] == 4
    assert adopted["turn"] == next(message for message in page.sent if message["type"] == "plan")["turn"]
    assert "micro_batches=4" in status(page)["query"]
    assert "quick search" in status(page)["more"]


def test_a_change_without_a_plan_is_not_gone_to(page):
    tried(page, micro_batches=4)
    page.changes.answers = ({**page.changes.answers[0], "answer": None, "gain": None},)
    page.sent.clear()
    page.receive({"type": "go-help", "element": "0"})
    assert page.sent == []
