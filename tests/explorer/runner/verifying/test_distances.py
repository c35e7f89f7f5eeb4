"""The comparison with the whole model does not take for equal what is not."""

from __future__ import annotations

import math

import pytest
import torch

from explorer.runner.verifying.verify import (
    distance,
    furthest,
    largest,
    relative_change,
    without_flat,
    without_twin_losses,
    without_twins,
)

NAN = torch.tensor([1.0, math.nan])
TRUE = torch.tensor([1.0, 2.0])


@pytest.mark.parametrize(("value", "true"), [(NAN, TRUE), (TRUE, NAN), (NAN, NAN), (TRUE * math.inf, TRUE * math.inf)])
def test_what_is_not_a_number_is_equal_to_nothing(value: torch.Tensor, true: torch.Tensor) -> None:
    assert distance(value, true, 0.0) == math.inf
    assert distance(value, true, math.nan) == math.inf


def test_what_is_no_number_in_both_is_left_out_and_counted_and_all_else_compared() -> None:
    here, there = torch.tensor([math.nan, math.inf, -math.inf, 1.0, 2.5]), torch.tensor([math.nan, math.inf, 4.0, 1, 2])
    twins, (value, true) = without_twins(here, there)
    assert twins
    assert (value[:2].tolist(), true[:2].tolist()) == ([0.0, 0.0], [0.0, 0.0])
    assert distance(value, true, 0.0) == math.inf
    assert distance(value[3:], true[3:], 0.0) == 0.25
    assert not without_twins(TRUE, TRUE + 1)[0]
    assert without_twins(NAN, TRUE)[0] is without_twins(TRUE, NAN)[0] is False
    assert largest([here, there]) == 4.0


def test_losses_that_are_no_numbers_in_both_are_left_out() -> None:
    value, true = [math.nan, math.inf, math.inf, 1.0, math.nan], [math.nan, math.inf, -math.inf, 2.0, 3.0]
    assert str(without_twin_losses(value, true)) == "([inf, 1.0, nan], [-inf, 2.0, 3.0])"


def test_the_largest_entries_are_compared() -> None:
    assert distance(TRUE, TRUE.clone(), 0.0) == 0.0
    assert distance(TRUE + torch.tensor([0.0, 0.5]), TRUE, 0.0) == 0.25
    assert distance(TRUE + torch.tensor([0.0, 0.5]), TRUE, 10.0) == 0.05


@pytest.mark.parametrize(("value", "true"), [([1.0, math.nan], [1.0, 2.0]), ([math.nan], [math.nan])])
def test_losses_that_are_not_numbers_are_equal_to_nothing(value: list[float], true: list[float]) -> None:
    assert furthest(value, true) == math.inf


def test_a_loss_that_differs_is_detected_wherever_it_is() -> None:
    assert furthest([1.0, 2.0], [1.0, 2.0]) == 0.0
    assert furthest([1.0, 2.0, 4.0], [2.0, 2.0, 4.0]) == 0.5


def test_a_skipped_update_is_detected_though_it_is_far_smaller_than_the_parameter() -> None:
    start = torch.linspace(0.5, 1.5, 100)
    step = 4e-6 * torch.linspace(-1.0, 1.0, 100)
    once, thrice = start - step, start - step - step - step
    assert distance(once, thrice, 0.0) < 1e-5
    assert relative_change(once, thrice, start) > 0.5
    assert relative_change(start, thrice, start) > 0.9


def test_rounding_of_the_entries_is_no_skipped_update() -> None:
    start = torch.linspace(0.5, 1.5, 100)
    moved = start - 1e-6 * torch.linspace(-1.0, 1.0, 100)
    assert relative_change(torch.nextafter(moved, torch.full_like(moved, math.inf)), moved, start) < 0.01
    assert relative_change(start, start.clone(), start) == 0.0


def test_where_a_gradient_is_nearly_zero_adam_may_step_either_way() -> None:
    true, gradient = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 1e-6, -0.5])
    either_way = true + torch.tensor([0.0, 0.1, 0.0])
    assert distance(without_flat(either_way, true, gradient, 0.0), true, 0.0) == 0.0
    assert distance(without_flat(true + 0.1, true, gradient, 0.0), true, 0.0) > 0.03
    assert distance(without_flat(true * math.nan, true, gradient, 0.0), true, 0.0) == math.inf
    assert distance(without_flat(true + 0.1, true, gradient, 1e3), true, 0.0) == 0.0
