"""A run laid over its prediction distinguishes three errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.measured import compare_run
from explorer.runner.bundles.outcome import MeasuredMessage
from explorer.runner.scripts.with_engine import with_engine
from solvers.problem.engine import EngineCosts
from tests.explorer.measured.measured_instances import one_operator, outcome, two_devices
from tests.explorer.measured.measured_runs import run_of, slowed

EXACT = 1e-9


def test_three_errors_by_hand():
    """b takes twice as long: 1F 2 s, 1B 4 s, 17 s in all. The link to it takes 3 s: everything 2 s later. And the
    machine loses a second that no model knows."""
    given, plan = two_devices()
    slow = slowed(given, {(1, 1): 2.0, (1, 3): 2.0}, {(0, 1): 3.0})
    compared = compare_run(given, plan, run_of(slow, plan, more_s=1.0))
    assert (compared.predicted_s, compared.operators_fed_s, compared.fed_s, compared.measured_s) == (
        11.0,
        17.0,
        19.0,
        20.0,
    )
    assert (compared.operators_error_s, compared.links_error_s, compared.schedule_error_s) == (6.0, 2.0, 1.0)
    assert compared.total_error_s == 9.0
    assert compared.share(compared.operators_error_s) == pytest.approx(0.3)
    assert compared.fed_error == pytest.approx(-0.05)
    assert compared.error == pytest.approx(-0.45)


def test_a_run_as_predicted_has_no_error():
    given, plan = two_devices()
    compared = compare_run(given, plan, run_of(given, plan))
    assert [compared.operators_error_s, compared.links_error_s, compared.schedule_error_s] == pytest.approx([0, 0, 0])
    assert compared.bubble_measured == pytest.approx(compared.bubble_predicted) == pytest.approx(1 - 12 / 22)
    assert [d.busy_measured_s for d in compared.devices] == [6.0, 6.0]
    assert all(d.peak_measured_bytes == d.peak_predicted_bytes for d in compared.devices)


def test_a_run_is_predicted_with_the_engines_own_time_where_it_was_measured():
    """The machine takes what the engine takes, and nothing else is off; operators timed apart are set against costs
    without it."""
    given, plan = two_devices()
    costs = EngineCosts(0.25, 0.125, 0.0625, sent_s=0.5, received_s=0.25, sent_byte_s=0.125, received_byte_s=0.0625)
    knows = replace(given, engine=costs)
    outcome = run_of(with_engine(knows, plan), plan)
    compared, blind = compare_run(knows, plan, outcome), compare_run(given, plan, outcome)
    assert compared.error == pytest.approx(0.0, abs=EXACT)
    assert all(error.ratio == pytest.approx(1.0) for error in compared.segments)
    assert any("engine's own time" in note and "11 s without" in note for note in compared.notes)
    assert blind.error < -0.05
    assert not any("engine" in note for note in blind.notes)
    name = given.graph.operators[0].name
    (shown,) = [
        o for o in compare_run(knows, plan, replace(outcome, operators_s={name: 1.0})).operators if o and o.profiled
    ]
    assert shown.ratio == pytest.approx(1.0)


def test_segments_operators_and_links_are_reported_with_their_ratios():
    given, plan = two_devices()
    slow = slowed(given, {(1, 1): 2.0, (1, 3): 3.0}, {(0, 1): 3.0})
    compared = compare_run(given, plan, run_of(slow, plan))
    fields = {(s.segment, s.kind): (s.predicted_s, s.measured_s, s.ratio) for s in compared.segments}
    assert fields == {(0, "F"): (1, 1, 1), (0, "B"): (2, 2, 1), (1, "F"): (1, 2, 2), (1, "B"): (2, 6, 3)}
    assert [o.ratio for o in compared.operators if o is not None] == [1, 2, 1, 3]
    assert [(link.src, link.dst, link.measured_s, link.how) for link in compared.links] == [
        (0, 1, 3.0, "ratio"),
        (1, 0, 1.0, "ratio"),
    ]


def test_a_message_that_was_never_waited_for_does_not_count():
    given, plan = two_devices()
    slow = slowed(given, {}, {(0, 1): 3.0, (1, 0): 2.0})
    run = run_of(slow, plan)
    messages = tuple(replace(m, waited=m.src_rank == 1) for m in run.messages)
    compared = compare_run(given, plan, replace(run, messages=messages))
    assert {(link.src, link.dst): (link.how, link.waited) for link in compared.links} == {
        (0, 1): ("", 0),
        (1, 0): ("ratio", 2),
    }
    assert compared.links[0].bandwidth_bytes_per_s == 1.0
    assert any("1 link of 2 kept the plan's speed" in note for note in compared.notes)


def test_a_message_behind_one_that_nobody_waited_for_does_not_count():
    """The first was found at 9 s, after the second had been posted at 2 s: it may have held the wire until then."""
    given, plan = two_devices()
    run = run_of(given, plan)
    forward = [
        MeasuredMessage(0, 0, 0, 1, 0, "0F0", 1, 1.0, 9.0, False),
        MeasuredMessage(0, 1, 0, 1, 0, "0F1", 1, 2.0, 9.5, True),
    ]
    back = [m for m in run.messages if m.src_rank == 1]
    compared = compare_run(given, plan, replace(run, messages=(*forward, *back)))
    assert compared.links[0].how == ""
    later = replace(forward[1], sent_s=8.0, arrived_s=8.5)  # the first is long there, as half a second shows
    assert compare_run(given, plan, replace(run, messages=(forward[0], later, *back))).links[0].measured_s == 0.5
    waited = compare_run(given, plan, replace(run, messages=(replace(forward[0], waited=True), forward[1], *back)))
    assert waited.links[0].measured_s == pytest.approx((8.0 + 0.5) / 2)


def test_an_iteration_fed_with_its_own_times_tells_noise_from_the_model():
    """Forward and backward are slow in turn: the sum of their medians, 3 s, is less than any iteration took, but
    each of these is the sum of its own."""
    given, plan = one_operator([1, 1, 1, 1])
    lines = ("0F0 9 0B0 1 0U 1", "0F0 1 0B0 9 0U 1", "0F0 1 0B0 1 0U 9")
    compared = compare_run(given, plan, outcome(" | ".join(lines)))
    assert (compared.fed_s, compared.measured_s) == (3, 11)
    assert compared.fed_each_error == pytest.approx(0)


def test_of_many_iterations_some_are_fed_with_their_own_times():
    given, plan = one_operator([1, 1, 1, 1])
    compared = compare_run(given, plan, outcome(" | ".join(["0F0 1 0B0 2 0U 1"] * 95), lengths=(5.0,) * 95))
    assert compared.fed_each_error == pytest.approx(-0.2)
