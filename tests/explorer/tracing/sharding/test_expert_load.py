"""A group's load by a file of counts: experts are packed on its devices, with a bound; what cannot be is refused."""

from __future__ import annotations

import json
import random
from itertools import combinations
from pathlib import Path

import pytest

from explorer.question.models.expert_load import expert_load_of
from solvers.errors import InvalidProblem


def written(folder: Path, content: object) -> str:
    path = folder / "counts.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_small_groups_have_the_least_load_of_all_packings(tmp_path: Path) -> None:
    rng = random.Random(4)
    for _ in range(10):
        counts = [rng.randrange(1, 50) for _ in range(8)]
        found = expert_load_of(written(tmp_path, counts), 2)
        halves = (sum(some) for some in combinations(counts, 4))
        best = min(max(half, sum(counts) - half) for half in halves)
        assert found.load == pytest.approx(best / (sum(counts) / 2))
        assert found.bound == pytest.approx(found.load)
        assert found.otherwise == pytest.approx(max(sum(counts[:4]), sum(counts[4:])) / (sum(counts) / 2))
        assert found.load <= found.stated <= found.load + 1e-4


def test_of_several_layers_the_most_uneven_counts(tmp_path: Path) -> None:
    even, uneven = [5.0] * 4, [10.0, 1.0, 1.0, 1.0]
    found = expert_load_of(written(tmp_path, [even, uneven]), 2)
    assert found.load == pytest.approx(11 / 6.5)
    assert "no packing has less" in found.line


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([1, 2, 3], "3 experts cannot be divided over 2 devices"),
        ([], "expected tokens of each expert"),
        ([0, 0], "not all of them 0"),
        ([1, -2], "a finite number >= 0"),
        ([[1, 2], [1, 2, 3, 4]], "different numbers of experts"),
        ({"counts": [1, 2]}, "expected a list"),
    ],
)
def test_a_file_of_no_such_counts_is_refused(tmp_path: Path, content: object, says: str) -> None:
    with pytest.raises(InvalidProblem, match=says) as refused:
        expert_load_of(written(tmp_path, content), 2)
    assert "counts.json" in str(refused.value)
