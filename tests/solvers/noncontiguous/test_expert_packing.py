"""Experts are packed no worse than by EPLB's rule, and as well as by trying everything where that is possible."""

import random
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from solvers.errors import InvalidProblem
from solvers.noncontiguous.expert_packing import pack_experts

EPLB_EXAMPLE = (
    (90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86),
    (20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27),
)
"""Loads of the 12 experts of two layers in the README of deepseek-ai/EPLB: 8 devices of 2 slots."""
EPLB_SLOTS = (
    (5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1),
    (7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1),
)
"""Experts of the slots in the result that it prints, of 4 groups of experts on 2 nodes."""


def load_of(loads: Sequence[float], devices: Sequence[Sequence[int]]) -> float:
    """The largest load of a device, counted from the slots alone."""
    slots = [expert for device in devices for expert in device]
    return max(sum(loads[expert] / slots.count(expert) for expert in device) for device in devices)


def balanced(weights: Sequence[float], packs: int) -> list[list[int]]:
    """Heaviest first, each to the lightest pack with room."""
    packed: list[list[int]] = [[] for _ in range(packs)]
    for item in sorted(range(len(weights)), key=lambda item: -weights[item]):
        rooms = [pack for pack in packed if len(pack) < len(weights) // packs]
        min(rooms, key=lambda pack: sum(weights[other] for other in pack)).append(item)
    return packed


def greedy(loads: Sequence[float], experts: Sequence[int], devices: int, slots: int) -> list[list[int]]:
    """EPLB's rule on the devices of a node: a replica more for the largest load of a replica, then balanced."""
    replicas = list(experts)
    while len(replicas) < devices * slots:
        replicas.append(max(experts, key=lambda expert: loads[expert] / replicas.count(expert)))
    weights = [loads[expert] / replicas.count(expert) for expert in replicas]
    return [[replicas[item] for item in pack] for pack in balanced(weights, devices)]


def hierarchical(loads: Sequence[float], groups: int, nodes: int, devices: int, slots: int) -> list[list[int]]:
    """EPLB's rule with groups of experts that stay on a node."""
    size = len(loads) // groups
    weights = [sum(loads[group * size : (group + 1) * size]) for group in range(groups)]
    packed: list[list[int]] = []
    for node in balanced(weights, nodes):
        experts = [group * size + inner for group in node for inner in range(size)]
        packed += greedy(loads, experts, devices // nodes, slots)
    return packed


def everything(experts: int, devices: int, slots: int) -> Iterator[list[tuple[int, ...]]]:
    """Every way to fill the slots with all experts."""
    for filled in product(range(experts), repeat=devices * slots):
        if len(set(filled)) == experts:
            yield [filled[first : first + slots] for first in range(0, len(filled), slots)]


@pytest.mark.parametrize(("loads", "slots"), [*zip(EPLB_EXAMPLE, EPLB_SLOTS, strict=True)])
def test_the_example_of_eplb_is_packed_no_worse_and_proved(loads: tuple[int, ...], slots: tuple[int, ...]) -> None:
    published = load_of(loads, [slots[first : first + 2] for first in range(0, 16, 2)])
    assert load_of(loads, hierarchical(loads, 4, 2, 8, 2)) == pytest.approx(published)
    packing = pack_experts(loads, 8, 2)
    assert packing.load == pytest.approx(load_of(loads, packing.devices))
    assert packing.load <= published
    assert packing.load <= load_of(loads, greedy(loads, range(12), 8, 2)) + 1e-9
    assert packing.optimal


def test_a_hundred_random_loads_are_packed_no_worse_than_greedily() -> None:
    """Ratios are in docs/sharding.md."""
    rng = random.Random(0)
    for _ in range(100):
        loads = [rng.paretovariate(1.5) for _ in range(rng.choice((8, 12, 16, 32)))]
        devices = rng.choice((4, 8))
        slots = len(loads) // devices + rng.choice((1, 2))
        packing = pack_experts(loads, devices, slots, steps=2_000)
        assert [len(device) for device in packing.devices] == [slots] * devices
        assert {expert for device in packing.devices for expert in device} == set(range(len(loads)))
        assert packing.load == pytest.approx(load_of(loads, packing.devices))
        assert packing.bound <= packing.load <= load_of(loads, greedy(loads, range(len(loads)), devices, slots)) + 1e-9


def test_small_packings_are_as_good_as_the_best_of_all() -> None:
    rng = random.Random(1)
    for experts, devices, slots in ((3, 2, 2), (4, 3, 2), (3, 2, 3), (4, 2, 3)) * 4:
        loads = [rng.randrange(1, 30) for _ in range(experts)]
        best = min(load_of(loads, packed) for packed in everything(experts, devices, slots))
        packing = pack_experts(loads, devices, slots)
        assert packing.optimal
        assert packing.load == pytest.approx(best)


def test_a_bound_holds_where_the_search_is_cut_short() -> None:
    rng = random.Random(2)
    for _ in range(20):
        loads = [rng.randrange(1, 30) for _ in range(4)]
        assert pack_experts(loads, 3, 2, steps=3).bound <= pack_experts(loads, 3, 2).load * (1 + 1e-9)


def test_the_most_loaded_expert_stands_beside_others_where_none_is_there_twice() -> None:
    packing = pack_experts([10.0, 1.0, 2.0, 3.0], 2, 2, steps=0)
    assert (packing.load, packing.bound, packing.optimal) == (11.0, 11.0, True)


@pytest.mark.parametrize(
    ("loads", "devices", "message"), [([1.0] * 5, 2, "do not fit"), ([-1.0], 2, "finite"), ([], 2, "at least one")]
)
def test_what_cannot_be_packed_is_refused_in_a_line(loads: list[float], devices: int, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        pack_experts(loads, devices, 2)
