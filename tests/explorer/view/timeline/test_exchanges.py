"""What members of groups exchange is a part of the times that are simulated, and is drawn and counted as one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from explorer.exports.tables import trace_text
from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_view import plan_view
from explorer.view.scene import schedule_scene
from explorer.view.session import Look
from explorer.view.timeline.exchanges import exchanges, of_spans
from explorer.view.timeline.sentence import legend_kinds
from explorer.view.timeline.why import explain
from explorer.words.actions import EXCHANGE, TRANSFER
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import read_plan, write_plan
from solvers.plan.plan import Plan
from solvers.planners.baselines import EqualSplit
from solvers.planners.solve import solve
from solvers.problem.problem import Problem

pytest.importorskip("torch")
FAST = 1e30


@pytest.fixture(scope="module", params=["pipeline", "recompute", "one pass", "measured"])
def exchanging(request):
    """Two groups of 2, and the same where exchanges take no time."""
    workload = load("gpt-small,tensor-parallel=2", training=True)
    message = {"devices": 4, "bandwidth": 50e9, "latency": 1e-6, "mini_batch": 32}
    more = {
        "pipeline": {"micro_batches": 4},
        "recompute": {"micro_batches": 4, "recompute": "stage"},
        "one pass": {"objective": "makespan"},
        "measured": {"micro_batches": 4},
    }[request.param]
    own = {"devices": 4, "mini_batch": 32, "wiring": "measured"} if request.param == "measured" else message
    problem = make_problem(workload, Settings(**own, **more))
    fast = make_problem(workload, Settings(**{**message, "bandwidth": FAST, "latency": 0.0}, **more))
    plan = solve(problem, EqualSplit()).plan
    assert plan is not None
    if request.param == "recompute":
        plan = replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages))
    return problem, fast, plan


def view_of(problem: Problem, plan: Plan):
    return plan_view(problem, plan, planner="equal", objective_s=1.0, bound_s=0.5)


def test_a_span_without_its_exchange_takes_as_long_as_on_links_that_take_no_time(exchanging):
    problem, fast, plan = exchanging
    of = of_spans(problem, plan)

    def seconds(of_problem):
        spans = [span for span in simulate(of_problem, plan, fold=False).spans if not span.is_transfer]
        return {(span.action, span.device, span.operator): span for span in spans}

    with_exchange, without = seconds(problem), seconds(fast)
    assert with_exchange.keys() == without.keys()
    exchanged = 0.0
    for key, span in with_exchange.items():
        exchange_s = of(span).seconds
        exchanged += exchange_s
        alone_s = without[key].end_s - without[key].start_s
        assert span.end_s - span.start_s - exchange_s == pytest.approx(alone_s, rel=1e-6, abs=1e-12)
    assert exchanged > 0


def test_bars_of_exchange_end_their_actions_and_nothing_is_lost(exchanging):
    problem, _, plan = exchanging
    view = view_of(problem, plan)
    bars, of = view["bars"], of_spans(problem, plan)
    spans = simulate(problem, plan).spans
    kinds = {EXCHANGE: 0.0, "rest": 0.0}
    for kind, start, end in zip(bars["kind"], bars["start_s"], bars["end_s"], strict=True):
        if kind != TRANSFER:
            kinds[EXCHANGE if kind == EXCHANGE else "rest"] += end - start
    assert kinds[EXCHANGE] == pytest.approx(sum(of(span).seconds for span in spans), rel=1e-6)
    assert sum(kinds.values()) == pytest.approx(sum(s.end_s - s.start_s for s in spans if not s.is_transfer), rel=1e-6)
    assert ("exchange", "exchange in the group") in legend_kinds(view)


def test_where_the_time_goes_counts_exchange_apart(exchanging):
    problem, _, plan = exchanging
    view = view_of(problem, plan)
    assert view["breakdown"]["exchange"] > 0
    assert sum(view["breakdown"].values()) == pytest.approx(view["span_s"], rel=1e-9)
    path = {part["kind"]: part["share"] for part in view["path"]["parts"]}
    assert path["exchange"] > 0
    assert sum(part["share"] for part in view["path"]["parts"]) == pytest.approx(1.0)
    assert any("exchange" in str(part["name"]) for part in explain(view)["parts"])


def test_a_hover_names_the_exchange_and_its_bytes():
    workload = load("gpt-small,tensor-parallel=2", training=True)
    problem = make_problem(workload, Settings(devices=4, mini_batch=32, micro_batches=2))
    plan = solve(problem, EqualSplit()).plan
    assert plan is not None
    scene = schedule_scene(skeleton(workload), view_of(problem, plan), "light", Look())
    message = [words for lane in scene["figure"]["lanes"] if "exchange" in lane["name"] for words in lane["words"]]
    assert any("exchange in the group" in words and "from each member" in words for words in message)
    hatches = {lane["hatch"]["shape"] for lane in scene["figure"]["lanes"] if "exchange" in lane["name"]}
    assert hatches == {"+"}


def test_devices_that_are_groups_have_the_numbers_of_their_members():
    workload = load("gpt-small,tensor-parallel=2", training=True)
    problem = make_problem(workload, Settings(devices=64, devices_per_node=8, mini_batch=64, micro_batches=2))
    plan = solve(problem, EqualSplit()).plan
    assert plan is not None
    devices = view_of(problem, plan)["devices"]
    assert [device["name"] for device in devices[:2]] == ["GPU 0-1", "GPU 2-3"]
    assert len({device["name"] for device in devices}) == len(devices)
    assert {device["members"] for device in devices} == {2}


def test_a_trace_has_exchanges_inside_of_their_actions_and_files_keep_what_they_go_over(exchanging):
    problem, _, plan = exchanging
    file = read_plan(write_plan(problem, plan))
    assert file.problem.group_link == problem.group_link
    assert exchanges(file.problem, plan) == exchanges(problem, plan)
    events = [event for event in json.loads(trace_text(file))["traceEvents"] if event["ph"] == "X"]
    inner = [event for event in events if event["cat"] == "exchange"]
    assert inner
    whole = [event for event in events if event["cat"] == "compute"]
    for event in inner:
        end = event["ts"] + event["dur"]
        around = [
            one for one in whole if one["pid"] == event["pid"] and one["args"]["action"] == event["args"]["action"]
        ]
        assert any(
            one["ts"] + one["dur"] == pytest.approx(end, rel=1e-12) and one["ts"] <= event["ts"] * (1 + 1e-9)
            for one in around
        )


def test_without_groups_nothing_is_exchanged():
    problem = make_problem(load("gpt-small", training=True), Settings(devices=2, mini_batch=8))
    plan = solve(problem, EqualSplit()).plan
    assert plan is not None
    assert exchanges(problem, plan) == {}
    assert "exchange" not in view_of(problem, plan)["breakdown"]
