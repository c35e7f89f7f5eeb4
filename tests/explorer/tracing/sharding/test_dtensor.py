"""What a call allows is what DTensor does with shares of its tensors: the same placements, the same values, and nothing
sent on the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from explorer.tracing.captured import Captured, Node
from explorer.tracing.sharding.choices import Choices
from explorer.tracing.sharding.loops import Loop
from explorer.tracing.sharding.rules import analyse
from tests.explorer.tracing.sharding.captures import demo
from tests.explorer.tracing.sharding.members import call, share
from tests.explorer.tracing.sharding.test_rules import MODELS, _once, _random, _run

DEGREE = 2


@pytest.fixture(params=range(DEGREE))
def member(request: pytest.FixtureRequest) -> Iterator[int]:
    """Which of a group is this process, whose others are not there: nothing may be asked of them."""
    dist.init_process_group("fake", store=FakeStore(), rank=request.param, world_size=DEGREE)
    try:
        yield request.param
    finally:
        dist.destroy_process_group()


def outcome(choices: Choices, node: Node, loop: Loop, leaf: int, member: int) -> str:
    """ "" where DTensor does as the rule says, "no rule" where it has none, else what it does in place of that."""
    mesh = init_device_mesh("cpu", (DEGREE,))
    values = _random(choices.captured, node)
    whole = _run(choices.captured, node, values, {})
    grouped: dict[str, list[torch.Tensor]] = defaultdict(list)
    for position, ((argument, name), place) in enumerate(zip(node.tensors, loop.inputs, strict=True)):
        placement: Placement = Replicate() if place is None else Shard(place)
        local = values[position] if place is None else share(choices, name, place, leaf, values[position], member)
        grouped[argument].append(DTensor.from_local(local.clone(), mesh, [placement], run_check=False))
    arguments: dict[str, Any] = dict(node.constants)
    name = node.target.removeprefix("aten.")
    lists = name in ("cat", "stack")
    arguments |= {argument: each if lists else each[0] for argument, each in grouped.items()}
    if name == "dropout":
        arguments["train"] = False
    with CommDebugMode() as sent:
        try:
            result = call(name, arguments)
        except (AssertionError, NotImplementedError, RuntimeError, ValueError, TypeError, IndexError):
            return "no rule"
    made = [result] if isinstance(result, torch.Tensor) else list(result)
    if sent.get_total_counts():
        return "sends"
    for number, place in enumerate(loop.outputs):
        one = made[number]
        if not isinstance(one, DTensor):
            return "no tensor"
        placement = one.placements[0]
        if place is None:
            if not isinstance(placement, Partial):
                return f"{placement}, not a partial sum"
        elif placement != Shard(place):
            return f"{placement}, not divided along {place}"
        else:
            expected = share(choices, node.outputs[number], place, leaf, whole[number], member)
            torch.testing.assert_close(one.to_local(), expected, rtol=1e-4, atol=1e-4, check_dtype=False)
    return ""


def simple(choices: Choices, node: Node, loop: Loop, leaf: int) -> bool:
    """Whether the leaf is the whole of each dimension that it is in: what DTensor's Shard says."""
    places = (*zip((value for _, value in node.tensors), loop.inputs, strict=True),
              *zip(node.outputs, loop.outputs, strict=True))  # fmt: skip
    return all(place is None or choices.leaves(value, place) == (leaf,) for value, place in places)


def compared(member: int) -> dict[str, dict[str, int]]:
    """By kind of call: how often which outcome."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name in MODELS:
        small, large = demo(name)
        known = analyse(small)
        choices = Choices(known, large, DEGREE, whole_weights=True)
        seen = set()
        for at, node in enumerate(small.nodes):
            for loop in known.loops.get(at, ()):
                for leaf in known.dimensions.leaves(loop.leaves):
                    key = (node.target, _shapes(small, node), str(node.constants), loop.inputs, loop.outputs)
                    fits = known.dimensions.lengths[leaf] % DEGREE == 0 and _once(choices, node, loop, leaf)
                    if (
                        fits
                        and not (loop.statistics or loop.ring)
                        and key not in seen
                        and simple(choices, node, loop, leaf)
                    ):
                        seen.add(key)
                        counts[node.target][outcome(choices, node, loop, leaf, member)] += 1
    return counts


def _shapes(small: Captured, node: Node) -> tuple[tuple[int, ...], ...]:
    return tuple(small.values[value].shape for _, value in node.tensors)


OTHERWISE = {
    "aten.conv2d": {"R, not divided along 1", "R, not a partial sum", "S(0), not a partial sum"},
    "aten.embedding": {"no rule"},
    "aten.scaled_dot_product_attention": {"no rule", "sends"},
}
"""Where DTensor of torch 2.13 does not do as the rule says: convolutions know of samples alone and call the rest whole,
rows of a table fail in the process that does not have them, attention on a CPU has no rule for all of its divisions.
`test_rules` checks these, like all others, on shares that are divided by hand."""


@pytest.mark.slow
def test_placements_and_values_are_those_of_dtensor_and_nothing_is_sent(member: int) -> None:
    counts = compared(member)
    assert len(counts) >= 40
    assert sum(outcomes.get("", 0) for outcomes in counts.values()) > 700
    for target, outcomes in counts.items():
        assert outcomes[""] > 0, target
        assert set(outcomes) - {""} <= OTHERWISE.get(target, set()), target


def test_a_rule_that_dtensor_does_not_have_is_noticed(member: int) -> None:
    """A product along whose sum nothing is divided makes no partial sum, and a sum of what is whole is not divided."""
    small, large = demo("gpt-small")
    known = analyse(small)
    choices = Choices(known, large, DEGREE, whole_weights=True)
    node, loop, leaf = next(
        (node, loop, leaf)
        for at, node in enumerate(small.nodes)
        if node.target == "aten.linear"
        for loop in known.loops.get(at, ())
        for leaf in known.dimensions.leaves(loop.leaves)
        if loop.outputs[0] is not None and known.dimensions.lengths[leaf] % DEGREE == 0
        and simple(choices, node, loop, leaf)
    )  # fmt: skip
    assert outcome(choices, node, loop, leaf, member) == ""
    wrong = replace(loop, outputs=(None,))
    assert "not a partial sum" in outcome(choices, node, wrong, leaf, member)
