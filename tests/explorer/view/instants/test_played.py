"""What a browser plays is the schedule: busy devices, micro-batches in flight, the memory of the cards."""

from __future__ import annotations

import json
import random

import pytest

from explorer.view.instants.played import course, flights, played, ranges
from explorer.view.plan_view import plan_view
from solvers.evaluation.simulation import simulate
from tests.explorer.view.lattice import lattice_problem, operator_plan
from tests.explorer.view.small import chain_problem, even_plan


def view(problem, plan):
    return plan_view(problem, plan, planner="auto", objective_s=1.0, bound_s=0.0)


@pytest.fixture(scope="module")
def pipelined():
    problem = chain_problem()
    return problem, even_plan(problem)


def test_devices_do_what_their_spans_say(pipelined):
    drawing = view(*pipelined)
    shown = json.loads(json.dumps(played(drawing["course"], drawing), allow_nan=False))
    spans = [s for s in simulate(*pipelined).spans if not s.is_transfer]
    assert shown["span_s"] == drawing["span_s"]
    for number, device in enumerate(shown["devices"]):
        times = [(s.start_s, s.end_s) for s in spans if s.device == number]
        assert list(zip(device["start_s"], device["end_s"], strict=True)) == times
        assert device["name"] == f"GPU {number}"
    first = shown["devices"][0]
    assert [shown["labels"][i] for i in first["label"]][:5] == [*(f"forward {m}" for m in range(4)), "backward 0"]
    assert len(shown["moves"]["start_s"]) == 2 * 3 * 8


def test_a_micro_batch_is_in_flight_from_its_first_forward_to_its_last_backward(pipelined):
    problem, plan = pipelined
    schedule = simulate(problem, plan)
    in_flight = flights(course(schedule), 4)
    rng = random.Random(0)
    for _ in range(200):
        at = rng.uniform(0, schedule.makespan_s)
        for device in range(4):
            spans = [s for s in schedule.spans if not s.is_transfer and s.device == device]
            held = {
                m
                for m in range(8)
                if any(s.action.endswith(f"F{m}") and s.start_s <= at for s in spans)
                and any(s.action.endswith(f"B{m}") and s.end_s > at for s in spans)
            }
            assert {m for m, a, b in in_flight[device] if a <= at < b} == held
    most = [max(sum(a <= x < b for _, a, b in of) for _, x, _ in of) for of in in_flight]
    assert most == [4, 3, 2, 1]


def test_memory_is_the_curve_of_the_cards(pipelined):
    shown = view(*pipelined)
    for curve, card in zip(shown["course"]["memory"], shown["memory"], strict=True):
        assert max(curve["nbytes"]) == card["peak_bytes"]
        assert curve["times_s"][0] == 0.0
        shares = [[t / shown["span_s"], b] for t, b in zip(curve["times_s"], curve["nbytes"], strict=True)]
        if len(shares) <= 160:
            assert shares == [pytest.approx(point) for point in card["points"]]


def test_one_pass_has_operators_and_nothing_in_flight():
    problem = lattice_problem()
    drawing = view(problem, operator_plan(problem))
    names = [operator.name for operator in problem.graph.operators]
    shown = played(drawing["course"], drawing, names)
    assert all(device["flights"] == [] for device in shown["devices"])
    assert any(names[0] in label for label in shown["labels"])


def test_micro_batches_in_few_words():
    assert ranges([]) == ""
    assert ranges([3]) == "3"
    assert ranges({7, 2, 0, 1}) == "0–2, 7"
