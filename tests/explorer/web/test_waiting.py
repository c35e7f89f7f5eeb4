"""Pages that wait show how many come before them, and those whose search is cut off, why."""

from __future__ import annotations

import json

import pytest

from explorer.notebook.status import of_event
from explorer.view import events
from explorer.view.session import Choices
from explorer.web.contract import ids
from solvers.plan.result import Progress, Result, Status, StopReason
from tests.explorer.view.small import chain_problem, chain_workload, even_plan
from tests.explorer.web.pages import OpenPage

CHOICES = Choices(("chain",), ("auto",), ("toy",), ("local",))
SESSION = {"mini_batch": 8}


class Recorder:
    """A backend that only remembers the listeners of its jobs."""

    def __init__(self):
        self.listeners = []

    def start(self, request, on_event, visitor=""):
        self.listeners.append(on_event)
        return f"job{len(self.listeners)}"

    def cancel(self, job):
        pass

    def past_runs(self, model):
        return []


@pytest.fixture
def page():
    return OpenPage(Recorder(), CHOICES)


def send(page, message):
    """The listener of the job that a message of the page begins."""
    page.receive(message)
    return page.backend.listeners[-1]


def status(page):
    last = next(message for message in reversed(page.sent) if message["type"] == "status")
    return last["state"], last["what"], last["more"]


def solved(page):
    """A page with a plan."""
    on_event = send(page, {"type": "solve", "session": SESSION})
    on_event(events.model(chain_workload()))
    problem = chain_problem()
    on_event(
        events.result(Result(problem, even_plan(problem), Status.FEASIBLE, StopReason.FINISHED, 1.0, 0.5, 0.1, "auto"))
        | {"plan": {**step()["plan"], "held": "plan-1", "front": [], "trace": []}}
    )


def step():
    problem = chain_problem()
    return events.progress(problem, "auto", Progress(0.3, 1.0, 0.5), even_plan(problem))


def test_the_header_says_how_many_come_before_a_search(page):
    on_event = send(page, {"type": "solve", "session": SESSION})
    assert status(page) == ("waiting", "waiting", "for the solver")
    on_event(events.waiting(2))
    assert status(page) == ("waiting", "waiting", "2 before you")
    on_event(events.waiting(1))
    assert status(page) == ("waiting", "waiting", "1 before you")
    on_event(events.loading("tracing chain"))
    assert status(page)[0] == "loading"


def test_the_header_says_how_many_come_before_a_comparison(page):
    send(page, {"type": "compare", "session": SESSION})(events.waiting(3))
    assert status(page) == ("waiting", "waiting", "3 before you")


def test_a_sweep_and_single_changes_say_that_they_wait(page):
    solved(page)
    send(page, {"type": "sweep", "element": "devices"})(events.waiting(1))
    assert next(m for m in reversed(page.sent) if m["type"] == "sweep")["words"] == "Waiting, 1 before you."
    send(page, {"type": "help"})(events.waiting(2))
    props = next(m["props"] for m in reversed(page.sent) if ids.HELP in m.get("props", {}))
    assert "Waiting, 2 before you." in str(props[ids.HELP]["children"])


def test_a_plan_that_is_looked_over_before_a_run_may_wait(page):
    solved(page)
    on_event = send(page, {"type": "open", "shown": ["run"]})
    preparing = page.run.checking
    assert page.goes_on(preparing)
    on_event(events.waiting(1))
    assert page.run.checking == preparing


def test_a_search_that_is_cut_off_keeps_its_plan_and_says_why(page):
    on_event = send(page, {"type": "solve", "session": SESSION})
    on_event(events.model(chain_workload()))
    on_event(step())
    on_event(events.cut_off(step(), "the solving process ended unexpectedly (exit code -9)"))
    kinds = [message["type"] for message in page.sent]
    banner = page.sent[kinds.index("banner")]
    assert "plan" not in kinds[kinds.index("banner") :]  # which would take it away
    assert "exit code -9" in str(banner["children"])
    assert page.plan["placement"] == step()["plan"]["placement"]
    assert status(page)[0] == "feasible"
    json.dumps(events.cut_off(step(), "why"), allow_nan=False)


def test_a_notebook_says_how_many_come_before_a_question():
    shown = of_event(events.waiting(2), "auto")
    assert (shown["state"], shown["words"], shown["more"]) == ("waiting", "waiting", "2 before you")
    assert of_event(events.waiting(0), "auto")["more"] == "for the solver"
    assert of_event(events.waiting(2, "another is started"), "auto")["more"] == "another is started"
