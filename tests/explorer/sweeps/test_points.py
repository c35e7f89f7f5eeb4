"""Which points a sweep asks, and in which order."""

from __future__ import annotations

import pytest

from explorer.question.settings import Settings
from explorer.sweeps.points import MAX_POINTS, Axes, Point, points
from solvers.errors import InvalidProblem

GIB = 2.0**30


def test_every_combination_the_cap_first() -> None:
    listed = points(Axes(devices=(1, 2), memory_bytes=(GIB, 2 * GIB)))
    assert listed == (
        Point(devices=1, memory_bytes=GIB),
        Point(devices=1, memory_bytes=2 * GIB),
        Point(devices=2, memory_bytes=GIB),
        Point(devices=2, memory_bytes=2 * GIB),
    )


def test_one_at_a_time_around_the_first_values() -> None:
    listed = points(Axes(devices=(4, 1), micro_batches=(8, 16), bandwidth_bytes_per_s=(1e9,)), one_at_a_time=True)
    assert listed == (Point(4, 8, 1e9), Point(1, 8, 1e9), Point(4, 16, 1e9))


def test_a_value_given_twice_is_solved_once() -> None:
    assert points(Axes(devices=(2, 2, 1))) == (Point(2), Point(1))


def test_a_point_changes_what_it_sets_and_nothing_else() -> None:
    base = Settings(devices=3, memory_bytes=GIB, mini_batch=32)
    changed = Point(devices=8, bandwidth_bytes_per_s=1e9).settings(base)
    assert (changed.devices, changed.memory_bytes, changed.mini_batch) == (8, GIB, 32)
    assert changed.bandwidth_bytes_per_s == 1e9
    assert Point().settings(base) == base


def test_points_are_reported_in_words() -> None:
    assert Point(1, 4, 25e9, 16 * GIB).words() == "1 device, 4 micro-batches, 25 GB/s, 16 GiB"
    assert Point(2).words() == "2 devices"


def test_nothing_and_too_much_are_refused() -> None:
    with pytest.raises(InvalidProblem, match="nothing is swept"):
        points(Axes())
    many = tuple(range(1, 102))
    with pytest.raises(InvalidProblem, match=f"at most {MAX_POINTS:,} points, found 1,010"):
        points(Axes(devices=many[:101], micro_batches=many[:10]))
    assert len(points(Axes(devices=many, micro_batches=many[:10]), one_at_a_time=True)) == 110
