"""The heat map over degrees, as values."""

from __future__ import annotations

import math

from explorer.view.pictures.degrees import SHADES, degree_map
from solvers.formats.result_json import degree_json
from solvers.plan.degrees import DegreePlan

ROWS = [
    DegreePlan(1, 1, 8, 0.2, 4e9),
    DegreePlan(8, 1, 1, 0.1, 9e9),
    DegreePlan(8, 1, 2, 0.11, 8e9),
    DegreePlan(1, 4, 2, math.inf, math.inf, "28 heads"),
    DegreePlan(2, 4, 1, math.inf, math.inf, "28 heads"),
]


def test_a_row_for_replicas_and_a_column_for_groups() -> None:
    grid = degree_map([degree_json(row) for row in ROWS])
    assert grid is not None
    assert (grid.data, grid.tensor) == ((1, 2, 8), (1, 4))
    assert [[None if cell is None else cell.words for cell in row] for row in grid.cells] == [
        ["200 ms", "none"], [None, "none"], ["100 ms", None],
    ]  # fmt: skip


def test_the_best_is_darkest_and_names_all_its_stages() -> None:
    grid = degree_map([degree_json(row) for row in ROWS])
    assert grid is not None
    slow, best = grid.cells[0][0], grid.cells[2][0]
    assert slow is not None
    assert best is not None
    assert (slow.shade, best.shade, best.best) == (1, SHADES, True)
    assert "1 stage: 100 ms" in best.title
    assert "2 stages: 110 ms" in best.title


def test_a_reason_is_stated_once() -> None:
    grid = degree_map([degree_json(row) for row in ROWS])
    assert grid is not None
    assert [(of.count(" x "), why) for of, why in grid.reasons] == [(4, "28 heads")]


def test_no_degrees_have_no_map() -> None:
    assert degree_map([]) is None
