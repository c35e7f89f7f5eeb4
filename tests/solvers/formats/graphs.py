"""Random workloads and plans for round trips."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from solvers.formats.workload import Workload
from solvers.plan.order_check import KINDS_OF
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.cluster import Cluster, Device, two_level_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Execution, Objective, Optimizer, Precision, Problem, Transfers
from solvers.problem.regions import recomputing

sizes = st.one_of(st.integers(0, 2**50).map(float), st.floats(0, 1e18, allow_nan=False))
amounts = st.builds(Amount, sizes, sizes)
names = st.text(max_size=8)


@st.composite
def operators(draw: st.DrawFn, position: int) -> Operator:
    backward = position > 0 and draw(st.booleans())
    params = draw(sizes)
    frozen = draw(st.sampled_from([0.0, params]))
    return Operator(
        f"{draw(names)}#{position}",
        draw(names),
        draw(st.sampled_from([Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT, Phase.UPDATE]))
        if backward
        else Phase.FORWARD,
        draw(names),
        draw(amounts),
        draw(amounts),
        params,
        frozen,
        draw(st.sampled_from([0.0, (params - frozen) / 2])),
        draw(amounts),
        draw(amounts),
        draw(st.none() | names),
        0 if backward else None,
        draw(st.booleans()),
        draw(st.sampled_from(["", "", "layers.0", "layers.1"])),
        draw(st.booleans()),
    )


@st.composite
def graphs(draw: st.DrawFn) -> OpGraph:
    count = draw(st.integers(1, 6))
    tensors = []
    for _ in range(draw(st.integers(0, 6))):
        producer = draw(st.integers(0, count - 1))
        after = list(range(producer + 1, count))
        consumers = draw(st.lists(st.sampled_from(after), unique=True)) if after else []
        shape = tuple(draw(st.lists(st.integers(0, 2**40), max_size=3)))
        tensors.append(Tensor(producer, tuple(consumers), draw(amounts), shape, draw(names)))
    made = tuple(draw(operators(i)) for i in range(count))
    return OpGraph(made, tuple(tensors), draw(st.integers(1, 512)), draw(names))


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    memory = st.one_of(st.just(float("inf")), st.floats(1, 1e15))
    devices = [Device(draw(names), "gpu", draw(memory), draw(memory), draw(memory), 1, i % 2) for i in range(3)]
    devices += [Device("host", "cpu", concurrency=None)] if draw(st.booleans()) else []
    rate = draw(st.one_of(st.just(float("inf")), st.floats(1, 1e12)))
    return two_level_cluster(devices, rate, draw(st.floats(0, 1)), 1e9, 1e-5)


@st.composite
def tables(draw: st.DrawFn, count: int) -> ComputeTable:
    samples = tuple(sorted(draw(st.sets(st.integers(1, 4096), min_size=1, max_size=3))))
    cell = st.one_of(st.just(float("inf")), st.floats(0, 1e6))
    row = st.lists(cell, min_size=len(samples), max_size=len(samples))
    table = st.lists(row, min_size=count, max_size=count).map(lambda rows: np.array(rows, np.float64))
    return ComputeTable(samples, {"gpu": draw(table), "cpu": draw(table)})


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    graph = draw(graphs())
    return Workload(
        graph,
        draw(names),
        draw(st.none() | tables(len(graph))),
        draw(st.none() | st.tuples(*[sizes] * len(graph.tensors))),
        draw(st.none() | st.tuples(*[sizes] * len(graph))),
        draw(st.none() | clusters()),
        draw(st.booleans()),
        draw(st.sampled_from(Objective)),
        draw(st.sampled_from(Transfers)),
        draw(st.sampled_from(Execution)),
        draw(names),
        draw(st.none() | st.integers(0, 2**50)),
        tuple(draw(st.lists(names, max_size=2))),
    )


@st.composite
def planned(draw: st.DrawFn) -> tuple[Problem, Plan]:
    """A problem, and a plan whose order is whole (whether it keeps the rules is another matter)."""
    graph = draw(graphs())
    cluster = draw(clusters())
    micro = draw(st.sampled_from([1, 2, 4]))
    problem = Problem(
        graph,
        cluster,
        draw(tables(len(graph))),
        objective=draw(st.sampled_from(Objective)),
        stated_bytes=draw(st.none() | st.tuples(*[sizes] * len(graph))),
        mini_batch=8,
        micro_batches=draw(st.none() | st.just(micro)),
        pins=draw(st.dictionaries(st.integers(0, len(graph) - 1), st.integers(0, len(cluster) - 1))),
        optimizer=draw(st.sampled_from(Optimizer)),
        precision=draw(st.sampled_from(Precision)),
        zero=draw(st.integers(0, 3)),
        costs_from=draw(names),
    )
    if draw(st.booleans()):
        problem = recomputing(problem)
    stages = tuple(Stage((i,), (i % len(cluster),), 8 // micro, i + 1) for i in range(len(graph)))
    kinds = [KINDS_OF[operator.phase][0] for operator in graph.operators]
    order = tuple(
        tuple(
            Action(s, kinds[s], j)
            for s, stage in enumerate(stages)
            if d in stage.devices
            for j in range(1 if kinds[s] == "U" else micro)
        )
        for d in range(len(cluster))
    )
    return problem, Plan(stages, order, draw(names))
