"""Enumeration of downsets: every one, once, in order of size, with its cover relations."""

from __future__ import annotations

import random

import numpy as np
import pytest

from solvers.coarsening.coarsen import contract
from solvers.coarsening.traffic import Rows
from solvers.contiguous.downsets import enumerate_downsets, suffix_order
from solvers.contiguous.lattice_kernel import Order
from tests.solvers.msr_instances import as_problem, needs_workloads, published, references


def order_of(count: int, edges: set[tuple[int, int]]) -> Order:
    before = Rows.of([[u for u, v in sorted(edges) if v == i] for i in range(count)])
    after = Rows.of([[v for u, v in sorted(edges) if u == i] for i in range(count)])
    return Order(before.start, before.items, after.start, after.items)


def keep_going() -> None:
    return None


def as_masks(downsets) -> list[int]:
    return [sum(int(word) << (64 * w) for w, word in enumerate(row)) for row in downsets.words]


@pytest.mark.parametrize("seed", range(20))
def test_all_sets_closed_under_predecessors_are_listed_once_smaller_ones_first(seed):
    rng = random.Random(seed)
    count = rng.randint(1, 9)
    edges = {(u, v) for u in range(count) for v in range(u + 1, count) if rng.random() < 0.3}
    downsets = enumerate_downsets(order_of(count, edges), 10**6, keep_going)
    masks = as_masks(downsets)
    expected = {s for s in range(1 << count) if all(s >> u & 1 or not s >> v & 1 for u, v in edges)}
    assert len(masks) == len(expected)
    assert set(masks) == expected
    sizes = [mask.bit_count() for mask in masks]
    assert sizes == sorted(sizes)
    assert downsets.difference(len(masks) - 1, 0) == tuple(range(count))


@pytest.mark.parametrize("seed", range(5))
def test_cover_relations_join_every_pair_that_differs_by_one_element(seed):
    rng = random.Random(seed)
    edges = {(u, v) for u in range(7) for v in range(u + 1, 7) if rng.random() < 0.3}
    downsets = enumerate_downsets(order_of(7, edges), 10**6, keep_going)
    masks = as_masks(downsets)
    up = downsets.up
    pairs = {
        (masks[i], masks[up.up_to[e]], int(up.up_element[e]))
        for i in range(len(masks))
        for e in range(up.up_start[i], up.up_start[i + 1])
    }
    expected = {
        (a, b, (a ^ b).bit_length() - 1) for a in masks for b in masks if a & b == a and (a ^ b).bit_count() == 1
    }
    assert pairs == expected


def test_a_chain_longer_than_a_word_has_one_downset_more_than_elements():
    downsets = enumerate_downsets(order_of(200, {(i, i + 1) for i in range(199)}), 10**6, keep_going)
    assert len(downsets) == 201
    assert downsets.words.shape[1] == 4


def test_the_budget_is_exact():
    free = order_of(10, set())
    assert len(enumerate_downsets(free, 1024, keep_going)) == 1024
    assert enumerate_downsets(free, 1023, keep_going) is None


def test_a_check_that_raises_ends_the_enumeration():
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        enumerate_downsets(order_of(10, set()), 10**6, stop)


@needs_workloads
@pytest.mark.parametrize("name", references())
def test_published_workloads_have_the_reference_number_of_downsets(name):
    contracted = contract(as_problem(published(name)), 1)
    downsets = enumerate_downsets(suffix_order(contracted.shape), 10**6, keep_going)
    assert len(downsets) == references()[name]["downsets"]
    assert np.bitwise_count(downsets.words[-1]).sum() == len(contracted)
