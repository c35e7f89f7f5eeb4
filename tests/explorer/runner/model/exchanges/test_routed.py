"""Rows of tokens between members that have these and members that have experts, also experts that nobody chose."""

from __future__ import annotations

from pathlib import Path

import torch

from explorer.runner.model.exchanges.group import Members
from explorer.runner.model.exchanges.routed import Rows
from tests.explorer.runner.launching import launched


def test_rows_arrive_where_they_should_and_their_gradients_come_back(tmp_path: Path) -> None:
    """Four processes over gloo, every change of placement, in fp64."""
    errors = launched("tests.explorer.runner.model.exchanges.exchanging", tmp_path)
    least = {name: errors.pop(name) for name in list(errors) if name.endswith("least rows")}
    assert min(least.values()) == 0  # a member without rows is among them
    print(f"largest error of {len(errors)}: {max(errors.values()):.1e}")
    assert {name: error for name, error in errors.items() if error > 1e-12} == {}


def test_places_are_those_of_rows_sorted_by_expert() -> None:
    experts = torch.tensor([[0, 3, 3, 1], [3, 3, 3, 3], [2, 0, 2, 0]])
    counts = torch.stack([torch.bincount(each, minlength=6) for each in experts])
    sorted_rows = experts.sort(stable=True).values.reshape(-1)
    places = Rows(Members(0, 3), counts).places()
    assert torch.equal(places, torch.argsort(torch.argsort(sorted_rows, stable=True)))
