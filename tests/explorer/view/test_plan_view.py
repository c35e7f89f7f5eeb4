"""What the page shows of a plan is what evaluate and simulate say of it."""

import json
from dataclasses import replace

import pytest

from explorer.question.accelerators import make_accelerators
from explorer.question.settings import Settings
from explorer.sweeps.why_here import why_here
from explorer.view import events
from explorer.view.graph.elements import expanded_to, graph_view
from explorer.view.graph.inspect import box_facts, device_facts
from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_view import devices, plan_view
from explorer.view.timeline import charts, why
from solvers.evaluation.evaluate import evaluate
from solvers.plan.result import Result, Status, StopReason
from solvers.problem.problem import Execution, Objective
from tests.explorer.view.small import GIB, chain_problem, chain_workload, even_plan

PROBLEM = chain_problem()
PLAN = even_plan(PROBLEM)
METRICS = evaluate(PROBLEM, PLAN)


def view(problem=PROBLEM, status=Status.OPTIMAL, bound_share=1.0):
    plan = even_plan(problem)
    objective = evaluate(problem, plan).iteration_s
    return plan_view(
        problem, plan, planner="even", objective_s=objective, bound_s=objective * bound_share, status=status
    )


def test_a_view_is_json_without_infinities():
    json.dumps(view(chain_problem(memory_bytes=float("inf"))), allow_nan=False)


def test_the_schedule_drawn_ends_when_the_iteration_does():
    assert view()["span_s"] == pytest.approx(METRICS.iteration_s)


def test_the_breakdown_of_the_bottleneck_adds_up_to_the_step():
    shown = view()
    assert sum(shown["breakdown"].values()) == pytest.approx(shown["span_s"])
    assert shown["breakdown"]["compute"] == pytest.approx(max(METRICS.busy_s))


def test_the_breakdown_tells_transfers_from_waiting():
    spans = [(0, -1, 1.0, 2.0), (1, 0, 2.0, 3.0), (0, -1, 4.0, 5.0)]
    assert why.breakdown(spans, 0, 6.0) == {
        "compute": 2.0,
        "transfers": 1.0,
        "warm_up": 1.0,
        "drain": 1.0,
        "waiting": 1.0,
    }


def test_a_device_without_work_only_waits_for_the_start():
    assert why.breakdown([(0, -1, 0.0, 1.0)], 1, 1.0)["warm_up"] == 1.0


def test_why_says_what_is_proved_for_which_contiguity():
    proved = "Proved optimal for iteration time, over acyclic graphs of stages."
    assert why.explain(view())["proof"] == proved
    reasons = why.explain(view(status=Status.FEASIBLE, bound_share=0.8))["proof"]
    assert reasons.startswith("No plan can be more than 20 % faster")


def test_why_speaks_of_one_pass_where_one_pass_is_planned():
    latency = replace(PROBLEM, objective=Objective.MAKESPAN, execution=Execution.CALL, micro_batches=1)
    reasons = why.explain(view(latency))
    assert reasons["proof"] == "Proved optimal for makespan, over any number of subgraphs of one device."
    assert "pipeline" not in reasons["binding"]
    assert "before and after" in [part["name"] for part in reasons["parts"]]
    reasons = why.explain(view(replace(latency, subgraphs_per_device=2)))
    assert reasons["proof"].endswith("over at most 2 subgraphs of one device.")


def test_why_names_memory_when_it_binds():
    peak = max(METRICS.peak_memory_bytes)
    assert why.explain(view(chain_problem(memory_bytes=peak * 1.01)))["binding"].startswith(
        "Memory is the bottleneck: GPU 0"
    )
    assert "Memory is not" in why.explain(view())["binding"]


@pytest.mark.parametrize(
    ("micro_batches", "words"),
    [(1, "Warm-up and drain are the bottleneck: GPU "), (8, "Waiting on dependencies: GPU ")],
)
def test_a_device_that_idles_much_of_the_step_is_not_bound_by_its_work(micro_batches, words):
    reasons = why.explain(view(chain_problem(4, mini_batch=16, micro_batches=micro_batches)))
    assert reasons["binding"].startswith(words)


def test_work_binds_where_nothing_else_takes_time():
    reasons = why.explain(view(chain_problem(1)))
    assert reasons["binding"].startswith("Compute on GPU 0 is the bottleneck: it computes 100 % of the step.")


def test_memory_cards_share_one_scale_and_show_the_cap_when_it_is_near():
    peak = max(METRICS.peak_memory_bytes)
    near = charts.memory_cards(view(chain_problem(memory_bytes=peak * 1.5)))
    assert near[0]["cap"] == 1.0
    assert max(share for _, share in near[0]["points"]) == pytest.approx(1 / 1.5, rel=1e-3)
    assert not near[0]["broken"]


def test_a_cap_far_above_the_curves_is_a_line_above_a_break_and_a_share_in_words():
    far = charts.memory_cards(view())
    assert (far[0]["cap"], far[0]["broken"], far[0]["limit"]) == (1.0, True, "16 GiB")
    assert max(share for card in far for _, share in card["points"]) == pytest.approx(charts.BROKEN, rel=1e-3)
    assert far[0]["share"].endswith(" %")


def test_a_thinned_memory_curve_keeps_its_peak():
    times = [i / 1000 for i in range(1000)]
    values = [5.0 if i == 777 else 1.0 for i in range(1000)]
    curve = charts.memory_curve(times, values, 1.0, 1.0)
    assert len(curve["points"]) <= charts.POINTS
    assert max(v for _, v in curve["points"]) == curve["peak_bytes"] == 5.0


def test_device_rows_count_operators_and_name_devices():
    rows = charts.device_rows(view())
    assert [row["name"] for row in rows] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
    assert {row["operators"] for row in rows} == {"48"}


def test_facts_of_a_box_and_of_a_device():
    outline = skeleton(chain_workload())
    boxes = graph_view(outline, expanded_to(outline, 2))
    facts = box_facts("m:blocks.2", boxes, outline, view())
    assert facts.title == "blocks.2"
    assert facts.tags == ("GPU 1",)
    assert dict(facts.rows)["Receives"] == "8 MiB ← GPU 0"
    assert [act for act, _, _ in facts.actions] == ["expand", "collapse"]
    assert box_facts("m:nothing", boxes, outline, None) is None
    assert dict(device_facts(1, view()).rows)["Operators"] == "48"
    assert device_facts(9, view()) is None


def test_an_infeasible_result_blames_the_heaviest_operators():
    problem = chain_problem(memory_bytes=0.1 * GIB)
    none = Result(problem, None, Status.INFEASIBLE, StopReason.FINISHED, float("inf"), 0.0, 0.1, "auto")
    shown = events.result(none, fits_memory_bytes=GIB)["infeasible"]
    assert shown["proved"]
    assert shown["fits_memory_bytes"] == GIB
    assert shown["blame"][0]["text"] == "32 MiB"
    json.dumps(shown, allow_nan=False)


def test_equal_models_have_equal_hashes_and_their_graph_comes_along():
    one, other = events.model(chain_workload()), events.model(chain_workload())
    assert one == other
    assert events.unpacked(one["skeleton"])["operators"] == 192


def test_cores_of_a_cpu_are_not_called_gpus():
    problem = chain_problem(2)
    cores = [replace(device, kind="cpu-core") for device in problem.cluster.devices]
    problem = replace(
        problem,
        cluster=replace(problem.cluster, devices=tuple(cores)),
        compute=replace(problem.compute, seconds={"cpu-core": problem.compute.seconds["toy"]}),
    )
    assert [device["name"] for device in devices(problem)] == ["CPU core 0", "CPU core 1"]
    assert why_here(problem, even_plan(problem), [0]).moves[0].name.startswith("CPU core ")
    made = make_accelerators(chain_workload(), Settings(devices=2, device_kind="cpu-core"))
    assert [device.name for device in made] == ["CPU core 0", "CPU core 1"]
