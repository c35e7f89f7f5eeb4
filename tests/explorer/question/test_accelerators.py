"""Kinds and caps of accelerators as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.costs.devices import DEVICES
from explorer.question.written.device_lists import MAX_DEVICES, kinds_text, parse_caps, parse_kinds
from solvers.errors import InvalidProblem
from solvers.problem.cluster import CPU_KIND

KINDS = sorted(set(DEVICES) - {CPU_KIND})


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("V100-32GB", "V100-32GB"),
        (" V100-32GB ", "V100-32GB"),
        ("1xV100-32GB", ("V100-32GB",)),
        ("2xV100-32GB", ("V100-32GB",) * 2),
        ("V100-32GB,A100-40GB", ("V100-32GB", "A100-40GB")),
        ("2xV100-32GB, 1 x A100-40GB", ("V100-32GB", "V100-32GB", "A100-40GB")),
    ],
)
def test_one_kind_is_for_all_and_a_list_for_each(text: str, kinds: object) -> None:
    assert parse_kinds(text) == kinds


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=40).map(tuple))
def test_kinds_survive_their_text(kinds: tuple[str, ...]) -> None:
    assert parse_kinds(kinds_text(kinds)) == kinds


@pytest.mark.parametrize("text", ["", ",", "V100,", "0xV100", "V100,,A100"])
def test_lists_with_a_gap_are_refused(text: str) -> None:
    with pytest.raises(InvalidProblem, match="one for each accelerator such as") as caught:
        parse_kinds(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", [f"{MAX_DEVICES + 1}xL4-24GB", "999999999xL4-24GB", f"{MAX_DEVICES}xa,b"])
def test_more_accelerators_than_are_planned_for_are_refused(text: str) -> None:
    with pytest.raises(InvalidProblem, match="at most 16,384 accelerators"):
        parse_kinds(text)


def test_one_size_is_for_all_and_a_list_for_each() -> None:
    assert parse_caps("80GB") == 80e9
    assert parse_caps("80GB, 16GiB") == (80e9, 2.0**34)
    with pytest.raises(InvalidProblem, match="such as 16GiB"):
        parse_caps("80GB,")
    with pytest.raises(InvalidProblem, match="at most 16,384 accelerators"):
        parse_caps(",".join(["1GB"] * 16_385))
