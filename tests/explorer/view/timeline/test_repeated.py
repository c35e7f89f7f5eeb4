"""Many micro-batches are a ramp, what repeats, and a drain; few are all there."""

from __future__ import annotations

import pytest

from explorer.view.plan_view import plan_view
from explorer.view.timeline.repeated import END_ROUNDS, drawn, label
from explorer.view.timeline.sentence import sentence
from explorer.words.actions import REPEATED, TRANSFER
from solvers.evaluation.evaluate import evaluate
from tests.explorer.view.small import chain_problem, even_plan


def view(micro_batches, devices=4):
    problem = chain_problem(devices, mini_batch=max(64, micro_batches), micro_batches=micro_batches)
    plan = even_plan(problem)
    return plan_view(problem, plan, planner="x", objective_s=evaluate(problem, plan).iteration_s, bound_s=0.0)


MANY = view(64)


def test_of_many_micro_batches_the_middle_is_one_bar_a_device():
    shown, merged = drawn(MANY, (0.0, MANY["span_s"]))
    assert merged
    assert shown["kind"].count(REPEATED) == 4
    assert len(shown["kind"]) < len(MANY["bars"]["kind"]) / 3
    for i, kind in enumerate(shown["kind"]):
        if kind == REPEATED:
            bars = [
                j for j, d in enumerate(shown["device"]) if d == shown["device"][i] and shown["kind"][j] != TRANSFER
            ]
            before = [j for j in bars if shown["end_s"][j] <= shown["start_s"][i] + 1e-12]
            assert len(before) >= 2 * END_ROUNDS
            assert not [j for j in bars if j != i and shown["start_s"][i] < shown["start_s"][j] < shown["end_s"][i]]
            assert label(shown, i) == f"{shown['micro_batch'][i]} × forward, backward"


def test_no_span_is_lost():
    shown, _ = drawn(MANY, (0.0, MANY["span_s"]))
    assert sum(shown["spans"]) == sum(MANY["bars"]["spans"])


def test_closer_up_every_bar_is_there():
    assert drawn(MANY, (0.0, MANY["span_s"] / 20)) == (MANY["bars"], False)


def test_few_micro_batches_are_drawn_one_by_one():
    few = view(8)
    assert drawn(few, (0.0, few["span_s"])) == (few["bars"], False)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            view(8),
            "8 micro-batches of 8 samples pass 4 devices: forwards (plain) fill the pipeline, backwards (hatched)",
        ),
        (view(1), "The mini-batch passes 4 devices in one piece"),
        (view(8, 1), "One device does all the work on 64 samples."),
    ],
)
def test_a_sentence_says_what_one_sees(message, words):
    assert sentence(message).startswith(words)
