"""Rows of the schedule that belong to one node."""

from __future__ import annotations

from explorer.view.timeline.gantt_rows import Row, Rows, node_groups, row_columns


def of(*devices: tuple[int, ...]) -> tuple[Row, ...]:
    return tuple(Row(f"row {i}", each) for i, each in enumerate(devices))


def spans(rows: tuple[Row, ...], nodes: list[int]) -> list[tuple[str, int, int]]:
    return [(group["label"], group["from"], group["to"]) for group in node_groups(rows, nodes)]


def test_neighbours_in_a_node_are_a_group():
    assert spans(of((0,), (1,), (2,), (3,)), [0, 0, 1, 1]) == [("node 0", 0, 2), ("node 1", 2, 4)]


def test_one_node_needs_no_groups():
    assert spans(of((0,), (1,)), [0, 0]) == []


def test_a_stage_on_devices_of_two_nodes_is_in_no_group_and_parts_its_neighbours():
    rows = of((0,), (1, 2), (1,), (3,), (0,))
    assert spans(rows, [0, 0, 1, 1]) == [("node 0", 0, 1), ("node 0", 2, 3), ("node 1", 3, 4), ("node 0", 4, 5)]


def test_links_are_in_no_node():
    rows = (*of((0,), (1,)), Row("GPU 0 → 1", (0,), links=(0,)))
    assert spans(rows, [0, 1]) == [("node 0", 0, 1), ("node 1", 1, 2)]


def test_rows_are_written_a_list_a_property():
    shown = row_columns(Rows("devices", of((0,), (1,)), ()), [0, 1])
    assert shown["label"] == ["row 0", "row 1"]
    assert shown["middle"] == [0.0, 1.0]
    assert {len(shown[name]) for name in ("stages", "devices", "height", "link", "groups")} == {2}
