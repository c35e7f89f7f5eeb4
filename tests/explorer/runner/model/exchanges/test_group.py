"""Shares of tensors, and what members of a group compute of them, one member after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from explorer.runner.model.exchanges import group
from explorer.runner.model.exchanges.group import Along, Members, divided_along, joined, share_of
from solvers.errors import RunError


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(("dim", "pieces"), [(0, 1), (1, 1), (1, 3), (2, 2)])
@pytest.mark.parametrize("members", [2, 4])
def test_shares_put_together_are_the_whole(dim: int, pieces: int, members: int, mirrored: bool) -> None:
    whole, along = torch.arange(8.0 * 24 * 16).reshape(8, 24, 16), Along(dim, pieces, mirrored)
    shares = [share_of(whole, along, members, member) for member in range(members)]
    assert all(share.shape[dim] == whole.shape[dim] // members for share in shares)
    assert torch.equal(joined(shares, along), whole)


def test_of_a_fused_projection_each_member_has_some_of_each_part() -> None:
    fused = torch.arange(12)  # queries 0-3, keys 4-7, values 8-11
    assert share_of(fused, Along(0, 3), 2, 1).tolist() == [2, 3, 6, 7, 10, 11]


def test_of_mirrored_tokens_each_member_has_a_chunk_of_either_half() -> None:
    tokens = torch.arange(8)
    assert [share_of(tokens, Along(0, 1, True), 2, member).tolist() for member in range(2)] == [
        [0, 1, 6, 7],
        [2, 3, 4, 5],
    ]


@pytest.mark.parametrize(
    ("placement", "along"),
    [
        ("S(2)", Along(2)),
        ("S(0,3)", Along(0, 3)),
        ("Z(0,3)", Along(0, 3, True)),
        ("R", None),
        ("R+", None),
        ("P", None),
    ],
)
def test_a_placement_says_along_what(placement: str, along: Along | None) -> None:
    assert divided_along(placement) == along


class Scripted(Members):
    """A member that is given the sums over all of them, one exchange after the other."""

    def __init__(self, member: int, members: int, sums: Iterable[Tensor]) -> None:
        super().__init__(member, members)
        self.sums = iter(sums)

    def add_up(self, tensor: Tensor, how: Any = None) -> Tensor:
        return next(self.sums)


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_loss_over_divided_classes_is_that_over_all(reduction: str, ignored: bool) -> None:
    torch.manual_seed(0)
    scores = torch.randn(6, 8, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(8, (6,))
    if ignored:
        targets[1] = -100
    whole = F.cross_entropy(scores, targets, reduction=reduction)
    (gradient,) = torch.autograd.grad(whole, scores)
    shares = [share_of(scores.detach(), Along(1), 2, member).requires_grad_() for member in range(2)]
    number = {"mean": 1, "sum": 2}[reduction]
    largest = scores.detach().amax(1)
    totals = (scores.detach() - largest[:, None]).exp().sum(1)
    parts = []
    for member in range(2):
        group.join(Scripted(member, 2, (largest, totals)))
        parts.append(group.loss_of_classes(0, (), shares[member], targets, None, number))
    group.join(Members())
    assert sum(part.item() for part in parts) == pytest.approx(whole.item())
    back = [torch.autograd.grad(part, share)[0] for part, share in zip(parts, shares, strict=True)]
    assert torch.allclose(torch.cat(back, 1), gradient)


def test_rows_of_a_table_are_looked_up_by_the_member_that_has_them() -> None:
    table = torch.randn(8, 3, dtype=torch.float64)
    indices = torch.tensor([[0, 7, 3], [4, 4, 1]])
    looked_up = []
    for member in range(2):
        group.join(Members(member, 2))
        share = share_of(table, Along(0), 2, member).requires_grad_()
        looked_up.append(group.rows((0,), share, indices, 4))
        (back,) = torch.autograd.grad(looked_up[-1].sum(), share)
        expected = torch.zeros(8, 3, dtype=torch.float64).index_add(0, indices.flatten(), torch.ones(6, 3).double())
        expected[4] = 0.0  # the padding has no gradient
        assert torch.equal(back, share_of(expected, Along(0), 2, member))
    group.join(Members())
    assert torch.equal(sum(looked_up), F.embedding(indices, table))


def test_what_cannot_be_divided_is_refused() -> None:
    scores, targets = torch.randn(2, 4), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(RunError, match="smoothed labels"):
        group.loss_of_classes(0, (), scores, targets, None, 1, -100, 0.1)
    with pytest.raises(RunError, match="a loss of every row"):
        group.loss_of_classes(0, (), scores, targets, None, 0)
    with pytest.raises(RunError, match="weights of classes"):
        group.loss_of_rows((0,), scores, targets, torch.ones(4))  # type: ignore[arg-type]
    with pytest.raises(RunError, match="frequency"):
        group.rows((0,), scores, targets, -1, True)


def test_alone_a_member_makes_what_has_the_shapes_of_all() -> None:
    """So its own work can be timed."""
    alone = Members(0, 4)
    share = torch.ones(2, 3)
    assert alone.gather(share, Along(0)).shape == (8, 3)
    assert alone.scatter_sum(torch.ones(8, 3), Along(0)).shape == (2, 3)
    assert alone.redistribute(torch.ones(8, 3), Along(1), Along(0)).shape == (2, 12)
    assert [each.kind for each in alone.exchanged] == ["all_gather", "reduce_scatter", "all_to_all"]
    assert [each.sent_bytes for each in alone.exchanged] == [3 * 24.0, 3 * 24.0, 0.75 * 96.0]
