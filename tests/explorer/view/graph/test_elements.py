"""Boxes for modules, edges for tensors, cuts for what crosses devices."""

from explorer.view.graph.elements import (
    MAX_BOXES,
    MAX_EDGES,
    assignment,
    cytoscape_elements,
    depths,
    expanded_to,
    graph_view,
    opened_for,
    table,
)
from explorer.view.graph.inspect import box_words
from explorer.view.graph.layered_layout import GAP_Y, NODE_HEIGHT
from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_view import plan_view
from explorer.view.scene import overlay_scene
from solvers.formats.workload import Workload
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from tests.explorer.view.small import MIB, chain_problem, chain_workload, even_plan

CHAIN = skeleton(chain_workload())


def test_equal_graphs_have_equal_hashes():
    assert skeleton(chain_workload())["hash"] == CHAIN["hash"]


def test_levels_go_from_top_modules_to_operators():
    sizes = [len(graph_view(CHAIN, expanded_to(CHAIN, d)).boxes) for d in range(1, depths(CHAIN) + 1)]
    assert sizes == [1, 8, 16, 96]


def test_every_level_shows_other_boxes_than_the_one_before():
    """A module of one operator is opened by no level of its own."""
    paths = ("a.norm", "a.linear", "b.norm", "b.linear")
    outline = skeleton(Workload(OpGraph(tuple(Operator(f"{p}/op", module_path=p) for p in paths), ()), "pairs"))
    assert [len(graph_view(outline, expanded_to(outline, d)).boxes) for d in range(1, depths(outline) + 1)] == [2, 4]


def test_a_hidden_operator_has_a_box_once_what_is_around_it_is_opened():
    view = graph_view(CHAIN, expanded_to(CHAIN, 2))
    opened = opened_for(view, CHAIN, "o:40")
    assert opened is not None
    assert "o:40" in graph_view(CHAIN, opened).boxes
    assert view.expanded < opened
    assert opened_for(view, CHAIN, "m:blocks.3") == view.expanded | {"blocks.3"}
    assert [opened_for(view, CHAIN, odd) for odd in ("m:none", "o:", "o:-1", "o:99999", "x:1", "")] == [None] * 6


def test_backward_operators_live_in_the_box_of_their_forward():
    view = graph_view(CHAIN, expanded_to(CHAIN, 2))
    assert all(len(members) == 24 for members in view.boxes.values())
    assert len(view.edges) == 7


def test_labels_are_the_shortest_tails_that_differ():
    assert graph_view(CHAIN, expanded_to(CHAIN, 2)).labels["m:blocks.0"] == "blocks.0"
    assert graph_view(CHAIN, expanded_to(CHAIN, 3)).labels["m:blocks.0.mlp"] == "0.mlp"


def test_a_label_is_never_only_numbers():
    operators = tuple(Operator(f"stages.{i}.{j}.op", module_path=f"stages.{i}.{j}") for i in range(2) for j in range(2))
    outline = skeleton(Workload(OpGraph(operators, ()), "numbers"))
    view = graph_view(outline, expanded_to(outline, 3))
    assert set(view.labels.values()) == {"stages.0.0", "stages.0.1", "stages.1.0", "stages.1.1"}


def test_one_module_can_be_expanded_alone():
    view = graph_view(CHAIN, expanded_to(CHAIN, 2) | {"blocks.3"})
    assert {"m:blocks.3.attention", "m:blocks.3.mlp"} <= set(view.boxes)
    assert len(view.boxes) == 9


def test_cuts_are_marked_where_neighbours_are_on_different_devices():
    problem = chain_problem()
    plan = plan_view(problem, even_plan(problem), planner="even", objective_s=1.0, bound_s=1.0)
    view = graph_view(CHAIN, expanded_to(CHAIN, 2))
    shown = assignment(view, CHAIN, plan["placement"], plan["samples"])
    assert shown["nodes"]["m:blocks.0"] == [0]
    assert shown["nodes"]["m:blocks.7"] == [3]
    assert list(shown["cuts"].values()) == [("8 MiB", 8 * MIB)] * 3


def test_a_box_that_is_cut_itself_has_the_bytes_that_cross_in_it():
    view = graph_view(CHAIN, expanded_to(CHAIN, 2))
    plan = plan_view(chain_problem(), even_plan(chain_problem()), planner="even", objective_s=1.0, bound_s=1.0)
    placement = [[1] if 18 <= i < 36 or 156 <= i < 174 else [0] for i in range(CHAIN["operators"])]
    result = assignment(view, CHAIN, placement, 2)
    assert result["inside"] == {"m:blocks.1": ("8 MiB", 8 * MIB)}
    assert set(result["nodes"]["m:blocks.1"]) == {0, 1}
    shown = overlay_scene(view, CHAIN, {**plan, "placement": placement})
    assert shown["inside"] == {"m:blocks.1": "8 MiB"}
    assert [label for label, _ in shown["cuts"].values()] == ["8 MiB"]


def test_a_tensor_counts_once_per_device_it_goes_to():
    graph = OpGraph(tuple(Operator(name) for name in "abcd"), (Tensor(0, (1, 2, 3), Amount(MIB)),), name="fan")
    outline = skeleton(Workload(graph, "fan"))
    view = graph_view(outline, frozenset())
    cuts = assignment(view, outline, [[0], [0], [1], [1]], 1)["cuts"]
    assert sorted(cut[1] for cut in cuts.values()) == [MIB, MIB]


def test_a_module_on_two_devices_lists_both_most_operators_first():
    view = graph_view(CHAIN, frozenset())
    placement = [[1] if i < 10 else [0] for i in range(CHAIN["operators"])]
    assert assignment(view, CHAIN, placement, 1)["nodes"] == {"m:blocks": [0, 1]}


def test_a_huge_graph_is_shut_until_it_can_be_drawn():
    for count in (MAX_BOXES, MAX_BOXES + 1):
        operators = tuple(Operator(f"m{i // 100}.op{i}", module_path=f"m{i // 100}") for i in range(count))
        tensors = tuple(Tensor(i, (i + 1,)) for i in range(count - 1))
        outline = skeleton(Workload(OpGraph(operators, tensors), "huge"))
        view = graph_view(outline, expanded_to(outline, 2))
        assert view.collapsed == (count > MAX_BOXES)
        assert len(view.boxes) == (16 if view.collapsed else MAX_BOXES)
        tensors = tuple(Tensor(i, tuple(range(i + 1, min(i + 5, count)))) for i in range(count - 1))
        outline = skeleton(Workload(OpGraph(operators, tensors), "dense"))
        assert len(graph_view(outline, expanded_to(outline, 2)).edges) <= MAX_EDGES


def test_a_huge_graph_without_modules_is_cut_into_runs():
    outline = skeleton(Workload(OpGraph(tuple(Operator(f"op{i}") for i in range(2000)), ()), "flat"))
    assert len(graph_view(outline, frozenset()).boxes) == 50


def test_every_edge_joins_boxes_that_are_there():
    drawn = cytoscape_elements(graph_view(CHAIN, expanded_to(CHAIN, 4)), CHAIN)
    boxes = {e["data"]["id"] for e in drawn if "source" not in e["data"]}
    assert all({e["data"]["source"], e["data"]["target"]} <= boxes for e in drawn if "source" in e["data"])


def test_boxes_leave_room_for_arrows_and_what_passes_a_box_goes_round_it():
    operators = tuple(Operator(f"op{i}") for i in range(30))
    skips = tuple(Tensor(i, (i + 1, i + 2)) for i in range(28))
    outline = skeleton(Workload(OpGraph(operators, skips), "skips"))
    view = graph_view(outline, frozenset(), 1.0, 500.0)
    at = dict(zip(view.boxes, view.layout.positions, strict=True))
    classes = {(e["data"]["source"], e["data"]["target"]): e["classes"].split()
               for e in cytoscape_elements(view, outline) if "source" in e["data"]}  # fmt: skip
    assert {"short", "wrapped"} <= {name for each in classes.values() for name in each}
    for (source, target), names in classes.items():
        rows = (at[target][1] - at[source][1]) / (NODE_HEIGHT + GAP_Y)
        assert rows >= 1 or "wrapped" in names
        if at[source][0] == at[target][0] and source != target:
            assert ("bowed" in names) == (int(target[2:]) - int(source[2:]) == 2)


def test_a_table_that_all_blocks_read_combs_over_none_of_them():
    """Rotary tables and masks: only the edge to the first reader is drawn; a tensor of the model itself is never left
    out, however many read it."""
    blocks = tuple(range(2, 12))
    chain = (Tensor(0, (2,)), Tensor(1, blocks), *(Tensor(i, (i + 1,)) for i in blocks[:-1]))
    names = ("tokens", "rotary", *(f"block{i}" for i in blocks))
    outline = skeleton(Workload(OpGraph(tuple(Operator(n) for n in names), chain), "rotary"))
    view = graph_view(outline, frozenset())
    fans = [list(view.edges)[number] for number in view.layout.fans]
    assert sorted(fans) == sorted(("o:1", f"o:{i}") for i in blocks[1:])
    elements = cytoscape_elements(view, outline)
    assert [e["data"]["feeds"] for e in elements if "feeds" in e["data"]] == [9]
    plan = plan_view(chain_problem(), even_plan(chain_problem()), planner="even", objective_s=1.0, bound_s=1.0)
    assert "read by 10 boxes" in (box_words("o:1", view, outline, None) or "")
    assert box_words("o:99", view, outline, plan) is None
    late = (
        *(Tensor(i, (i + 1,)) for i in range(8)),
        Tensor(7, (9, 10, 11)),
        Tensor(8, (9,)),
        Tensor(9, (10,)),
        Tensor(10, (11,)),
    )
    outline = skeleton(Workload(OpGraph(tuple(Operator(n) for n in names), late), "encoder"))
    assert not graph_view(outline, frozenset()).layout.fans


def test_the_table_twin_has_a_row_a_box():
    view = graph_view(CHAIN, expanded_to(CHAIN, 2))
    rows = table(view, CHAIN, {"m:blocks.0": [0]})
    assert rows[0] == {
        "name": "blocks.0",
        "operators": "24",
        "devices": "0",
        "parameters": "96 MiB",
        "feeds": "blocks.1",
        "pick": ("box", "m:blocks.0"),
    }
