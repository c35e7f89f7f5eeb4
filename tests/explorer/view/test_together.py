"""Groups that are kept together: how one more changes them, and that a link keeps them."""

from __future__ import annotations

import pytest

from explorer.view.graph.pinning import joined
from explorer.view.session import Choices, parse, parse_query, to_query
from solvers.errors import InvalidProblem

CHOICES = Choices(("gpt",), ("auto",), ())


@pytest.mark.parametrize(
    ("groups", "group", "after"),
    [
        ((), ("a", "b"), (("a", "b"),)),
        ((("a", "b"),), ("c", "d"), (("a", "b"), ("c", "d"))),
        ((("a", "b"), ("c", "d")), ("b", "e"), (("c", "d"), ("a", "b", "e"))),
        ((("a", "b"), ("c", "d")), ("b", "c"), (("c", "d", "a", "b"),)),
    ],
)
def test_groups_that_share_a_name_become_one(groups, group, after):
    assert joined(groups, group) == after


def test_a_link_keeps_them():
    session = parse({"model": "gpt", "together": [["a", "b"], ["c", "d"]]}, CHOICES)
    assert session.settings.together == (("a", "b"), ("c", "d"))
    assert parse_query(to_query(session), CHOICES) == session


@pytest.mark.parametrize(
    "value", [3, "x", "{}", [["a"]], [["a", 3]], [["a", ""]], [["a", "b"]] * 17, ["ab"], "[" * 9000]
)
def test_what_is_no_list_of_groups_is_refused(value):
    with pytest.raises(InvalidProblem, match="together: expected"):
        parse({"model": "gpt", "together": value}, CHOICES)
