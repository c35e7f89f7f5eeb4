"""Sizes, rates and times as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from explorer.question.written.quantities import parse_bandwidth, parse_bytes, parse_seconds
from solvers.errors import InvalidProblem


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bytes, "16GiB", 16 * 2**30),
        (parse_bytes, " 80 GB ", 80e9),
        (parse_bytes, "1.5e9", 1.5e9),
        (parse_bytes, "24gib", 24 * 2**30),
        (parse_bytes, "512MiB", 2**29),
        (parse_bytes, "7B", 7),
        (parse_bytes, ".5T", 5e11),
        (parse_bandwidth, "25GB/s", 25e9),
        (parse_bandwidth, "12.5e9", 12.5e9),
        (parse_bandwidth, "1 GiB/s", 2**30),
        (parse_seconds, "10us", 1e-5),
        (parse_seconds, "10µs", 1e-5),
        (parse_seconds, "1.5 ms", 1.5e-3),
        (parse_seconds, "0", 0),
        (parse_seconds, "2s", 2),
    ],
)
def test_reads(parse: Callable[[str], float], text: str, value: float) -> None:
    assert parse(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_bytes, ""),
        (parse_bytes, "GiB"),
        (parse_bytes, "-1GB"),
        (parse_bytes, "0"),
        (parse_bytes, "inf"),
        (parse_bytes, "1e999"),
        (parse_bytes, "16 GiB/s"),
        (parse_bandwidth, "25Gb/s"),
        (parse_bandwidth, "100Gbps"),
        (parse_bandwidth, "100Gbit/s"),
        (parse_seconds, "10 minutes"),
        (parse_seconds, "-1ms"),
        (parse_seconds, "10S"),
    ],
)
def test_refuses_and_shows_what_was_expected_and_what_was_there(parse: Callable[[str], float], text: str) -> None:
    with pytest.raises(InvalidProblem, match="such as") as caught:
        parse(text)
    assert repr(text) in str(caught.value)
