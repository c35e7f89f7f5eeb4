"""What one rank does between its segments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from explorer.runner.engine import machine as machines
from explorer.runner.engine.machine import Machine, Sizes
from explorer.runner.model.exchanges.group import Members


def test_replicas_add_up_alike_where_one_got_no_gradient_and_leave_none_where_none_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a tensor that does not depend on the samples every replica sends a copy, and one gets the gradient back. What
    no loss reaches has no gradient on any: an optimizer would decay it."""
    elsewhere = [torch.tensor([2.0, 3.0]), torch.tensor([4.0]), None]

    def add(flat: Tensor, **_: Any) -> Any:
        there = torch.tensor([float(gradient is not None) for gradient in elsewhere])
        flat += torch.cat([there, *(torch.zeros(3) if each is None else each for each in elsewhere)])
        return SimpleNamespace(wait=lambda: None)

    monkeypatch.setattr(machines.dist, "all_reduce", add)
    both, other, neither = (nn.Parameter(torch.ones(size)) for size in (2, 1, 3))
    both.grad = torch.ones(2)
    rank: Any = SimpleNamespace(
        owned={0: (both, other, neither)}, groups={(0, 1): None}, _syncing={}, shards={},
        script=SimpleNamespace(segments=[SimpleNamespace(devices=(0, 1))]),
    )  # fmt: skip
    Machine.synchronise(cast(Machine, rank), 0)
    Machine.settle(cast(Machine, rank), 0)
    assert [each if each is None else each.tolist() for each in (both.grad, other.grad, neither.grad)] == [
        [3.0, 4.0], [4.0], None,
    ]  # fmt: skip


def test_what_has_samples_in_two_dimensions_has_a_size() -> None:
    """It cannot be cut, but it can be sent whole."""

    def sized(samples: int) -> Any:
        value = SimpleNamespace(shape=(samples, samples), dtype="float32")
        return SimpleNamespace(samples=samples, values={"scores": value}), None

    program: Any = SimpleNamespace(edges=[SimpleNamespace(value="scores")], sized={2: sized(2), 4: sized(4)})
    assert Sizes(program).tensor_meta(0, 4) == ((4, 4), torch.float32)


def test_replicas_that_add_to_a_sum_begin_with_a_share_of_it_each() -> None:
    alone, shared = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    alone.grad, shared.grad = torch.tensor([6.0]), torch.tensor([6.0])
    rank: Any = SimpleNamespace(
        owned={0: (alone,), 1: (shared, nn.Parameter(torch.ones(1)))},
        script=SimpleNamespace(segments=[SimpleNamespace(devices=(0,)), SimpleNamespace(devices=(0, 1, 2))]),
        shards={}, _partial=lambda segment: [],
    )  # fmt: skip
    Machine._share_sums(cast(Machine, rank))
    assert (alone.grad.item(), shared.grad.item()) == (6.0, 2.0)


def test_so_do_members_of_a_group_that_have_a_part_of_a_gradient() -> None:
    part, shares = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    part.grad, shares.grad = torch.tensor([24.0]), torch.tensor([24.0])
    rank: Any = SimpleNamespace(
        owned={0: (part, shares)}, script=SimpleNamespace(segments=[SimpleNamespace(devices=(0, 1))]),
        shards={}, _partial=lambda segment: [(part, Members(1, 2)), (part, Members(0, 2))],
    )  # fmt: skip
    Machine._share_sums(cast(Machine, rank))
    assert (part.grad.item(), shares.grad.item()) == (3.0, 12.0)
