"""The front of seconds and bytes equals that of all labellings, and has more on it than Megatron-LM's division."""

from __future__ import annotations

import pytest
from torch import nn

from explorer.tracing.sharding.choices import SHARED, Choices
from explorer.tracing.sharding.front import held_bytes, pareto_front
from explorer.tracing.sharding.prices import seconds_of
from explorer.tracing.sharding.program import GroupLink, Held, Labels, Prices, cheapest, cost_s
from explorer.tracing.sharding.rules import analyse
from tests.explorer.tracing.sharding.test_program import (
    LINK,
    Block,
    Residual,
    Stack,
    Two,
    all_labels,
    captured_twice,
    seconds,
)

COPIES = 4.0


def choices_of(
    module: nn.Module, link: GroupLink, degree: int = 2, *, passes: int = 1, whole: bool = True
) -> tuple[Choices, Prices]:
    small, large = captured_twice(module)
    choices = Choices(analyse(small), large, degree, whole_weights=whole)
    return choices, Prices(seconds_of(choices, large, seconds, True), link, passes, True)


def alike(choices: Choices, labels: Labels) -> bool:
    """Whether all readers of a parameter have it alike."""
    states_of: dict[str, set[tuple[int, int | None]]] = {}
    for at, option in labels.items():
        node = choices.captured.nodes[at]
        for (_, name), state, place in zip(node.tensors, option.inputs, option.places, strict=True):
            if choices.source(name) in choices.captured.parameters:
                states_of.setdefault(choices.source(name), set()).add((max(state, -1), place if state >= 0 else None))
    return all(len(states) == 1 for states in states_of.values())


@pytest.mark.parametrize("module", [Two, Residual])
@pytest.mark.parametrize("link", [LINK, GroupLink(1e9, 1e-7)])
def test_no_labels_dominate_a_point_of_the_front(module: type[nn.Module], link: GroupLink) -> None:
    choices, prices = choices_of(module(), link)
    held = Held(held_bytes(choices, COPIES), 0.0)
    every = [
        (cost_s(choices, prices, labels), held.of(choices, labels))
        for labels in all_labels(choices)
        if alike(choices, labels)
    ]
    front = pareto_front(choices, prices, COPIES, points=5)
    assert front[0].division.cost_s == pytest.approx(min(took for took, _ in every), rel=1e-6)
    for point in front:
        within = [took for took, nbytes in every if nbytes <= point.nbytes * (1 + 1e-9)]
        assert point.division.cost_s == pytest.approx(min(within), rel=1e-6)


def test_the_front_goes_from_fast_to_small() -> None:
    choices, prices = choices_of(Stack([Block()]), GroupLink(1e10, 1e-8))
    front = pareto_front(choices, prices, COPIES)
    took, nbytes = [point.division.cost_s for point in front], [point.nbytes for point in front]
    assert len(front) > 1
    assert took == sorted(took)
    assert nbytes == sorted(nbytes, reverse=True)


def test_a_block_has_a_faster_division_than_columns_rows_columns_rows() -> None:
    """Attention's heads are dealt out again as tokens, and its output projection keeps its matrix whole: an all-to-all
    in place of a reduce-scatter, for a gradient that is added up once an iteration. It holds more."""
    block, link = Stack([Block(), Block()]), GroupLink(1e11, 0.0)
    choices, prices = choices_of(block, link, 4, passes=64)
    megatron = cheapest(*choices_of(block, link, 4, passes=64, whole=False))
    front = pareto_front(choices, prices, COPIES)
    assert front[0].division.cost_s < 0.96 * megatron.cost_s
    assert front[0].division.cost_s == pytest.approx(cost_s(choices, prices, front[0].division.labels))
    for block_name in ("blocks.0", "blocks.1"):
        labels = front[0].division.labels.items()
        projection = next(o for at, o in labels if choices.captured.nodes[at].module_path == f"{block_name}.o")
        assert projection.inputs[0] >= 0
        assert projection.inputs[1] == SHARED
    held = held_bytes(choices, COPIES)
    assert front[0].nbytes > Held(held, 0.0).of(choices, front[-1].division.labels)
