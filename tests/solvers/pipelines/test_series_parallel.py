"""The series-parallel tree of a graph: exact where there is one, a strengthening of the order where not."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from solvers.pipelines.tree.series_parallel import Parallel, Series, Tree, decompose, joined, leaves, simplified

BRANCHES = [[1, 3], [2], [5], [4], [5], []]
"""0 -> (1 -> 2 | 3 -> 4) -> 5."""


def random_dag(seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    count, density = rng.randint(1, 9), rng.choice((0.15, 0.3, 0.5))
    return [[v for v in range(u + 1, count) if rng.random() < density] for u in range(count)]


def below(after: list[list[int]]) -> list[set[int]]:
    reached: list[set[int]] = [set() for _ in after]
    for node in range(len(after) - 1, -1, -1):
        for target in after[node]:
            reached[node] |= {target} | reached[target]
    return reached


def has_an_n(after: list[list[int]]) -> bool:
    """Whether a < c, b < c, b < d and nothing else among four nodes: what no series-parallel order has."""
    order = below(after)

    def ordered(a: int, b: int) -> bool:
        return b in order[a] or a in order[b]

    return any(
        c in order[a] and c in order[b] and d in order[b] and not any(map(ordered, (a, a, c), (b, d, d)))
        for a, b, c, d in itertools.permutations(range(len(after)), 4)
    )


def precedes(tree: Tree) -> set[tuple[int, int]]:
    """The pairs that the tree orders."""
    if isinstance(tree, int):
        return set()
    pairs = set().union(*map(precedes, tree.parts)) if tree.parts else set()
    if isinstance(tree, Series):
        for a, b in itertools.combinations(tree.parts, 2):
            pairs |= set(itertools.product(leaves(a), leaves(b)))
    return pairs


def test_branches_are_distinguished_from_what_comes_before_and_after():
    assert decompose(BRANCHES, [1.0] * 6).tree == Series((0, Parallel((Series((1, 2)), Series((3, 4)))), 5))


def test_an_edge_past_a_branch_changes_nothing():
    skipping = [[*BRANCHES[0], 5], *BRANCHES[1:]]
    assert decompose(skipping, [1.0] * 6) == decompose(BRANCHES, [1.0] * 6)


@pytest.mark.parametrize("seed", range(200))
def test_the_tree_keeps_every_order_and_adds_some_only_where_it_must(seed):
    after = random_dag(seed)
    decomposed = decompose(after, [1.0] * len(after))
    assert sorted(leaves(decomposed.tree)) == list(range(len(after)))
    true = {(u, v) for u, targets in enumerate(below(after)) for v in targets}
    assert true <= precedes(decomposed.tree)
    assert (decomposed.forced == 0) == (not has_an_n(after)) == (precedes(decomposed.tree) == true)


def test_order_is_added_where_it_lengthens_the_heaviest_path_least():
    crossed = [[2], [2, 3], [], []]  # 0, 1 -> 2 and 1 -> 3
    assert decompose(crossed, [1.0, 5.0, 1.0, 5.0]).tree == Series((1, Parallel((Series((0, 2)), 3))))


@pytest.mark.parametrize("seed", range(60))
def test_simpler_trees_keep_every_node_and_order(seed):
    after = random_dag(seed)
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.0, 1.0, len(after))
    true = {(u, v) for u, targets in enumerate(below(after)) for v in targets}
    tree = simplified(decompose(after, weight.tolist()).tree, weight, 1.0, 0.2)
    assert true <= precedes(tree)
    moved = joined(tree, weight, 0.5)
    assert sorted(leaves(moved)) == list(range(len(after)))


def test_light_branches_are_a_series_and_heavy_ones_stay():
    tree = decompose(BRANCHES, [1.0] * 6).tree
    assert simplified(tree, np.ones(6), 5.0, 0.0) == Series((0, 1, 2, 3, 4, 5))
    assert simplified(tree, np.ones(6), 4.0, 2.0) == tree


def test_a_light_join_goes_to_the_heaviest_branch():
    weight = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 0.1])
    tree = decompose(BRANCHES, weight.tolist()).tree
    assert joined(tree, weight, 0.5) == Series((0, Parallel((Series((1, 2)), Series((3, 4, 5))))))
