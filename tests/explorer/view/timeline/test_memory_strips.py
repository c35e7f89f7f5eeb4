"""Memory of many devices as strips."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.view.timeline.charts import MOST_CARDS, memory_strips


def view(count: int, peak: float, cap: float | None = 100.0, per_node: int = 0) -> dict[str, Any]:
    """Device ``i`` holds peak x (i + 1) / count at the middle of the time and half of it else."""
    curves = [peak * (i + 1) / count for i in range(count)]
    return {
        "devices": [
            {"index": i, "name": f"GPU {i}", "memory_bytes": cap, "node": i // per_node if per_node else 0}
            for i in range(count)
        ],
        "memory": [
            {"peak_bytes": b, "static_bytes": 0.0, "points": [[0.0, b / 2], [0.5, b], [0.6, b / 2]]} for b in curves
        ],
    }


def test_few_devices_have_curves_instead():
    assert memory_strips(view(MOST_CARDS, 50.0)) is None
    assert memory_strips(view(MOST_CARDS + 1, 50.0)) is not None


def test_a_place_on_the_scale_is_the_share_of_the_cap():
    strips = memory_strips(view(32, 80.0))
    last = strips["panels"][-1]["rows"][-1]
    assert last["points"] == [[0.0, 0.4], [0.5, 0.8], [0.6, 0.4]]
    assert (last["share"], last["over"]) == ("80 %", False)
    assert strips["ticks"] == [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")]
    assert strips["what"] == "of the cap"


def test_far_below_the_cap_the_scale_ends_sooner_and_says_where():
    strips = memory_strips(view(32, 4.0))
    assert strips["ticks"][-1] == (1.0, "5 %")
    assert strips["panels"][-1]["rows"][-1]["points"][1] == [0.5, 0.8]


def test_what_is_above_the_cap_is_above_the_scale():
    strips = memory_strips(view(32, 120.0))
    rows = [row for panel in strips["panels"] for row in panel["rows"]]
    assert strips["over"]
    assert [row["over"] for row in rows] == [120.0 * (i + 1) / 32 > 100.0 for i in range(32)]
    assert all((max(place for _, place in row["points"]) > 1) == row["over"] for row in rows)


def test_without_caps_the_fullest_device_is_the_whole():
    strips = memory_strips(view(20, 50.0, cap=None))
    assert strips["what"] == "of the highest peak, 50 B"
    assert strips["panels"][-1]["rows"][-1]["points"][1] == [0.5, 1.0]
    assert strips["panels"][-1]["rows"][-1]["share"] == ""


@pytest.mark.parametrize(
    ("per_node", "labels"), [(8, ["node 0", "node 1", "node 2"]), (0, ["GPU 0 to GPU 15", "GPU 16 to GPU 23"])]
)
def test_panels_are_nodes_or_runs_of_devices(per_node, labels):
    strips = memory_strips(view(24, 50.0, per_node=per_node))
    assert [panel["label"] for panel in strips["panels"]] == labels
    assert [row["device"] for panel in strips["panels"] for row in panel["rows"]] == list(range(24))
