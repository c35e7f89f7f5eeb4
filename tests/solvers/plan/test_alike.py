"""Replicas that do the same are simulated once: the whole simulation says nothing else."""

from __future__ import annotations

import json
import random
import re
from dataclasses import fields, replace

import numpy as np
import pytest

from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import Metrics, evaluate, judge
from solvers.evaluation.simulation import run, simulate
from solvers.formats.plan_json import read_plan, write_plan
from solvers.plan.alike import MANY, Alike, alike, multiplied
from solvers.plan.plan import Plan
from solvers.plan.schedule import SPAN_KINDS, MemoryCurve, Schedule
from solvers.planners.check import check
from solvers.problem.cluster import Cluster, Device, two_level_cluster
from solvers.problem.links import BETWEEN, INSIDE, LinkClass, Wire, tiers_of
from solvers.problem.problem import Objective, Problem, Transfers
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.instances import problem as make
from tests.instances import training_graph
from tests.oracle.random_plans import random_plan

EXACT = 1e-12


def copies(rng: random.Random, problem: Problem, plan: Plan, times: int) -> tuple[Problem, Plan]:
    """The question, and its plan, on so many times the devices, samples and replicas; links between nodes of any
    sort."""
    one = problem.cluster.devices
    node = [rng.randrange(3) for _ in one]
    every = [(group, device) for group in range(times) for device in range(len(one))]
    every.sort(key=lambda pair: one[pair[1]].is_cpu)
    at = {pair: i for i, pair in enumerate(every)}
    devices = tuple(
        replace(one[device], name=f"{group}.{device}", node=3 * group + node[device]) for group, device in every
    )
    rate = {(a, b): LinkClass(rng.choice([1.0, 4.0]), rng.choice([0.0, 0.1]), rng.choice(BETWEEN))
            for a in range(3) for b in range(3)}  # fmt: skip
    inside = [LinkClass(8.0, 0.01, rng.choice(INSIDE)) for _ in range(3)]
    tiers = tiers_of(
        range(len(devices)), [d.node for d in devices], [d.node % 3 for d in devices],
        inside.__getitem__, lambda a, b: rate[a, b],
    )  # fmt: skip
    whole = replace(
        problem, cluster=Cluster(devices, tiers), mini_batch=problem.mini_batch * times, max_replicas=64,
        objective=Objective.ITERATION, transfers=Transfers.LINKS, zero=rng.choice((0, 0, 1, 2, 3)), pins={},
    )  # fmt: skip
    if rng.random() < 0.3:  # all links as fast as each other: then also what halves of transfers occupy
        whole = replace(whole, cluster=whole.cluster.at_speed(0.1, 4.0), transfers=rng.choice(list(Transfers)))
    groups = [[at[group, device] for device in range(len(one))] for group in range(times)]
    return whole, multiplied(replace(plan, messages=()), groups, len(devices), times)


def drawn(seed: int) -> tuple[Problem, Plan] | None:
    rng = random.Random(seed)
    case = random_plan(seed)
    return None if case is None else copies(rng, *case, rng.choice([2, 3, 4]))


def check_alike(whole: Problem, plan: Plan, same: Alike, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is said of the plan is what the plan itself says, every device simulated."""
    monkeypatch.setattr("solvers.plan.alike.MANY", 10**6)
    every, unfolded = run(whole, plan, fold=False), evaluate(whole, plan)
    monkeypatch.setattr("solvers.plan.alike.MANY", 0)
    some, folded, schedule = run(whole, plan), evaluate(whole, plan), simulate(whole, plan)
    assert len(some.groups) == len(same.groups) == len(schedule.alike[0])
    assert some.makespan_s == pytest.approx(every.makespan_s, rel=EXACT)
    assert some.peak_bytes() == pytest.approx(every.peak_bytes(), rel=EXACT)
    assert some.busy_per_device_s() == pytest.approx(every.busy_per_device_s(), rel=EXACT)
    assert {d for others in schedule.alike for d in others} == set(plan.devices_used())
    for name in (field.name for field in fields(Metrics)):
        assert getattr(folded, name) == pytest.approx(getattr(unfolded, name), rel=EXACT, abs=1e-15), name
    own = every.schedule()
    assert schedule.peak_bytes() == pytest.approx(own.peak_bytes(), rel=EXACT)
    assert schedule.busy_per_device_s() == pytest.approx(own.busy_per_device_s(), rel=EXACT)
    assert check(whole, plan) == verify(whole, plan, own)


@pytest.mark.parametrize("block", range(8))
def test_the_first_group_does_what_all_do(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for seed in range(block * 40, block * 40 + 40):
        case = drawn(seed)
        if case is None:
            continue
        same = alike(*case, least=0)
        if same is not None:
            check_alike(*case, same, monkeypatch)
            compared += 1
    assert compared >= 3


def many(nodes: int = 16, each: int = 8, *, chain: bool = False) -> tuple[Problem, Plan]:
    """Two stages on half of the devices each; chain: stages on neighbours inside nodes."""
    devices = tuple(Device(f"GPU {i}", "gpu", node=i // each) for i in range(nodes * each))
    cluster, half = two_level_cluster(devices, 8.0, 0.01, 1.0, 0.1), nodes * each // 2
    graph = training_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=3.0, param_bytes=5.0, saved=1.0)
    p = make(graph, [1, 2, 3, 1] * 2, mini_batch=8 * half, micro_batches=4, max_replicas=half)
    p = replace(p, cluster=cluster)
    first, second = tuple(range(half)), tuple(range(half, 2 * half))
    if chain:
        first, second = tuple(range(0, 2 * half, 2)), tuple(range(1, 2 * half, 2))
    return p, assemble(p, [first, first, second, second] * 2, 4)


def test_the_judge_looks_at_one_group_of_many_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = many()
    same = alike(problem, plan)
    assert len(problem.cluster) > MANY
    assert same is not None
    assert len(same.groups) == 8
    assert judge(problem, plan).objective_s == pytest.approx(run(problem, plan, fold=False).makespan_s, rel=EXACT)
    check_alike(problem, plan, same, monkeypatch)


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("transfers", Transfers)
def test_zero_and_all_transfers_of_links_as_fast_as_each_other_are_simulated_once(
    zero: int, transfers: Transfers, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, plan = many(4)
    cluster = problem.cluster if transfers is Transfers.LINKS else problem.cluster.at_speed(0.1, 4.0)
    problem = replace(problem, cluster=cluster, transfers=transfers, zero=zero)
    same = alike(problem, plan, least=0)
    assert same is not None
    check_alike(problem, plan, same, monkeypatch)


@pytest.mark.parametrize("what", ["order", "memory", "node", "wires", "stage"])
def test_groups_that_differ_are_not_alike(what: str) -> None:
    problem, plan = many()
    cluster = problem.cluster
    if what == "order":
        plan = replace(plan, order=(tuple(reversed(plan.order[0])), *plan.order[1:]))
    elif what == "memory":
        problem = replace(problem, cluster=replace(cluster, devices=(
            replace(cluster.devices[0], memory_bytes=1e3), *cluster.devices[1:])))  # fmt: skip
    elif what == "node":
        nodes = [0, *(device.node + 1 for device in cluster.devices[1:])]
        pair = LinkClass(1.0, 0.0, Wire.PAIR)
        tiers = tiers_of(range(128), nodes, [0] * 128, lambda _: pair, lambda *_: pair)
        problem = replace(problem, cluster=Cluster(cluster.devices, tiers))
    elif what == "wires":
        problem = replace(problem, transfers=Transfers.DUPLEX)
    else:
        first = plan.stages[0]
        plan = replace(
            plan, stages=(replace(first, devices=(8, *first.devices[1:8], 0, *first.devices[9:])), *plan.stages[1:])
        )
    assert alike(problem, plan) is None


FAULTS = {
    "another order": "has other actions",
    "less memory": "is another",
    "another memory curve": "has another memory curve",
    "a slower link": "is not as fast",
    "a shared wire": "is not used as that",
    "a device of another group": "not on the same devices",
    "a device twice": "each once",
    "fewer of one": "cannot share micro-batches",
    "one pass": "more than links and samples",
    "a faster ring": "is missing|takes",
    "no memory of the last": "the memory of 127",
}


def with_fault(what: str, problem: Problem, plan: Plan, schedule: Schedule) -> tuple[Problem, Plan, Schedule]:
    """Something of one of the devices that do the same, or of what is said of them, made wrong."""
    cluster, last = problem.cluster, len(problem.cluster) - 1
    match what:
        case "another order":
            plan = replace(plan, order=(*plan.order[:last], tuple(reversed(plan.order[last]))))
        case "less memory":
            poor = replace(cluster.devices[last], memory_bytes=1e12)
            problem = replace(problem, cluster=Cluster((*cluster.devices[:last], poor), cluster.links))
        case "another memory curve":
            curve = MemoryCurve((0.0,), (1.0,), schedule.memory[last].static_bytes)
            schedule = replace(schedule, memory=(*schedule.memory[:last], curve))
        case "a slower link" | "a shared wire":
            rates = {True: LinkClass(8.0, 0.01, Wire.PAIR), False: LinkClass(8.0, 0.01, Wire.HOST)}
            if what == "a slower link":
                rates[False] = LinkClass(7.0, 0.01, Wire.PAIR)
            between = LinkClass(1.0, 0.1, Wire.NODES)
            nodes = [device.node for device in cluster.devices]
            groups = [int(node == nodes[last]) for node in nodes]
            tiers = tiers_of(range(last + 1), nodes, groups, lambda group: rates[group == 0], lambda *_: between)
            problem = replace(problem, cluster=Cluster(cluster.devices, tiers))
        case "a device of another group":
            first, second = schedule.alike[:2]
            swapped = ((*first[:-1], second[-1]), (*second[:-1], first[-1]))
            schedule = replace(schedule, alike=(*swapped, *schedule.alike[2:]))
        case "a device twice":
            first = schedule.alike[0]
            schedule = replace(schedule, alike=((*first[:-1], first[-2]), *schedule.alike[1:]))
        case "fewer of one":
            schedule = replace(schedule, alike=(schedule.alike[0][:-1], *schedule.alike[1:]))
        case "one pass":
            problem = replace(problem, objective=Objective.MAKESPAN)
        case "a faster ring":
            columns = schedule.columns
            end = np.where(columns.kind == SPAN_KINDS.index("S"), columns.end_s - 0.01, columns.end_s)
            schedule = replace(schedule, columns=columns._replace(end_s=end))
        case "no memory of the last":
            schedule = replace(schedule, memory=schedule.memory[:last])
    return problem, plan, schedule


@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_of_one_of_many_that_do_the_same_is_noticed(what: str, zero: int) -> None:
    problem, plan = many(chain=True)
    problem = replace(problem, zero=zero)
    schedule = simulate(problem, plan)
    assert schedule.alike
    assert verify(problem, plan, schedule) == ()
    faults = verify(*with_fault(what, problem, plan, schedule))
    assert re.search(FAULTS[what], " ".join(faults)), faults


def test_a_plan_file_names_devices_that_do_the_same_as_one() -> None:
    problem, plan = many()
    text = write_plan(problem, plan)
    value = json.loads(text)
    assert value["version"] == 3
    assert [stage["devices"] for stage in value["plan"]["stages"]] == [["0-63"], ["64-127"]]
    assert [row["devices"] for row in value["plan"]["order"]] == [["0-63"], ["64-127"]]
    file = read_plan(text)
    assert file.plan == plan
    assert file.problem.cluster == problem.cluster


@pytest.mark.parametrize(
    ("devices", "message"),
    [(["0-128"], "a run"), (["0-5", 5], "every device once"), ([128], "an integer from 0 to 127")],
)
def test_a_spoiled_order_of_many_devices_is_refused(devices: list, message: str) -> None:
    value = json.loads(write_plan(*many()))
    value["plan"]["order"][0]["devices"] = devices
    with pytest.raises(InvalidProblem, match=message):
        read_plan(json.dumps(value))
