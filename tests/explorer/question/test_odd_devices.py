"""Every planner on clusters whose devices or links differ: it works, or says why it cannot."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from explorer.jobs.comparison import compare, entries
from explorer.view.comparison import FAILED, UNSUPPORTED, contradictions
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Device, Link, Wires, uniform_cluster
from solvers.problem.problem import ComputeTable, Contiguity, Objective, Problem, Transfers
from solvers.problem.static_sizes import static_sizes
from tests.instances import forward_graph, problem
from tests.random_problems import random_graph

LIMIT_S = 0.1
"""For each planner; most need a few milliseconds."""
FAST, SLOW, CPU = "fast", "slow", "cpu"


def cluster(*kinds: str, caps: tuple[float, ...] = (), wires: Wires = Wires.DEDICATED) -> Cluster:
    padded = (*caps, *[math.inf] * (len(kinds) - len(caps)))
    devices = tuple(Device(f"{kind} {i}", kind, cap) for i, (kind, cap) in enumerate(zip(kinds, padded, strict=True)))
    return uniform_cluster(devices, 2.0, 0.25, wires)


def line(*kinds: str) -> Cluster:
    """Each device is joined to its neighbours only, by one wire in all."""
    devices = tuple(Device(f"{kind} {i}", kind) for i, kind in enumerate(kinds))
    pairs = [(a, a + 1) for a in range(len(kinds) - 1)]
    return Cluster(devices, tuple(Link(s, d, 2.0, 0.25, "wire") for a, b in pairs for s, d in ((a, b), (b, a))))


CLUSTERS = {
    "mixed": cluster(FAST, SLOW),
    "mixed, CPU, shared wire": cluster(FAST, SLOW, FAST, CPU, wires=Wires.SHARED),
    "CPU beside equal ones": cluster(FAST, FAST, CPU),
    "CPUs alone": cluster(CPU, CPU, wires=Wires.SHARED),
    "unequal caps": cluster(FAST, FAST, FAST, caps=(60.0, 140.0, 90.0)),
    "mixed with unequal caps": cluster(SLOW, FAST, CPU, caps=(90.0, 120.0), wires=Wires.SHARED),
    "a line": line(FAST, FAST, FAST),
    "a line of kinds": line(SLOW, FAST, CPU),
    "one way": Cluster((Device("a", FAST), Device("b", FAST)), (Link(0, 1, 2.0),)),
    "no links": Cluster((Device("a", FAST), Device("b", SLOW))),
}


def random_problem(name: str, seed: int, training: bool, **options: object) -> Problem:
    """Six forward operators, one of which no slow device and another of which no CPU can run."""
    rng = random.Random(seed)
    graph = random_graph(rng, 6, training)
    fast = np.array([float(rng.randint(1, 9)) for _ in range(len(graph))])
    slow, cpu = fast * 2.5, fast * rng.choice((1, 6))
    mirror = [i if o.forward_of is None else o.forward_of for i, o in enumerate(graph.operators)]
    free = [o.colocation is None for o in graph.operators]
    if any(device.kind == FAST for device in CLUSTERS[name].devices):
        slow[[i for i, m in enumerate(mirror) if m == 1 and free[1]]] = math.inf
        cpu[[i for i, m in enumerate(mirror) if m == 2 and free[2]]] = math.inf
    table = ComputeTable((1,), {FAST: fast[:, None], SLOW: slow[:, None], CPU: cpu[:, None]})
    settings = {"mini_batch": 2, "training": training, "objective": Objective.MAKESPAN, "contiguity": Contiguity.NONE}
    return Problem(graph, CLUSTERS[name], table, **(settings | options))  # type: ignore[arg-type]


@pytest.mark.first(4)
@pytest.mark.parametrize(
    ("name", "transfers"),
    [
        *((name, Transfers.LINKS) for name in CLUSTERS),
        ("mixed, CPU, shared wire", Transfers.LANE),
        ("a line", Transfers.LANE),
    ],
)
def test_every_planner_of_one_pass_works_or_says_why_not(name: str, transfers: Transfers) -> None:
    training = transfers is Transfers.LINKS
    rows = []
    for compared in compare(entries(random_problem(name, 3, training, transfers=transfers)), time_limit_s=LIMIT_S):
        rows.append(compared.row)
        assert compared.row.status != FAILED, compared.row.reason
        if compared.row.status == UNSUPPORTED:
            assert compared.row.reason
            assert "\n" not in compared.row.reason
        elif compared.result is not None and compared.result.plan is not None:
            assert check(compared.entry.problem, compared.result.plan) == ()
            assert compared.result.bound_s <= compared.result.objective_s
    assert contradictions(rows) == []
    assert any(row.has_plan for row in rows)


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("mixed, CPU, shared wire", Objective.MAX_LOAD),
        ("mixed, CPU, shared wire", Objective.ITERATION),
        ("unequal caps", Objective.MAX_LOAD),
        ("a line", Objective.ITERATION),
        ("one way", Objective.MAX_LOAD),
        ("no links", Objective.ITERATION),
    ],
)
def test_every_planner_of_pipelines_works_or_says_why_not(name: str, objective: Objective) -> None:
    p = random_problem(name, 5, True, objective=objective, contiguity=Contiguity.ACYCLIC)
    rows = [compared.row for compared in compare(entries(p), time_limit_s=LIMIT_S)]
    assert [row.reason for row in rows if row.status == FAILED] == []
    assert contradictions(rows) == []


@pytest.mark.parametrize("name", ["mixed, CPU, shared wire", "a line of kinds", "unequal caps"])
def test_static_sizes_are_kept_to_by_every_planner(name: str) -> None:
    p = random_problem(name, 7, True)
    held = np.array(static_sizes(p))
    caps = (0.7 * held.sum(), 0.6 * held.sum(), 0.5 * held.sum())
    devices = tuple(
        replace(d, memory_bytes=caps[i] if not d.is_cpu else math.inf) for i, d in enumerate(p.cluster.devices)
    )
    p = replace(p, cluster=replace(p.cluster, devices=devices), stated_bytes=static_sizes(p))
    plans = [c.result.plan for c in compare(entries(p), time_limit_s=LIMIT_S) if c.result is not None]
    assert any(plan is not None for plan in plans)
    for plan in plans:
        if plan is not None:
            assert check(p, plan) == ()
            where = plan.placement()
            for d, device in enumerate(devices):
                assert sum(held[o] for o, on in where.items() if on == (d,)) <= device.memory_bytes * (1 + 1e-9)


@pytest.mark.parametrize("caps", [(3.0, 1.0), (1.0, 3.0)])
def test_auto_has_a_plan_where_only_one_device_holds_most(caps: tuple[float, float]) -> None:
    """Four operators of one byte in a chain: three fit on one device, one on the other."""
    p = problem(forward_graph([(0, 1), (1, 2), (2, 3)], 4), [1] * 4, 2, objective=Objective.MAX_LOAD, training=False)
    devices = tuple(replace(d, memory_bytes=cap) for d, cap in zip(p.cluster.devices, caps, strict=True))
    p = replace(p, cluster=replace(p.cluster, devices=devices), stated_bytes=(1.0,) * 4)
    assert solve(p, "auto", time_limit_s=5).objective_s == 3
