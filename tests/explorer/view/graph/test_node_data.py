"""Numbers of somebody's own on operators: Model Explorer's node data, as colours of the boxes."""

from __future__ import annotations

import json

import pytest

from explorer.jobs.read_kind import opened
from explorer.view.graph.elements import expanded_to, graph_view
from explorer.view.graph.node_data import ENDS, box_values, is_node_data, read_node_data
from explorer.view.graph.palette import mix
from explorer.view.graph.skeleton import skeleton
from solvers.errors import InvalidProblem
from tests.explorer.view.small import chain_workload

CHAIN = skeleton(chain_workload())
VIEW = graph_view(CHAIN, expanded_to(CHAIN, 2))
FIRST = [CHAIN["names"][i] for i in VIEW.boxes["m:blocks.0"] if CHAIN["phases"][i] == "forward"]


def test_one_graph_several_graphs_and_plain_numbers_are_read():
    results = {"a": {"value": 1, "bgColor": "red"}, "b": {"value": 2.5}}
    alone = read_node_data({"results": results}, "x.json")
    assert read_node_data({"main": {"results": results}}, "x.json") == alone
    assert (alone.values["a"].number, alone.values["a"].fill) == (1.0, "#ff0000")
    assert read_node_data({"a": 1, "b": 2.5}, "x.json").values["b"].number == 2.5
    assert not is_node_data({"a": 1, "b": 0})  # devices: a placement by hand
    assert not is_node_data({"format": "placement-explorer graph"})


def test_a_box_has_its_own_value_or_the_mean_of_its_operators():
    data = read_node_data({FIRST[0]: 1.0, FIRST[1]: 3.0, "blocks.1": 0.0, "blocks.2": 4.0}, "x.json")
    boxes = box_values(VIEW, CHAIN, data, "light")
    assert boxes["labels"] == {"m:blocks.0": "2", "m:blocks.1": "0", "m:blocks.2": "4"}
    low, high = ENDS["light"]
    assert [boxes["fills"][f"m:blocks.{i}"][0] for i in (0, 1, 2)] == [mix(high, low, 0.5), low, high]
    assert [stop["label"] for stop in boxes["stops"] if stop["label"]] == ["0", "4"]
    assert boxes["note"].startswith("2 of ")


def test_thresholds_gradient_and_a_colour_of_its_own_in_the_order_that_model_explorer_has():
    steps = [{"value": 1, "bgColor": "#00f"}, {"value": 10, "bgColor": "yellow"}]
    results = {"blocks.0": {"value": 1}, "blocks.1": {"value": 5}, "blocks.2": {"value": 50},
               "blocks.3": {"value": 5, "bgColor": "#123456", "textColor": "white"}}  # fmt: skip

    def fills(**more):
        boxes = box_values(VIEW, CHAIN, read_node_data({"results": results, **more}, "x.json"), "dark")
        return [boxes["fills"][f"m:blocks.{i}"][0] for i in range(3)], boxes["fills"]["m:blocks.3"]

    stepped, own = fills(thresholds=steps)
    assert stepped[:2] == ["#0000ff", "#ffff00"]
    assert own == ("#123456", "#ffffff")
    smooth, own = fills(thresholds=steps, gradient=[{"stop": 1, "bgColor": "white"}, {"stop": 0, "bgColor": "black"}])
    assert (smooth[0], smooth[2]) == ("#000000", "#ffffff")
    assert own == ("#123456", "#ffffff")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"results": {"a": {"value": "fast"}}}, "a: values are numbers here"),
        ({"results": {"a": {"value": True}}}, "a: expected a number, found True"),
        ({"results": {"a": {"value": 1, "bgColor": "url(x)"}}}, "a: colours are #rrggbb or"),
        ({"results": {}}, "expected 1 to 200,000 values, found 0"),
        ({"results": {"a": {"value": 1}}, "gradient": [{"stop": 2, "bgColor": "red"}]}, "gradient: expected stops"),
        ({"results": {"a": {"value": 1}}, "thresholds": 3}, "thresholds: expected at most 64 objects"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(value, words):
    with pytest.raises(InvalidProblem, match=r"^x\.json: ") as raised:
        read_node_data(value, "x.json")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_of_them_is_known_for_what_it_is(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"main": {"results": {"a": {"value": 0.5}}}}))
    event = opened(str(path), "mine.json")
    assert (event["what"], event["words"]) == ("values", "1 value")
