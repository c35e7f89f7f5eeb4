"""The DAG of stages: what is drawn of it is what the plan and its schedule say."""

import json

import pytest

from explorer.view.graph import stage_boxes
from explorer.view.graph.stage_graph import stage_depths, stage_edges
from explorer.view.graph.stage_layout import stage_columns, stage_lanes
from explorer.view.plan_view import plan_view
from solvers.evaluation.evaluate import evaluate
from solvers.problem.problem import Pipeline
from tests.explorer.view.small import MIB, branches_problem, drafted, pair_plans

PROBLEM = branches_problem()
GRAPH, ROW = pair_plans(PROBLEM)
HALVES = [[2 * i, 2 * i + 1] for i in range(6)] + [[12]]


def view(plan, problem=PROBLEM):
    return plan_view(
        problem, plan, planner="drawn", objective_s=evaluate(problem, plan).iteration_s, bound_s=0.0
    )  # fmt: skip


def test_the_depth_of_branches_is_that_of_the_longest():
    assert stage_boxes.note(view(GRAPH)) == "7 stages, depth 3"
    assert stage_boxes.note(view(ROW)) == "7 stages, depth 7"
    assert stage_depths(3, [(0, 1), (1, 0), (1, 2)]) == [1, 1, 1]


def test_branches_are_rows_and_the_join_is_last():
    shown = stage_boxes.stage_boxes(view(GRAPH))
    assert [b["column"] for b in shown["boxes"]] == [0, 1, 0, 1, 0, 1, 2]
    assert [b["lane"] for b in shown["boxes"]] == [0, 0, 1, 1, 2, 2, 1]
    assert [(e["source"], e["target"]) for e in shown["edges"]] == [(0, 1), (1, 6), (2, 3), (3, 6), (4, 5), (5, 6)]
    json.dumps(shown, allow_nan=False)


def test_an_edge_tells_the_bytes_of_one_micro_batch_of_the_sender():
    assert {e[2] for e in stage_edges(PROBLEM, GRAPH)} == {2 * 4 * MIB}
    assert {e["text"] for e in stage_boxes.stage_boxes(view(GRAPH))["edges"]} == {"8 MiB"}
    assert [e for e in stage_edges(PROBLEM, ROW) if e[:2] == (5, 6)] == [(5, 6, 2 * 8 * MIB, False)]


def test_edges_between_nodes_are_distinguished():
    problem = branches_problem(devices=8, nodes=2)
    plan = drafted(problem, HALVES)
    nodes = [problem.cluster.devices[s.devices[0]].node for s in plan.stages]
    assert {(a, b): between for a, b, _, between in stage_edges(problem, plan)} == {
        (a, b): nodes[a] != nodes[b] for a, b, _, _ in stage_edges(problem, plan)
    }
    assert len(set(nodes)) == 2


def test_times_are_those_of_the_schedule_per_micro_batch():
    stage = view(GRAPH)["stages"][0]
    assert stage["forward_s"] == pytest.approx(2 * 2 * 1e-4)
    assert stage["backward_s"] == pytest.approx(2 * 2 * 2e-4)
    assert sum(s["share"] for s in view(GRAPH)["stages"]) == pytest.approx(1)


def test_replicas_share_a_micro_batch_and_are_named_together():
    problem = branches_problem(devices=8)
    shown = view(drafted(problem, [*HALVES[:-1], [12]], replicas={0: 2}), problem)
    assert shown["stages"][0]["forward_s"] == pytest.approx(2 * 1e-4)
    assert stage_boxes.stage_boxes(shown)["boxes"][0]["who"].startswith("GPU ")
    assert sum(s["share"] for s in shown["stages"]) == pytest.approx(1)


def test_devices_are_named_once():
    names = ["GPU 0", "GPU 1", "GPU 2", "GPU 3", "GPU 4", "GPU 5", "GPU 6", "CPU 0"]
    assert stage_boxes.device_words([3], names) == "GPU 3"
    assert stage_boxes.device_words([3, 1], names) == "GPU 1, 3"
    assert stage_boxes.device_words([2, 3, 4, 5], names) == "GPU 2–5"
    assert stage_boxes.device_words([0, 2, 3, 5, 6], names) == "GPU 0, 2, 3, 5, …"
    assert stage_boxes.device_words([6, 7], names) == "GPU 6 and CPU 0"


def test_the_bottleneck_is_the_busiest_stage_of_the_busiest_device():
    shown = view(GRAPH)
    box = stage_boxes.stage_boxes(shown)["boxes"][stage_boxes.bottleneck_stage(shown)]
    assert box["bottleneck"]
    assert shown["bottleneck"] in box["devices"]
    assert "the bottleneck" in box["label"]


def test_glue_shares_a_device_and_adds_no_depth():
    """A join that takes next to nothing rides on the device of a branch."""
    problem = branches_problem(devices=6)
    free = problem.compute.seconds["toy"].copy()
    free[12:14] = 1e-7
    problem.compute.seconds["toy"][:] = free
    shown = view(drafted(problem, HALVES, hosts={6: 5}), problem)
    assert shown["stages"][6]["glue"]
    assert stage_boxes.note(shown) == "7 stages, 1 of them auxiliary, depth 2"


def test_the_facts_and_the_table_tell_a_stage():
    facts = stage_boxes.stage_facts(6, view(GRAPH))
    assert facts.title == "Stage 6"
    assert dict(facts.rows)["In flight"] == "1 micro-batch"
    assert dict(facts.rows)["Receives"].startswith("8 MiB ← stage 1")
    assert stage_boxes.stage_facts(7, view(GRAPH)) is None
    rows = stage_boxes.table(view(GRAPH))
    assert rows[0]["feeds"] == "1 (8 MiB)"
    assert rows[0]["depth"] == "3"


def test_recomputation_is_stated():
    shown = view(drafted(PROBLEM, HALVES, again=[0]))
    assert shown["stages"][0]["recompute"]
    assert shown["stages"][0]["backward_s"] == pytest.approx(2 * 2 * 3e-4)
    assert set(shown["bars"]["kind"]) >= {"F", "B", "R"}
    again = [
        e - s for k, s, e in zip(*(shown["bars"][c] for c in ("kind", "start_s", "end_s")), strict=True) if k == "R"
    ]
    assert again == pytest.approx([2 * 2 * 1e-4] * 8)


def test_too_many_stages_are_counted_and_not_drawn():
    count = stage_boxes.MAX_STAGES + 1
    shown = stage_boxes.stage_boxes({"stages": [{}] * count})
    assert shown["too_many"]
    assert shown["note"] == f"{count} stages"


def test_columns_count_from_the_sink_and_lanes_are_apart():
    edges = [(0, 1), (1, 2), (3, 2), (0, 2)]
    columns = stage_columns(4, edges)
    assert columns == [0, 1, 2, 1]
    lanes = stage_lanes(columns, edges)
    assert abs(lanes[1] - lanes[3]) >= 1
    assert min(lanes) == 0
    assert stage_columns(2, [(0, 1), (1, 0)]) == [0, 1]
    assert stage_columns(0, []) == stage_lanes([], []) == []


def test_a_plan_for_one_device_has_one_stage_and_no_bottleneck():
    problem = branches_problem(devices=1)
    shown = view(drafted(problem, [range(13)]), problem)
    assert stage_boxes.bottleneck_stage(shown) == -1
    assert stage_boxes.stage_boxes(shown)["columns"] == 1


@pytest.mark.parametrize("pipeline", [Pipeline.ZERO_BUBBLE, Pipeline.GPIPE])
def test_every_pipeline_has_a_view(pipeline):
    problem = branches_problem(pipeline=pipeline)
    json.dumps(view(drafted(problem, HALVES), problem), allow_nan=False)
