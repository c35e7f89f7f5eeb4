"""A link is fitted to the messages that were waited for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from explorer.measured import compare_run
from explorer.measured.links import Observed, fitted
from solvers.problem.cluster import Link
from tests.explorer.measured.measured_instances import two_devices
from tests.explorer.measured.measured_runs import run_of


def test_a_line_through_latency_and_bandwidth_is_detected():
    link = Link(0, 1, 100.0, 0.5)
    seen = [Observed(1, n, 2.0 + n / 10) for n in (10, 20, 40, 80)]
    fit, how = fitted(link, seen)
    assert how == "fitted"
    assert (fit.latency_s, fit.bandwidth_bytes_per_s) == pytest.approx((2.0, 10.0))


def test_two_latencies_of_one_message_are_counted_twice():
    seen = [Observed(k, n, 2.0 * k + n / 10) for k, n in ((1, 10), (2, 10), (1, 40), (3, 80))]
    fit, _ = fitted(Link(0, 1, 100.0, 0.5), seen)
    assert (fit.latency_s, fit.bandwidth_bytes_per_s) == pytest.approx((2.0, 10.0))


@pytest.mark.parametrize("sizes", [(10, 20, 40), (40, 40, 40, 41, 42)])
def test_too_few_messages_or_sizes_give_the_median_ratio(sizes):
    link = Link(0, 1, 100.0, 0.5)
    ratios = [3.0] * (len(sizes) - 1) + [50.0]
    fit, how = fitted(link, [Observed(1, n, r * (0.5 + n / 100)) for n, r in zip(sizes, ratios, strict=True)])
    assert how == "ratio"
    assert (fit.latency_s, fit.bandwidth_bytes_per_s) == pytest.approx((1.5, 100 / 3))


def test_a_link_of_which_nothing_is_known_stays():
    link = Link(0, 1, 100.0, 0.5)
    assert fitted(link, []) == (link, "")


def test_a_link_that_was_to_cost_nothing_gets_a_latency():
    fit, how = fitted(Link(0, 1, math.inf), [Observed(1, 8, 3.0)])
    assert (fit.latency_s, how) == (3.0, "ratio")


def test_time_that_falls_with_the_bytes_is_no_line():
    assert fitted(Link(0, 1, 1.0), [Observed(1, n, 100 / n) for n in (10, 20, 40, 80)])[1] == "ratio"


def test_messages_of_another_dtype_make_the_link_slower_and_are_reported():
    """Every message carried twice its bytes in the planned time: to the plan's bytes the link is as planned."""
    given, plan = two_devices()
    run = run_of(given, plan)
    compared = compare_run(given, plan, replace(run, messages=tuple(replace(m, nbytes=2) for m in run.messages)))
    assert compared.links_error_s == pytest.approx(0)
    assert any("2 times the bytes" in note for note in compared.notes)
