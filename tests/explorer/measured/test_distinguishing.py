"""Two plans that ran in turns are distinguished only where rounds and noise allow it."""

from __future__ import annotations

import pytest

from explorer.measured.ranking import gain

FAST, SLOW = ((0.8, 0.9), (0.85, 0.86)), ((1.0, 1.1), (1.2, 1.0))


def test_rounds_that_do_not_overlap_are_a_gain_or_a_loss() -> None:
    gained = gain(SLOW, FAST, 0.01)
    assert gained == pytest.approx(1 - 0.855 / 1.05)
    assert gain(FAST, SLOW, 0.01) == pytest.approx(1 - 1.05 / 0.855)


def test_rounds_that_overlap_or_noise_that_is_larger_tell_nothing() -> None:
    assert gain(((1.0,), (0.8,)), ((0.9,), (0.7,)), 0.0) is None
    assert gain(SLOW, FAST, 0.2) is None
    assert gain(SLOW, SLOW, 0.0) is None
    assert gain((), FAST, 0.0) is None
