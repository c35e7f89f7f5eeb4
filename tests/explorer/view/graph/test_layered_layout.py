"""The layout puts what feeds above what is fed, apart, inside what cytoscape can draw."""

import itertools

import pytest

from explorer.view.graph.layered_layout import EXTENT_TIMES_ZOOM, NODE_HEIGHT, NODE_WIDTH, layered_layout

CHAIN = [(i, i + 1) for i in range(39)]
DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


def overlaps(layout):
    return [
        (a, b)
        for a, b in itertools.combinations(layout.positions, 2)
        if abs(a[0] - b[0]) < NODE_WIDTH and abs(a[1] - b[1]) < NODE_HEIGHT
    ]


def test_a_diamond_has_three_rows_and_is_symmetric():
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = layered_layout(4, DIAMOND).positions
    assert y0 < y1 == y2 < y3
    assert x0 == x3 == pytest.approx((x1 + x2) / 2)


def test_a_long_chain_is_wrapped_into_columns_and_routed_between_them():
    layout = layered_layout(40, CHAIN, aspect=1.0)
    columns = {x for x, _ in layout.positions}
    assert len(columns) > 1
    assert len(layout.routes) == len(columns) - 1
    assert not overlaps(layout)


def test_parallel_branches_stay_in_their_columns():
    edges = [(4 * r + b, 4 * (r + 1) + b) for r in range(5) for b in range(4)]
    layout = layered_layout(24, edges, aspect=1.0)
    for branch in range(4):
        assert len({layout.positions[4 * r + branch][0] for r in range(6)}) == 1


def test_a_very_wide_layer_is_broken_into_rows():
    layout = layered_layout(42, [(0, i) for i in range(1, 41)] + [(i, 41) for i in range(1, 41)], aspect=1.0)
    assert len({y for _, y in layout.positions}) > 3
    assert layout.width < 12 * NODE_WIDTH
    assert not overlaps(layout)


def test_cycles_and_loose_nodes_are_drawn_too():
    layout = layered_layout(5, [(0, 1), (1, 2), (2, 0), (3, 3)])
    assert len(layout.positions) == 5
    assert not overlaps(layout)


def test_nothing_and_one():
    assert layered_layout(0, []).positions == ()
    assert layered_layout(1, []).positions == ((NODE_WIDTH / 2, NODE_HEIGHT / 2),)


def test_thousands_of_nodes_stay_within_what_can_be_drawn():
    edges = [(i, i + d) for i in range(4000) for d in (1, 7) if i + d < 4000]
    layout = layered_layout(4000, edges)
    assert max(layout.width, layout.height) * layout.max_zoom <= EXTENT_TIMES_ZOOM + 1


def test_the_layout_is_deterministic():
    assert layered_layout(40, CHAIN) == layered_layout(40, CHAIN)
