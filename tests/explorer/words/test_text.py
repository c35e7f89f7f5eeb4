"""Numbers read the same everywhere."""

import math

import pytest

from explorer.words import text
from explorer.words.tables import aligned


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (math.inf, "–"),
        (0.0, "0 s"),
        (1.5e-7, "150 ns"),
        (3.2e-5, "32 µs"),
        (0.3071, "307 ms"),
        (0.9996, "1 s"),
        (12.345, "12.3 s"),
        (4321.0, "4,321 s"),
    ],
)
def test_seconds_have_three_digits_in_the_unit_that_fits(value, shown):
    assert text.seconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0 B"),
        (512.0, "512 B"),
        (8 * 2.0**20, "8 MiB"),
        (17179869184, "16 GiB"),
        (1023.9 * 2**20, "1 GiB"),
    ],
)
def test_bytes_are_binary(value, shown):
    assert text.nbytes(value) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.0, "0 %"), (0.0004, "< 0.1 %"), (0.123, "12.3 %"), (0.9996, "> 99.9 %"), (1.0, "100 %"), (math.inf, "–")],
)
def test_percent_never_rounds_to_nothing_or_all(share, shown):
    assert text.percent(share) == shown


@pytest.mark.parametrize(
    ("bound_s", "shown"),
    [
        (0.8, "at most 25 % slower than the best possible"),
        (0.306, "at most 3.3 times the best possible"),
    ],
)
def test_a_distance_is_that_from_the_best_and_not_from_the_plan(bound_s: float, shown: str) -> None:
    assert text.from_best(1.0, bound_s) == shown


def test_counts_rates_and_lists():
    assert text.count(1284) == "1,284"
    assert text.large(410e6) == "410 M"
    assert text.rate(416.9) == "417 /s"
    assert text.plural(1, "operator") == "1 operator"
    assert text.plural(1284, "operator") == "1,284 operators"
    assert text.plural(4, "micro-batch") == "4 micro-batches"
    assert text.listing(["a", "b", "c"]) == "a, b and c"
    assert text.listing(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_a_long_name_keeps_both_ends():
    assert text.short("encoder.layers.11.attention", 15) == "encoder…tention"
    assert len(text.short("encoder.layers.11.attention", 15)) == 15
    assert text.short("short", 15) == "short"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("vision.layers.0", "vision…0"),
        ("layers.10", "layers.10"),
        ("0.attention.query.linear", "0…linear"),
        ("multi_head_attention.0", "multi_…ion.0"),
        ("nothing_but_one_name", "nothin…_name"),
    ],
)
def test_a_short_path_keeps_whole_names_where_it_can(path: str, shown: str) -> None:
    assert text.short_path(path, 12) == shown


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [(8, 9, "+12.5 %"), (8, 6, "−25 %"), (3.0, 3.0 * (1 + 1e-12), "equal"), (0, 0, "equal"), (0, 1, ""), (None, 1, ""),
     (1, math.inf, "")],
)  # fmt: skip
def test_a_change_is_shown_where_there_is_something_to_compare(before, after, message):
    assert text.change(before, after) == message


def test_a_change_too_small_to_matter_is_none():
    assert text.change(100, 100.1, same=0.002, alike="as fast") == "as fast"
    assert text.change(100, 100.3, same=0.002) == "+0.3 %"


def test_shares_change_by_points():
    assert text.points(0.1, 0.131) == "+3.1 points"
    assert text.points(0.2, 0.1) == "−10 points"
    assert (text.points(0.2, 0.2), text.points(None, 0.2)) == ("equal", "")


@pytest.mark.parametrize(
    ("unit", "message"), [("s", "2 s"), ("bytes", "2 B"), ("share", "200 %"), ("per s", "2 /s")]
)  # fmt: skip
def test_a_quantity_is_written_in_its_unit(unit, message):
    assert text.quantity(2.0, unit) == message


def test_columns_are_as_wide_as_their_widest_cell():
    assert aligned([["a", "bb"], ["ccc", "d"]], {1}) == ["a    bb", "ccc   d"]
    assert aligned([["a", ""], ["b", ""]]) == ["a", "b"]


def test_names_are_counted_in_the_order_in_which_they_come():
    assert text.counted(["b", "a", "b"]) == "2 × b + 1 × a"
    assert text.counted(["cpu"], "x") == "1 x cpu"
