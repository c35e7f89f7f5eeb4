"""What a widget has its worker try beside its question, and what a pin costs."""

from __future__ import annotations

import time

import pytest

from explorer.notebook.trying import OFFERED
from solvers.planners.solve import solve
from tests.notebook.fakes.worker import ListedWidget, drawn, receive

PATIENCE_S = 60.0


class AnsweringJobs:
    """A worker that answers what is tried at once, each question by the planner that it names."""

    def __init__(self, listed):
        self.listed, self.planners, self.refuse = listed, [], ()

    def __getattr__(self, name):
        return getattr(self.listed, name)

    def start(self, kind, request, on_event):
        job = self.listed.start(kind, request, on_event)
        if not request.explain:  # one that is tried
            self.planners.append(request.planner.name)
            if request.planner.name not in self.refuse:
                self.listed.answer(planner=request.planner)
        return job


@pytest.fixture
def trying(model, monkeypatch):
    """A widget with a plan of an equal split, whose worker tries things by itself."""
    made = ListedWidget(model, devices=2, memory="16GiB", micro_batches=4)
    worker = AnsweringJobs(made.listed)
    monkeypatch.setattr(made, "_jobs", lambda: worker)
    made.listed.answer()
    yield made, worker
    made.close()


def until(test):
    end = time.monotonic() + PATIENCE_S
    while not (value := test()):
        assert time.monotonic() < end, f"not in {PATIENCE_S:g} s"
        time.sleep(0.02)
    return value


@pytest.fixture
def few(monkeypatch):
    """Three planners in place of all."""
    from explorer.notebook import trying

    every = trying.entries
    monkeypatch.setattr(trying, "entries", lambda problem: every(problem, ("single", "equal", "layer-split")))


def test_planners_are_compared_by_the_worker_and_the_plan_of_any_is_shown(trying, few):
    widget, worker = trying
    before = widget.result
    receive(widget, {"type": "compare"})
    shown = until(lambda: (now := drawn(widget)["_status"]["tried"])["going"] == "" and now)
    assert {row["planner"] for row in shown["rows"]} == {"single", "equal", "layer-split"}
    assert worker.planners == ["single", "equal", "layer-split"]
    assert [row["planner"] for row in shown["rows"] if row["current"]] == ["equal"]
    assert shown["words"].startswith("Best bound proved")
    place = next(row["place"] for row in shown["rows"] if row["planner"] == "single")
    receive(widget, {"type": "show", "place": place})
    assert widget.result.planner == "single"
    assert widget.result is not before
    assert widget.result.problem is widget.problem
    assert not drawn(widget)["_controls"]["given"], "the question is what it was"
    rows = drawn(widget)["_status"]["tried"]["rows"]
    assert [row["planner"] for row in rows if row["current"]] == ["single"]


def test_a_comparison_is_stopped_with_its_rows_and_dropped_by_another_question(trying, few):
    widget, worker = trying
    worker.refuse = ("layer-split",)
    receive(widget, {"type": "compare"})
    until(lambda: len(drawn(widget)["_status"]["tried"].get("rows", ())) == 2)
    receive(widget, {"type": "stop"})
    until(lambda: widget.listed.cancelled)
    shown = drawn(widget)["_status"]["tried"]
    assert shown["going"] == ""
    assert len(shown["rows"]) == 2
    widget.micro_batches = 8
    assert drawn(widget)["_status"]["tried"] == {}


def test_ways_out_are_solved_where_nothing_fits_and_set_what_they_say(model):
    widget = ListedWidget(model, devices=2, memory="2MiB", micro_batches=2)
    worker = AnsweringJobs(widget.listed)
    widget._jobs = lambda: worker
    try:
        assert widget.listed.answer().plan is None
        shown = until(lambda: (now := drawn(widget)["_status"]["ways"])["words"] == OFFERED and now)
        assert shown["list"][0]["change"].startswith("all 74.5 GiB of each H100-80GB")
        receive(widget, {"type": "way", "place": 0})
        assert widget.memory is None
        assert (widget.devices, widget.micro_batches) == (2, 2)
        assert drawn(widget)["_status"]["ways"] == {"list": [], "words": ""}
        outcome = widget.listed.answer()
        assert outcome.plan is not None
    finally:
        widget.close()


def test_a_pin_says_what_it_costs_once_the_plan_with_it_is_there(trying):
    widget, _ = trying
    before_s = widget.result.objective_s
    widget.selection = "blocks.0"
    receive(widget, {"type": "pin", "device": "1"})
    assert drawn(widget)["_status"]["cost"] == ""
    widget.listed.answer(planner="single")
    assert widget.result.objective_s != before_s
    words = drawn(widget)["_status"]["cost"]
    assert words.startswith("pinned blocks.0 to GPU 1: ")
    assert "%)" in words
    assert drawn(widget)["_status"]["pins"] == [("blocks.0", "GPU 1")]
    receive(widget, {"type": "unpin", "name": "blocks.0"})
    assert widget.pins == {}
    widget.devices = 4  # more than the pin changes: its cost is no news
    widget.listed.answer()
    assert drawn(widget)["_status"]["cost"] == ""


def test_the_course_of_a_plan_and_what_an_idle_device_waits_for_are_sent(trying, monkeypatch):
    widget, _ = trying
    sent = []
    monkeypatch.setattr(widget, "send", sent.append)
    receive(widget, {"type": "course"})
    course = sent[-1]["course"]
    assert [device["name"] for device in course["devices"]] == ["GPU 0", "GPU 1"]
    receive(widget, {"type": "waits", "device": 1, "at_s": 0.0})
    assert sent[-1]["text"].startswith("GPU 1 idle ")
    assert sent[-1]["wait"]["steps"][-1]["took"]
    for odd in ({"device": 7, "at_s": 0.0}, {"device": 1, "at_s": 1e9}):
        receive(widget, {"type": "waits", **odd})
        assert sent[-1] == {"type": "waits", "text": ""}


def test_showing_a_plan_counts_it_and_looking_at_it_otherwise_does_not(trying):
    widget, _ = trying
    first = drawn(widget)["_plan"]["drawn"]
    receive(widget, {"type": "view", "rows": "stages"})
    assert drawn(widget)["_plan"]["drawn"] == first
    widget.result = solve(widget.problem, "single")
    assert drawn(widget)["_plan"]["drawn"] > first
