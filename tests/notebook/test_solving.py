"""A widget and the real worker: a cell never waits, and a search can be stopped."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import explorer
from explorer.notebook import workshop
from explorer.notebook.solving import NoPlan
from explorer.question.graphs.demos import traced_before

pytestmark = pytest.mark.timeout(600)
WAIT_S = 280.0
"""A kernel that nobody compiled before takes more than a minute on a busy machine."""


@pytest.fixture(scope="module")
def gpt():
    return traced_before("gpt-small", True, None)


def solved(widget):
    return asyncio.run(asyncio.wait_for(widget.solved(), WAIT_S))


def searching(model):
    """A widget in the middle of a search that ends by itself after minutes, with a plan already."""
    long = {"planner": "annealing:patience=1000000", "objective": "max-load", "time_limit_s": 600}
    widget = explorer.PlacementWidget(model, devices=8, **long)
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        shown = widget.get_state()["_status"]
        if shown["state"] == "solving" and "no plan" not in shown["more"]:
            return widget
        time.sleep(0.05)
    raise AssertionError(f"no plan after {WAIT_S} s: {shown}")


def test_a_plan_comes_from_the_background_and_is_the_one_that_plan_finds(gpt):
    widget = explorer.PlacementWidget(gpt, devices=2, planner="graph-pipeline", effort="quick")
    assert widget.result is None, "nobody waited"
    result = solved(widget)
    alone = explorer.plan(gpt, devices=2, planner="graph-pipeline", effort="quick")
    assert result.plan == alone.plan
    assert result.objective_s == alone.objective_s
    assert result.problem is widget.problem
    widget.close()


def test_a_cell_does_not_wait_for_a_worker_that_is_just_starting(gpt, monkeypatch):
    """What is asked is larger than what a pipe holds, and nobody reads the other end yet."""
    starting = threading.Event()

    class Starting:
        def start(self, kind, request, on_event):
            starting.wait(WAIT_S)
            return workshop.jobs().start(kind, request, on_event)

        def cancel(self, identifier):
            workshop.jobs().cancel(identifier)

    monkeypatch.setattr(explorer.PlacementWidget, "_jobs", lambda widget: Starting())
    widget = explorer.PlacementWidget(gpt, devices=2, planner="equal")
    widget.devices = 3
    widget.cancel()
    assert widget.status == "waiting", "the question is not even sent"
    widget.devices = 4
    starting.set()
    assert len(solved(widget).problem.cluster) == 4
    widget.close()


def test_two_widgets_share_the_worker_and_both_are_answered(gpt):
    first = explorer.PlacementWidget(gpt, devices=2, planner="equal")
    second = explorer.PlacementWidget(gpt, devices=4, planner="equal")

    async def both():
        return await asyncio.wait_for(asyncio.gather(first.solved(), second.solved()), WAIT_S)

    a, b = asyncio.run(both())
    assert (len(a.problem.cluster), len(b.problem.cluster)) == (2, 4)
    first.close()
    second.close()


def test_a_long_search_is_stopped_and_its_best_plan_is_the_result(gpt):
    widget = searching(gpt)
    widget.cancel()
    result = solved(widget)
    assert result.stop_reason == "CANCELLED"
    assert result.plan is not None
    widget.close()


def test_what_does_not_fit_is_reported_with_the_cap_that_would(gpt):
    widget = explorer.PlacementWidget(gpt, devices=2, memory="1KiB", planner="equal")
    with pytest.raises(NoPlan, match=r"No plan fits 2 devices of 1 KiB\..*at least") as refused:
        solved(widget)
    assert refused.value.result.plan is None
    cap = widget.get_state()["_status"]["banner"]["cap"]
    assert cap["bytes"] > 1024
    widget.memory = cap["bytes"]
    assert solved(widget).plan is not None
    widget.close()


def test_a_worker_that_dies_is_reported_and_replaced(gpt):
    widget = searching(gpt)
    workshop.jobs().workers[0].process.kill()
    with pytest.raises(NoPlan, match="the solving process ended unexpectedly"):
        solved(widget)
    assert widget.status == "failed"
    widget.planner = "equal"
    assert solved(widget).plan is not None
    widget.close()
