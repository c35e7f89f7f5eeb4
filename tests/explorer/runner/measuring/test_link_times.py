"""The line through the times of messages, and which pairs of ranks are measured."""

from __future__ import annotations

import pytest

from explorer.runner.measuring.link_times import SIZES, fit, pairs

US = 1e-6


def test_a_line_is_recovered() -> None:
    latency, bandwidth = fit(SIZES, [20 * US + size / 5e9 for size in SIZES])
    assert latency == pytest.approx(20 * US)
    assert bandwidth == pytest.approx(5e9)


def test_a_large_message_that_took_too_long_does_not_move_the_latency() -> None:
    seconds = [20 * US + size / 5e9 for size in SIZES]
    seconds[-1] *= 1.5
    latency, bandwidth = fit(SIZES, seconds)
    assert latency == pytest.approx(20 * US, rel=0.15)
    assert 5e9 / 1.5 < bandwidth < 5e9


def test_a_latency_is_never_below_zero() -> None:
    latency, bandwidth = fit([1000, 10_000], [1 * US, 20 * US])
    assert latency == 0.0
    assert 10_000 / (20 * US) <= bandwidth <= 1000 / US


def test_times_that_do_not_grow_are_all_latency() -> None:
    latency, bandwidth = fit([1000, 10_000, 100_000], [7 * US] * 3)
    assert latency == pytest.approx(7 * US)
    assert bandwidth > 1e12
    assert fit([4096], [2 * US])[0] in (0.0, pytest.approx(2 * US))


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(ValueError, match="as many times as sizes"):
        fit([1], [])
    with pytest.raises(ValueError, match="above 0"):
        fit([1], [0.0])


def test_one_pair_stands_for_all_between_the_same_hosts() -> None:
    assert pairs(["a"], "gloo") == []
    assert pairs(["a", "a", "a"], "gloo") == [(0, 1)]
    assert pairs(["a", "a", "b", "b"], "gloo") == [(0, 1), (0, 2), (2, 3)]
    assert pairs(["a", "a", "a"], "nccl") == [(0, 1), (0, 2), (1, 2)]
