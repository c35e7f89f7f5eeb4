"""A group's load by a file of counts: experts are packed on its devices, with a bound; what cannot be is refused."""

from __future__ import annotations

import json
import random
from itertools import combinations
from pathlib import Path

import pytest

from explorer.question.models.example import Example
from explorer.question.models.expert_load import expert_load_of, load_of
from solvers.errors import InvalidProblem


def written(folder: Path, content: object) -> str:
    path = folder / "counts.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_small_groups_have_the_least_load_of_all_packings(tmp_path: Path) -> None:
    rng = random.Random(4)
    for _ in range(10):
        counts = [rng.randrange(1, 50) for _ in range(8)]
        load = expert_load_of(written(tmp_path, counts), 2)
        halves = (sum(some) for some in combinations(counts, 4))
        best = min(max(half, sum(counts) - half) for half in halves)
        assert load.load == pytest.approx(best / (sum(counts) / 2))
        assert load.bound == pytest.approx(load.load)
        assert load.otherwise == pytest.approx(max(sum(counts[:4]), sum(counts[4:])) / (sum(counts) / 2))
        assert load.load <= load.stated <= load.load + 1e-4


def test_of_several_layers_the_most_uneven_counts(tmp_path: Path) -> None:
    even, uneven = [5.0] * 4, [10.0, 1.0, 1.0, 1.0]
    load = expert_load_of(written(tmp_path, [even, uneven]), 2)
    assert load.load == pytest.approx(11 / 6.5)
    assert "no packing has less" in load.line
    load = expert_load_of(written(tmp_path, [[9.0, 1.0, 1.0, 1.0], [8.0, 8.0, 0.0, 0.0]]), 2)
    assert load.load == load.bound == pytest.approx(10 / 6)
    assert load.otherwise == pytest.approx(2.0), "in order, of the other layer"


@pytest.mark.parametrize(
    ("content", "stated"),
    [
        ([1, 2, 3], "3 experts cannot be divided over 2 devices"),
        ([], "expected tokens of each expert"),
        ([0, 0], "not all of them 0"),
        ([1, -2], "a finite number >= 0"),
        ([[1, 2], [1, 2, 3, 4]], "different numbers of experts"),
        ({"counts": [1, 2]}, "expected a list"),
    ],
)
def test_a_file_of_no_such_counts_is_refused(tmp_path: Path, content: object, stated: str) -> None:
    with pytest.raises(InvalidProblem, match=stated) as refused:
        expert_load_of(written(tmp_path, content), 2)
    assert "counts.json" in str(refused.value)


EPLB = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]


def test_the_example_of_eplb_has_four_redundant_experts_with_the_load_of_its_busier_layer(tmp_path: Path) -> None:
    """12 experts in 16 slots of 8 devices, which they cannot be divided over otherwise: 172 of a mean of 144.5."""
    load = expert_load_of(written(tmp_path, EPLB), 8, 4)
    assert (load.slots, load.redundant, load.otherwise) == (2, 4, None)
    assert load.load == load.bound == pytest.approx(172 / 144.5)
    first = expert_load_of(written(tmp_path, EPLB[0]), 8, 4)
    assert first.load == first.bound == pytest.approx(136 / (sum(EPLB[0]) / 8))
    assert "2 on each of 8 devices, 4 of them redundant" in first.line


def test_redundant_experts_even_out_a_load_to_near_its_bound(tmp_path: Path) -> None:
    counts = [round(1e4 / rank) for rank in range(1, 17)]
    loads = [expert_load_of(written(tmp_path, counts), 4, redundant) for redundant in (0, 4, 8, 16)]
    assert loads[0].load > 1.4
    assert loads[1].otherwise == pytest.approx(loads[0].load)
    assert all(1 <= one.bound <= one.load < 1.002 for one in loads[1:])


def test_a_number_does_not_say_which_experts_have_replicas(tmp_path: Path) -> None:
    of = Example(expert_parallel=8, redundant_experts=4)
    with pytest.raises(InvalidProblem, match="give a file of counts"):
        load_of(of, 1.5)
    stated, packing = load_of(of, written(tmp_path, EPLB))
    assert packing is not None
    assert stated == packing.stated == 1.1904


def test_a_group_of_two_axes_has_experts_on_its_inner_groups(tmp_path: Path) -> None:
    counts = written(tmp_path, [4, 1, 1, 2])
    _, packing = load_of(Example(expert_parallel=2, tensor_parallel=2), counts)
    assert packing is not None
    assert packing.devices == 2
