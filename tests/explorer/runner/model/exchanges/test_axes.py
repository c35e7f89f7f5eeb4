"""Groups that divide a model along two axes: who exchanges with whom, and what each member has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from explorer.runner.model.divided import Divided, Placed
from explorer.runner.model.exchanges import group
from explorer.runner.model.exchanges.group import Along, Group, Members, places, share_of
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.local import Part, member_of
from explorer.tracing.sharding.rules import analyse
from explorer.tracing.sharding.twice import to_divide_again
from solvers.problem.collectives import Axis, is_outer
from tests.explorer.runner.engine.divided_plans import both


def test_members_of_an_inner_group_follow_one_another() -> None:
    degrees = (3, 2)
    assert [places(member, degrees) for member in range(6)] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    for member in range(6):
        one = Group(tuple(Members(*each) for each in zip(places(member, degrees), degrees, strict=True)))
        assert (one.member, one.members) == (member, 6)


def test_what_is_exchanged_along_both_axes_is_listed_as_it_began() -> None:
    now = iter(range(10))
    one = group.join(Members(0, 2, now=lambda: next(now)), Members(1, 2, now=lambda: next(now)))
    for axis in (1, 0, 1):
        group.here(axis).add_up(torch.ones(axis + 1))
    assert [each.sent_bytes for each in one.exchanged] == [8.0, 4.0, 8.0]
    one.forget()
    assert one.exchanged == []
    group.join(Members())


class Scripted(Members):
    """One of two, who gets what was computed before instead of a sum with others."""

    def __init__(self, member: int, sums: tuple[torch.Tensor, ...]) -> None:
        super().__init__(member, 2)
        self.sums = iter(sums)

    def add_up(self, tensor: torch.Tensor, how: Any = None) -> torch.Tensor:
        return next(self.sums)


def test_a_loss_over_classes_counts_the_rows_of_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows along the outer axis, classes along the inner: parts of all four members make the loss of the whole."""
    torch.manual_seed(0)
    scores, targets = torch.randn(6, 8, dtype=torch.float64, requires_grad=True), torch.randint(8, (6,))
    targets[1] = -100
    whole = F.cross_entropy(scores, targets)
    (gradient,) = torch.autograd.grad(whole, scores)
    monkeypatch.setattr(group.dist, "all_reduce", lambda counts, group: counts.copy_(torch.tensor(5)))
    total, gradients = 0.0, torch.empty(6, 8, dtype=torch.float64)
    for outer in range(2):
        rows = slice(3 * outer, 3 * outer + 3)
        largest = scores.detach()[rows].amax(1)
        sums = (scores.detach()[rows] - largest[:, None]).exp().sum(1)
        for inner in range(2):
            everyone: Any = object()
            group.join(Members(outer, 2, everyone), Scripted(inner, (largest, sums)))
            share = share_of(scores.detach()[rows], Along(1), 2, inner).requires_grad_()
            part = group.loss_of_classes(1, (0,), share, targets[rows])
            total += part.item()
            (gradients[rows, 4 * inner : 4 * inner + 4],) = torch.autograd.grad(part, share)
    group.join(Members())
    assert total == pytest.approx(whole.item())
    assert torch.allclose(gradients, gradient)


def test_rows_of_a_table_are_divided_along_one_axis_after_the_other() -> None:
    table, indices = torch.randn(8, 3), torch.tensor([0, 7, 3, 5])
    looked_up = []
    for member in range(4):
        group.join(*(Members(place, 2) for place in places(member, (2, 2))))
        looked_up.append(group.rows((0, 1), table[2 * member : 2 * member + 2], indices))
    group.join(Members())
    assert torch.equal(sum(looked_up), F.embedding(indices, table))


def divided(model: str, axis: Axis, *, across: bool = True) -> tuple[Divided, Any, Any]:
    """A model over 2 inner groups of 2, the last way of every call; the whole of it, and what a member runs. across:
    whether members of an inner group have shares of what is gathered or scattered among the groups."""
    small, large = both(model)
    outer = _first(Choices(analyse(small), large, 2, axis=axis, again=2))
    one, other = (to_divide_again(member_of(outer.choices, outer.labels, each), 2) for each in (small, large))
    inner = _first(Choices(analyse(one), other, 2), across)
    divisions = Divided((outer, inner))
    return divisions, small, divisions.member_of(small)


def _first(choices: Choices, across: bool = True) -> Part:
    nodes = choices.captured.nodes
    divides = {at: across or not is_outer(nodes[at].target) for at in choices.options}
    return Part(choices, {at: each[-1:][0] if divides[at] else each[0] for at, each in choices.options.items()})


@pytest.mark.parametrize(("model", "axis"), [("gpt-small", Axis.CONTEXT), ("moe-small", Axis.EXPERT)])
def test_members_have_every_entry_of_a_parameter_and_count_it_once(model: str, axis: Axis) -> None:
    divisions, small, member = divided(model, axis)
    names = {first: value for value, all_ in small.parameters.items() for first in [all_.split(" = ")[0]]}
    placed = Placed({name: divisions.placements(value, member) for name, value in names.items()}, divisions.degrees)
    shares = 0
    for name, value in names.items():
        whole = torch.randn(small.values[value].shape, dtype=torch.float64)
        parts = [placed.share(name, whole, each) for each in range(4)]
        assert parts[0].shape == member.values[value].shape
        assert placed.whole_shape(name, parts[0].shape) == tuple(whole.shape)
        counted = sum(float((part**2).sum()) for at, part in enumerate(parts) if placed.is_first(name, at))
        assert counted == pytest.approx(float((whole**2).sum()))
        shares += placed.is_share(name)
    assert shares > 0
    assert set(divisions.partial.values()) <= {(0,), (1,), (0, 1)}
    assert (0,) in divisions.partial.values()


def test_tokens_are_in_two_chunks_unless_an_inner_group_divides_what_is_gathered() -> None:
    divisions, small, member = divided("gpt-small", Axis.CONTEXT, across=False)
    assert divisions.mirrored
    assert any(divisions.placements(name, member)[0].startswith("Z") for name in member.values if name in small.values)
    assert not divided("gpt-small", Axis.CONTEXT)[0].mirrored
