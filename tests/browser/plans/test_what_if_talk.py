"""What a page is sent about single changes: a click shows the very plan that was found for one."""

from __future__ import annotations

from explorer.view import events
from tests.browser.test_conversation import result, solve, status, talk
from tests.explorer.view.small import chain_workload

__all__ = ["talk"]


def tried(talk, **controls):
    """A page whose only change tried has these controls and a plan of 2 ms."""
    tell = solve(talk, model="chain", devices=4, micro_batches=8)
    tell(events.model(chain_workload()))
    tell({**result(), "plan": {**result()["plan"], "held": "plan-1"}})
    talk.receive({"type": "help"})
    answer = {**result(), "status": "FEASIBLE", "plan": {**result()["plan"], "objective_s": 2e-3, "held": "plan-2"}}
    one = {"words": "4 micro-batches", "controls": controls, "reason": "", "gain": -0.1}
    talk.backend.requests[-1][1](events.part({**one, "answer": events.packed_plan(answer)}))


def test_a_click_on_a_change_shows_the_plan_that_was_found_for_it_and_asks_nobody(talk):
    tried(talk, micro_batches=4)
    before = len(talk.backend.requests)
    talk.sent.clear()
    talk.receive({"type": "go-help", "element": "0"})
    assert len(talk.backend.requests) == before
    assert talk.plan["objective_s"] == 2e-3
    assert talk.session.settings.micro_batches == 4
    adopted = next(message for message in talk.sent if message["type"] == "adopt")
    assert adopted["controls"]["micro_batches"] == 4
    assert adopted["turn"] == next(message for message in talk.sent if message["type"] == "plan")["turn"]
    assert "micro_batches=4" in status(talk)["query"]
    assert "quick search" in status(talk)["more"]


def test_a_change_without_a_plan_is_not_gone_to(talk):
    tried(talk, micro_batches=4)
    talk.changes.answers = ({**talk.changes.answers[0], "answer": None, "gain": None},)
    talk.sent.clear()
    talk.receive({"type": "go-help", "element": "0"})
    assert talk.sent == []
