"""Groups that divide a model along two axes: who exchanges with whom, and what each member has."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from explorer.runner.model.divided import Divided, Placed, _Dividing
from explorer.runner.model.exchanges import group, ring
from explorer.runner.model.exchanges.group import Along, Group, Members, divided_along, joined, places, share_of
from explorer.runner.model.program import trace_for_run
from explorer.tracing.build import build
from explorer.tracing.captured import Captured, Whole
from explorer.tracing.sharding.choices import Choices, Option
from explorer.tracing.sharding.local import Part, member_of
from explorer.tracing.sharding.rules import analyse
from explorer.tracing.sharding.twice import to_divide_again
from solvers.errors import RunError
from solvers.problem.collectives import Axis, is_outer
from solvers.verify.division import division as verified
from tests.explorer.runner.engine.divided_plans import both

MIXTURES = "tests.explorer.runner.model.mixtures:"


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


Choose = Callable[[Choices, int], Option]
"""Of a call, by position, one of its ways."""


def last(choices: Choices, at: int) -> Option:
    return choices.options[at][-1]


def whole_across(choices: Choices, at: int) -> Option:
    """Members of an inner group have all of what is gathered or scattered among the groups."""
    return choices.options[at][0 if is_outer(choices.captured.nodes[at].target) else -1]


def divided(model: str, axis: Axis, inside: Choose = last) -> tuple[Divided, tuple[Captured, Captured]]:
    """A model over 2 inner groups of 2, and what is divided: it at two batches. inside: of what an inner group runs."""
    small, large = both(model)
    choices = Choices(analyse(small), large, 2, axis=axis, again=2)
    outer = Part(choices, {at: last(choices, at) for at in choices.options})
    one, other = (to_divide_again(member_of(choices, outer.labels, each), 2) for each in (small, large))
    again = Choices(analyse(one), other, 2)
    return Divided((outer, Part(again, {at: inside(again, at) for at in again.options}))), (small, large)


@pytest.mark.parametrize(("model", "axis"), [("gpt-small", Axis.CONTEXT), ("moe-small", Axis.EXPERT)])
def test_members_have_every_entry_of_a_parameter_and_count_it_once(model: str, axis: Axis) -> None:
    divisions, (small, _) = divided(model, axis)
    member = divisions.member_of(small)
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
    divisions, (small, _) = divided("gpt-small", Axis.CONTEXT, whole_across)
    member = divisions.member_of(small)
    assert divisions.mirrored
    assert any(divisions.placements(name, member)[0].startswith("Z") for name in member.values if name in small.values)
    assert not divided("gpt-small", Axis.CONTEXT)[0].mirrored


@pytest.mark.parametrize(
    ("inner", "before", "after", "expected"),
    [
        ("R", "S(1,4)", "R", ("S(1,4)", "R")),
        ("S(2)", "S(1,4)", "R", ("S(1,4)", "R")),
        ("S(1,2)", "S(1,4)", "R", ("S(1,2)", "R")),  # the pieces are divided
        ("S(1,4)", "S(1,4)", "R", ("S(1,4)", "R")),  # what is in a piece
        ("S(1)", "R", "S(1,2)", ("R", "S(1)")),
        ("S(2)", "S(1)", "S(2,4)", ("S(1)", "S(2,2)")),
    ],
)
def test_an_exchange_along_the_outer_axis_is_of_what_a_member_has(
    inner: str, before: str, after: str, expected: tuple[str, str]
) -> None:
    """Along another dimension than it has a share of, in fewer pieces where it has some of them."""
    dividing, call, args = exchanging(inner, before, after)
    assert _Dividing._exchange_again(dividing, call, call, group.exchange, args)[1][1:3] == expected
    whole = torch.arange(3 * 32 * 32).view(3, 32, 32)
    along, own = divided_along(inner), divided_along(before) or divided_along(after)
    assert own is not None
    if along is None or along.dim != own.dim or divided_along(after) is not None:
        return
    for member in range(2):  # as a share of the whole, whose share is taken of it
        here = divided_along(expected[0])
        assert here is not None
        inside = [share_of(share_of(whole, own, 2, each), along, 2, member) for each in range(2)]
        scattered = along._replace(pieces=along.pieces if along.pieces < own.pieces else along.pieces * 2)
        assert torch.equal(joined(inside, here), share_of(whole, scattered, 2, member))


def exchanging(inner: str, before: str, after: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """A call that exchanges along the outer axis, within a group that has what it reads in a placement."""
    dividing = SimpleNamespace(
        member=SimpleNamespace(whole={"x": Whole((3, 32, 32), inner)}), choices=SimpleNamespace(degree=2)
    )
    return dividing, SimpleNamespace(name="x@all_to_all", tensors=(("input", "x"),)), (None, before, after, 0)


def test_a_dimension_divided_otherwise_along_one_axis_is_not_divided_along_another() -> None:
    dividing, call, args = exchanging("S(1,8)", "S(1)", "S(1,4)")
    with pytest.raises(RunError, match="x@all_to_all: a dimension is divided otherwise"):
        _Dividing._exchange_again(dividing, call, call, group.exchange, args)


def going_round(inner: str, keys: int) -> tuple[Any, ...]:
    """What attention round the outer axis takes within a group that has queries, keys and values in a placement, where
    so many of 8 heads of keys follow one another that are copies of one."""
    along = divided_along(inner)
    local = tuple(8 // 2 if along is not None and dim == along.dim else 8 for dim in range(4))
    names = ("query", "key", "value")
    dividing: Any = SimpleNamespace(
        member=SimpleNamespace(
            whole={name: Whole((8, 8, 8, 8), inner) for name in names},
            values={name: SimpleNamespace(shape=local) for name in names},
        )
    )
    call: Any = SimpleNamespace(name="attention", tensor=lambda name: name)
    args = (None, None, None, None, 0.0, True, None, ring.Dealt(True, 1, keys, 1), 0)
    return _Dividing._round_again(dividing, call, call, ring.attention, args)[1]


@pytest.mark.parametrize(
    ("inner", "keys", "expected"), [("R", 4, 4), ("S(1)", 4, 4), ("S(1)", 8, 4), ("S(1,2)", 4, 2), ("S(0)", 4, 4)]
)
def test_of_heads_that_are_copies_of_one_a_member_has_some(inner: str, keys: int, expected: int) -> None:
    *_, dealt, axis = going_round(inner, keys)
    assert (dealt, axis) == (ring.Dealt(True, 1, expected, 1), 0)


def test_tokens_of_a_ring_are_not_divided_within_its_members() -> None:
    with pytest.raises(RunError, match="tokens go round a ring and are divided within its members once more"):
        going_round("S(2)", 1)


def test_members_that_have_the_same_share_drop_the_same() -> None:
    """Of tensors that are divided along both axes, and along the outer alone."""
    model = "transformer-small"
    divisions, parts = divided(model, Axis.CONTEXT, lambda choices, at: choices.options[at][-(at % 2)])
    graph = build(*map(divisions.member_of, parts), reference=model, training=True, tensor_parallel=4).graph
    program = trace_for_run(model, training=True, dtype=None, graph=graph, samples=[graph.samples])
    numbers = set()
    for name, call in program.calls.items():
        if call.target != "aten.dropout":
            continue
        placed = Placed({"made": divisions.placements(call.outputs[0], program.captured)}, divisions.degrees)
        whole = torch.arange(math.prod(shape := program.whole_model.captured.values[call.outputs[0]].shape)).view(shape)
        shares = [placed.share("made", whole, member) for member in range(4)]
        drawn = [program.drawn_apart(name, member) for member in range(4)]
        for one, other in itertools.combinations(range(4), 2):
            assert torch.equal(shares[one], shares[other]) == (drawn[one] == drawn[other])
        numbers.add(len(set(drawn)))
    assert numbers == {2, 4}


def test_rows_of_experts_are_not_divided_along_both_axes() -> None:
    model = f"{MIXTURES}gpt"
    divisions, parts = divided(model, Axis.EXPERT)
    graph = build(*map(divisions.member_of, parts), reference=model, training=True, tensor_parallel=4).graph
    assert not verified(graph)
    with pytest.raises(RunError, match="rows of experts are divided along both axes") as raised:
        trace_for_run(model, training=True, dtype=None, graph=graph, samples=[graph.samples], allow_model=True)
    assert "\n" not in str(raised.value)
