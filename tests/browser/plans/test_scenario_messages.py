"""What a page is sent about plans that are kept: each by a name of its own, and how two of them differ."""

from __future__ import annotations

from explorer.reviews.difference import difference, difference_object
from explorer.view import events
from explorer.web.parts.scenario_panel import scenarios
from explorer.web.serving.live import encode
from tests.browser.test_conversation import page, result, solve
from tests.explorer.view.small import chain_problem, chain_workload, even_plan

__all__ = ["page"]


def test_every_plan_that_is_kept_has_a_name_of_its_own(page):
    for number, seconds in enumerate((1.0, 1.0, 1.0, 2.0)):
        on_event = solve(page, model="chain", seed=number)
        on_event(events.model(chain_workload()))
        on_event({**result(), "plan": {**result()["plan"], "held": f"plan-{number}", "objective_s": seconds}})
        page.receive({"type": "keep"})
    assert [one.name for one in page.scenarios] == [
        "4 devices, 8 micro-batches, auto",
        "4 devices, 8 micro-batches, auto, 1 s",
        "4 devices, 8 micro-batches, auto, 1 s (3)",
        "4 devices, 8 micro-batches, auto, 2 s",
    ]


def test_a_comparison_says_other_micro_batches():
    first, second = chain_problem(micro_batches=8), chain_problem(micro_batches=16)
    compared = difference_object(difference((first, even_plan(first)), (second, even_plan(second))))
    row = {"number": 1, "name": "a", "cells": {}, "picture": "", "baseline": True, "against": None,
           "same_question": True, "shown": True}  # fmt: skip
    panel = encode({"type": "props", "props": {"x": {"children": scenarios([row], compared, ("a", "b"), "")}}})
    assert "micro-batches: 8, then 16" in panel
    cells = panel[panel.index('"children":"micro-batches"') :]
    assert cells.index('"children":"8"') < cells.index('"children":"16"')
