"""What idle devices wait for: chains without holes, each link a real one, against the tasks as they were lowered."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from explorer.view.instants.played import SpanWords, course
from explorer.view.instants.waits import LAST, chain, chain_columns, legs, wait_at, wait_view
from solvers.errors import InvalidPlan, NoLink
from solvers.evaluation.simulation import run
from solvers.problem.problem import Transfers
from solvers.schedules.assemble import assemble
from solvers.schedules.realise import realise
from tests.explorer.view.lattice import lattice_problem, operator_plan
from tests.explorer.view.small import branches_problem, chain_problem, drafted, even_plan
from tests.random_problems import random_draft, random_placement, random_problem, random_two_level_problem

SAME = 1e-9


def planned(seed):
    """Random plans: any transfers, contiguity, execution and objective; with replicas on several nodes."""
    rng = random.Random(seed)
    p = random_problem(seed)
    for _ in range(3):
        try:
            yield p, assemble(p, random_placement(rng, p), rng.choice(p.micro_batch_choices()))
        except InvalidPlan:
            continue
    p = random_two_level_problem(seed)
    for _ in range(3):
        try:
            yield p, realise(p, random_draft(rng, p))
        except (InvalidPlan, NoLink):
            continue


def simulated(problem, plan):
    """The course of a plan, and per span what it waits for (by the tasks that it was lowered to)."""
    simulation = run(problem, plan)
    order = simulation.by_time.tolist()
    place = {task: i for i, task in enumerate(order)}
    tasks = simulation.lowered.tasks
    needs = [[] for _ in order]
    for task in order:
        for after in tasks.after[tasks.after_start[task] : tasks.after_start[task + 1]].tolist():
            needs[place[after]].append(place[task])
    played = course(simulation.schedule())
    assert played is not None
    return played, needs


def idle_times(played, device):
    """Where no span is on a device, by looking at every instant at which anything changes."""
    times = [(a, b) for a, b, on in zip(played["start_s"], played["end_s"], played["on"], strict=True) if on == device]
    if not times:
        return []
    edges = sorted({0.0, played["span_s"], *(t for pair in times for t in pair)})
    return [(a, b) for a, b in pairwise(edges) if b - a > SAME and not any(s < (a + b) / 2 < e for s, e in times)]


@pytest.mark.parametrize("seed", range(60))
def test_every_idle_time_has_a_chain_whose_links_end_where_the_next_begin(seed):
    for problem, plan in planned(seed):
        played, _ = simulated(problem, plan)
        for device in range(len(problem.cluster)):
            for start, end in idle_times(played, device):
                wait = wait_at(played, device, (start + end) / 2)
                assert wait is not None
                assert (wait.start_s, wait.end_s) == pytest.approx((start, end), abs=SAME)
                first = played["end_s"][wait.chain[0]]
                assert first == pytest.approx(wait.end_s, abs=SAME)
                for later, earlier in pairwise(wait.chain):
                    assert played["end_s"][earlier] == pytest.approx(played["start_s"][later], abs=SAME)
                assert played["start_s"][wait.chain[-1]] == 0.0
                after = [i for i, on in enumerate(played["on"]) if on == device and played["start_s"][i] >= end - SAME]
                assert (wait.before == LAST) == (not after)
                if after:
                    assert played["start_s"][wait.before] == pytest.approx(end, abs=SAME)
                grouped = legs(played, wait.chain)
                assert [i for leg in grouped for i in reversed(leg.spans)] == list(wait.chain)
                assert sum(leg.end_s - leg.start_s for leg in grouped) == pytest.approx(wait.end_s)


@pytest.mark.parametrize("seed", range(60))
def test_every_link_is_a_dependency_or_the_span_that_left_the_resource_and_nothing_could_start_earlier(seed):
    for problem, plan in planned(seed):
        played, needs = simulated(problem, plan)
        starts, ends, resource = played["start_s"], played["end_s"], played["resource"]
        shared = {f"device {i}" for i, d in enumerate(problem.cluster.devices) if d.is_cpu or d.concurrency is None}
        for i in range(len(starts)):
            ready = max((ends[k] for k in needs[i]), default=0.0)
            assert played["ready_s"][i] == pytest.approx(ready, abs=SAME)
            cause = played["cause"][i]
            if cause < 0:
                assert starts[i] == 0.0
                continue
            assert ends[cause] == pytest.approx(starts[i], abs=SAME)
            assert cause in needs[i] or resource[cause] == resource[i]
            if starts[i] > ready + SAME:  # until then others had its device or link
                assert played["resources"][resource[i]] not in shared
                taken = sum(
                    min(ends[k], starts[i]) - max(starts[k], ready)
                    for k in range(len(starts))
                    if k != i and resource[k] == resource[i] and ends[k] > ready and starts[k] < starts[i]
                )
                assert taken == pytest.approx(starts[i] - ready, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_a_busy_device_waits_for_nothing_and_one_without_work_has_no_chain(seed):
    for problem, plan in planned(seed):
        played, _ = simulated(problem, plan)
        for device in range(len(problem.cluster)):
            spans = [i for i, on in enumerate(played["on"]) if on == device]
            for i in spans:
                assert wait_at(played, device, (played["start_s"][i] + played["end_s"][i]) / 2) is None
            if not spans:
                assert wait_at(played, device, played["span_s"] / 2) is None


def words(played, devices=4, operators=()):
    return SpanWords(played, [f"GPU {i}" for i in range(devices)], operators)


def test_idle_from_the_start_is_the_pipeline_filling():
    problem = chain_problem()
    played, _ = simulated(problem, even_plan(problem))
    wait = wait_at(played, 2, 0.0)
    assert [(played["device"][i], played["kind"][i], played["micro_batch"][i]) for i in wait.chain] == [
        (1, "T", 0), (1, "F", 0), (0, "T", 0), (0, "F", 0)]  # fmt: skip
    message = wait_view(played, wait, words(played))
    assert message["title"] == "GPU 2 idle 10.3 ms"
    assert message["when"] == "0 s to 10.3 ms, before forward 0"
    assert message["sentence"] == (
        "GPU 2 idle 10.3 ms before forward 0: waits for activations of micro-batch 0 from GPU 1, which waits for"
        " forward 0 on GPU 1; 2 steps before that"
    )
    assert message["started"] == "Started by GPU 0, forward 0, at 0 s."
    assert message["steps"][0] == {
        "kind": "transfer", "device": 1, "words": "activations of micro-batch 0, GPU 1 → 2", "note": "8 MiB",
        "start_s": pytest.approx(0.00994054432), "seconds": pytest.approx(0.00034054432)}  # fmt: skip


def test_idle_after_the_last_work_waits_for_the_end_of_the_schedule():
    problem = chain_problem()
    played, _ = simulated(problem, even_plan(problem))
    wait = wait_at(played, 3, played["span_s"] * (1 - 1e-6))
    assert wait.before == LAST
    assert (played["device"][wait.chain[0]], played["kind"][wait.chain[0]]) == (0, "B")
    assert played["end_s"][wait.chain[0]] == played["span_s"] == wait.end_s
    assert (
        "after its last work: the schedule ends with backward 7 on GPU 0"
        in wait_view(played, wait, words(played))["sentence"]
    )


def test_a_transfer_says_how_long_it_queued_for_its_link():
    problem = chain_problem()
    slow = tuple(replace(link, bandwidth_bytes_per_s=1e9) for link in problem.cluster.links)
    problem = replace(problem, cluster=replace(problem.cluster, links=slow))
    played, _ = simulated(problem, even_plan(problem))
    queued = [
        i for i, kind in enumerate(played["kind"]) if kind == "T" and played["start_s"][i] > played["ready_s"][i] + 1e-6
    ]
    assert queued
    for i in queued:
        behind = played["cause"][i]
        assert played["resource"][behind] == played["resource"][i]
        (leg, *_) = legs(played, chain(played, i))
        assert leg.queued_s == pytest.approx(played["start_s"][i] - played["ready_s"][i])
    notes = [
        step["note"]
        for device in range(4)
        for a, b in idle_times(played, device)
        for step in wait_view(played, wait_at(played, device, (a + b) / 2), words(played))["steps"]
    ]
    assert any("queued" in note and "for GPU 0 → 1" in note for note in notes)


def test_an_update_waits_for_the_all_reduce_of_the_gradients():
    problem = replace(branches_problem(7), recompute=False)
    plan = drafted(problem, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12]], {0: 2, 1: 2})
    played, _ = simulated(problem, plan)
    syncs = [i for i, of in enumerate(played["of"]) if of == "S"]
    assert syncs
    last = max(syncs, key=lambda i: played["end_s"][i])
    waiting = [
        wait
        for device in range(7)
        for a, b in idle_times(played, device)
        if last in (wait := wait_at(played, device, (a + b) / 2)).chain
    ]
    assert waiting
    steps = wait_view(played, waiting[0], words(played, 7))["steps"]
    assert any(step["kind"] == "sync" and step["words"].startswith("all-reduce of the gradients") for step in steps)


def test_single_operators_are_named():
    problem = lattice_problem()
    played, _ = simulated(problem, operator_plan(problem))
    names = [operator.name for operator in problem.graph.operators]
    device, (a, b) = next((d, gap) for d in range(4) for gap in idle_times(played, d) if gap[0] > 0)
    wait = wait_at(played, device, (a + b) / 2)
    message = wait_view(played, wait, words(played, 4, names))
    assert names[played["operator"][wait.before]] in message["when"]


def test_devices_that_are_busy_with_transfers_are_not_idle():
    problem = replace(chain_problem(), transfers=Transfers.BLOCKING)
    played, _ = simulated(problem, even_plan(problem))
    sending = next(i for i, kind in enumerate(played["kind"]) if kind == "T" and played["on"][i] == played["device"][i])
    middle = (played["start_s"][sending] + played["end_s"][sending]) / 2
    assert wait_at(played, played["on"][sending], middle) is None
    assert words(played).state(sending, played["on"][sending]) == "sends activations of micro-batch 0"


def test_the_chain_is_drawn_in_time_order_without_holes():
    problem = chain_problem()
    played, _ = simulated(problem, even_plan(problem))
    drawn = chain_columns(played, wait_at(played, 3, 0.0))
    assert drawn["device"] == [0, 0, 1, 1, 2, 2]
    assert drawn["resource"] == ["", "0->1", "", "1->2", "", "2->3"]
    assert drawn["start_s"][1:] == pytest.approx(drawn["end_s"][:-1])
