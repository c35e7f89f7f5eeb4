"""What one page is sent about runs, message by message: only what the server holds runs, and only where it may."""

from __future__ import annotations

import json

import pytest

from explorer.jobs.requests import PrepareRequest, ReplanRequest, RunPlanRequest, ShowRunRequest
from explorer.view import events, run_events
from explorer.view.run_events import PastRun
from explorer.view.session import Choices
from explorer.web.serving.live import encode
from explorer.web.state.runs import Runs
from solvers.plan.result import Result, Status, StopReason
from tests.explorer.view.small import chain_problem, chain_workload, even_plan
from tests.explorer.web.pages import OpenPage

CHOICES = Choices(("chain",), ("auto",), ("toy",), ("local", "cluster"))
PAST = PastRun("20261121T160742Z-chain-ab12cd", "21 Nov 16:07", "local", "auto", 0.1, 0.2, True, "done")


class Recorder:
    """A backend that only remembers what it was asked."""

    def __init__(self):
        self.requests, self.cancelled, self.may = [], [], True

    def start(self, request, on_event, visitor=""):
        self.requests.append((request, on_event))
        return f"job{len(self.requests)}"

    def past_runs(self, model):
        return [PAST]

    def may_run(self, model):
        return self.may

    def cancel(self, job):
        self.cancelled.append(job)

    def of(self, kind):
        return [request for request, _ in self.requests if isinstance(request, kind)]


def open_page(backend, runs=None):
    return OpenPage(backend, CHOICES, runs=runs)


@pytest.fixture
def page():
    return open_page(Recorder())


def result(held="plan-1"):
    problem = chain_problem(4)
    plan = even_plan(problem)
    answer = Result(problem, plan, Status.FEASIBLE, StopReason.FINISHED, 0.2, 0.1, 0.01, "auto")
    return events.result(answer, held=held)


def solved(page, held="plan-1"):
    page.receive({"type": "solve", "session": {"devices": 4}})
    on_event = page.backend.requests[-1][1]
    on_event(events.model(chain_workload()))
    on_event(result(held))
    return page


def prepared(page, held="plan-1", refused=(), warnings=(), elsewhere=""):
    page.backend.requests[-1][1](
        run_events.prepared(held, "local", "chain", b"the plan's file", 4, list(refused), list(warnings), elsewhere)
    )


def props(page, element):
    """The newest properties of an element."""
    values = [m["props"][element] for m in page.sent if element in m.get("props", {})]
    merged = {}
    for each in values:
        merged |= each
    return merged


def shown(page):
    return json.dumps(json.loads(encode(props(page, "run-body"))))


def opened(page):
    page.receive({"type": "open", "shown": ["run"]})
    return page


def test_the_plan_that_the_server_holds_is_run_once_it_was_looked_at(page):
    solved(page)
    page.receive({"type": "run", "target": "cluster", "steps": 7, "verify": True, "held": "other", "text": "{}"})
    assert page.backend.of(PrepareRequest) == [PrepareRequest("plan-1", "cluster", None)]
    assert page.backend.of(RunPlanRequest) == []
    prepared(page)
    assert page.backend.of(RunPlanRequest) == [
        RunPlanRequest("plan-1", b"the plan's file", "cluster", 7, True, allow_model=True)
    ]
    assert props(page, "run-start")["disabled"]
    assert not props(page, "run-stop")["disabled"]


def test_a_plan_for_other_hardware_runs_only_after_somebody_agreed(page):
    opened(solved(page))
    prepared(page, elsewhere="This plan is for 4 H100-80GB; local has no GPU.")
    assert "This plan is for 4 H100-80GB" in shown(page)
    assert "Run it all the same" not in shown(page)
    page.receive({"type": "run", "target": "local", "steps": 3})
    assert page.backend.of(RunPlanRequest) == []
    assert "Run it all the same" in shown(page)
    page.receive({"type": "run-anyway"})
    assert [request.steps for request in page.backend.of(RunPlanRequest)] == [3]


def test_beside_that_stands_a_plan_for_the_hardware_that_is_here(page):
    opened(solved(page))
    prepared(page, elsewhere="This plan is for 4 H100-80GB; local has no GPU.")
    page.receive({"type": "plan-here"})
    assert [request.held for request in page.backend.of(ReplanRequest)] == ["plan-1"]
    assert page.backend.of(RunPlanRequest) == []


@pytest.mark.parametrize(
    "question",
    [{"target": "http://10.0.0.1:8265"}, {"target": ["local"]}, {"steps": 0}, {"steps": 10**9}, {"verify": "perhaps"}],
)
def test_what_does_not_parse_runs_nothing_and_says_so(page, question):
    opened(solved(page))
    page.receive({"type": "run", "target": "local", **question})
    assert page.backend.of(RunPlanRequest) == []
    assert next(iter(question)) in shown(page)


def test_without_a_finished_plan_nothing_can_be_run(page):
    page.receive({"type": "run", "target": "local"})
    assert page.backend.requests == []
    solved(page, held="")
    assert props(page, "run-open")["disabled"]
    page.receive({"type": "run", "target": "local"})
    assert page.backend.of(PrepareRequest) == []


def test_warnings_are_shown_before_a_run_and_errors_prevent_it(page):
    opened(solved(page))
    prepared(page, warnings=["device 3 is idle"])
    assert "device 3 is idle" in shown(page)
    assert not props(page, "run-start")["disabled"]
    opened(solved(page, "plan-2"))
    prepared(page, "plan-2", refused=["stage 1 holds nothing"])
    assert "stage 1 holds nothing" in shown(page)
    assert props(page, "run-start")["disabled"]
    page.receive({"type": "run", "target": "local"})
    assert page.backend.of(RunPlanRequest) == []


def test_code_that_the_owner_did_not_name_is_not_run(page):
    page.backend.may = False
    opened(solved(page))
    prepared(page)
    page.receive({"type": "run", "target": "local"})
    assert page.backend.of(RunPlanRequest) == []
    assert "only code can be run" in shown(page)


def test_a_newer_question_drops_what_was_being_looked_at(page):
    opened(solved(page))
    page.receive({"type": "solve", "session": {"devices": 4}})
    assert "job2" in page.backend.cancelled


def test_a_run_outlives_its_page_and_the_next_page_sees_and_ends_it():
    backend = Recorder()
    runs = Runs(backend)
    first = solved(open_page(backend, runs))
    first.receive({"type": "run", "target": "local"})
    prepared(first)
    run_job = f"job{len(backend.requests)}"
    on_event = backend.requests[-1][1]
    first.close()
    assert run_job not in backend.cancelled
    second = opened(open_page(backend, runs))
    on_event(run_events.running("measuring", 3, 5, ["a line"]))
    assert "measuring 3 of 5" in shown(second)
    assert "a line" in shown(second)
    solved(second)
    second.receive({"type": "run", "target": "local"})
    prepared(second)
    assert len(backend.of(RunPlanRequest)) == 1
    second.receive({"type": "cancel-run"})
    assert backend.cancelled[-1] == run_job
    assert props(second, "run-stop")["disabled"]


def test_only_runs_that_are_listed_can_be_shown(page):
    solved(page)
    for element in ("../../etc/passwd", "", 3, None, "20261121T160742Z-chain-ffffff"):
        page.receive({"type": "show-run", "element": element})
    assert page.backend.of(ShowRunRequest) == []
    page.receive({"type": "show-run", "element": PAST.bundle})
    assert page.backend.of(ShowRunRequest) == [ShowRunRequest(PAST.bundle)]


def test_nothing_is_planned_again_without_a_run(page):
    solved(page)
    page.receive({"type": "replan"})
    assert page.backend.of(ReplanRequest) == []


def test_a_server_without_targets_offers_no_run():
    page = OpenPage(Recorder(), Choices(("chain",), ("auto",), ("toy",)))
    opened(page)
    page.receive({"type": "run", "target": "local"})
    assert page.backend.requests == []
