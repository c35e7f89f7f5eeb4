"""Plans at the level of operators to draw: a lattice of blocks with branches, one stage per forward operator.

A block is a row of operators that fans out into branches and joins again; every forward operator has an
input-gradient operator, every other one a weight gradient and an update.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from solvers.formats.workload import Workload
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.cluster import Cluster, Device, Link, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Problem, Transfers

MIB = 2.0**20
GIB = 2.0**30
KINDS = {Phase.FORWARD: "F", Phase.BACKWARD_INPUT: "I", Phase.BACKWARD_WEIGHT: "W", Phase.UPDATE: "U"}
LONG = 0.4e-4


def lattice(blocks: int = 4, branches: int = 3, length: int = 4) -> OpGraph:
    """``blocks`` times (an entry, ``branches`` rows of ``length`` operators, a join), one after the other."""
    names: list[tuple[str, str]] = []
    pairs: list[tuple[int, int]] = []
    last = -1
    for block in range(blocks):
        path = f"encoder.layers.{block}"
        names.append((f"{path}.norm.entry", f"{path}.norm"))
        entry = len(names) - 1
        if last >= 0:
            pairs.append((last, entry))
        ends = []
        for branch in range(branches):
            before = entry
            for step in range(length):
                names.append((f"{path}.heads.{branch}.op{step}", f"{path}.heads.{branch}"))
                pairs.append((before, len(names) - 1))
                before = len(names) - 1
            ends.append(before)
        names.append((f"{path}.mlp.join", f"{path}.mlp"))
        last = len(names) - 1
        pairs += [(end, last) for end in ends]
    forward = len(names)
    operators = [
        Operator(name, "aten.mm", module_path=path, param_bytes=8 * MIB if i % 2 == 0 else 0.0,
                 saved_bytes=Amount(0.0, 0.25 * MIB)) for i, (name, path) in enumerate(names)
    ]  # fmt: skip
    gradient, weight = {}, {}
    for i in reversed(range(forward)):
        name, path = names[i]
        gradient[i] = len(operators)
        operators.append(Operator(f"{name}.grad", "mm.backward", Phase.BACKWARD_INPUT, path, forward_of=i))
        if i % 2 == 0:
            weight[i] = len(operators)
            operators.append(Operator(f"{name}.weight", "mm.backward", Phase.BACKWARD_WEIGHT, path, forward_of=i))
    size, after = Amount(0.0, 0.5 * MIB), defaultdict(list)
    for a, b in pairs:
        after[a].append(b)
    tensors = [Tensor(a, tuple(targets), size) for a, targets in after.items()]
    before = defaultdict(list)
    for a, b in pairs:
        before[b].append(a)
    for b in range(forward):
        readers = [gradient[a] for a in before[b]] + [weight[a] for a in before[b] if a in weight]
        if readers:
            tensors.append(Tensor(gradient[b], tuple(sorted(readers)), size))
    tensors.append(Tensor(forward - 1, tuple(g[forward - 1] for g in (gradient, weight) if forward - 1 in g), size))
    for i, source in weight.items():
        operators.append(Operator(f"{names[i][0]}.update", "update", Phase.UPDATE, names[i][1], forward_of=i))
        tensors.append(Tensor(source, (len(operators) - 1,)))
    return OpGraph(tuple(operators), tuple(tensors), 1, "lattice")


def lattice_problem(
    devices: int = 4, blocks: int = 4, branches: int = 3, length: int = 4, shared: bool = False,
    transfers: Transfers = Transfers.LINKS, memory_bytes: float = 16 * GIB,
) -> Problem:  # fmt: skip
    """One pass of 16 samples at operator level. shared: one wire for all devices instead of a link a pair."""
    graph = lattice(blocks, branches, length)
    units = {Phase.FORWARD: 1.0, Phase.BACKWARD_INPUT: 1.2, Phase.BACKWARD_WEIGHT: 0.9, Phase.UPDATE: 0.05}
    seconds = np.array([[LONG / 16 * units[o.phase] * (1 + i * 7 % 5)] for i, o in enumerate(graph.operators)])
    cluster = uniform_cluster([Device(f"gpu{i}", "toy", memory_bytes) for i in range(devices)], 100e9, 2e-6)
    if shared:
        links = tuple(Link(li.src, li.dst, li.bandwidth_bytes_per_s, li.latency_s, "PCIe root") for li in cluster.links)
        cluster = Cluster(cluster.devices, links)
    return Problem(
        graph,
        cluster,
        ComputeTable((1,), {"toy": seconds}),
        objective=Objective.MAKESPAN,
        execution=Execution.OPERATOR,
        contiguity=Contiguity.NONE,
        transfers=transfers,
        mini_batch=16,
        micro_batches=1,
    )


def operator_plan(problem: Problem, alone: bool = False) -> Plan:
    """A branch a device in turn; one stage per forward operator with its mirrors, devices in topological order.

    alone: all on the first device, which takes longer."""
    graph, count = problem.graph, len(problem.cluster)
    home: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    for i, operator in enumerate(graph.operators):
        own = i if operator.forward_of is None else operator.forward_of
        members.setdefault(own, []).append(i)
        parts = graph.operators[own].module_path.split(".")
        home[i] = 0 if alone else (int(parts[4]) if "heads" in parts else int(parts[2]) // 2) % count
    stage_of = {o: s for s, own in enumerate(members) for o in members[own]}
    stages = tuple(Stage(tuple(ops), (home[own],), problem.mini_batch) for own, ops in members.items())
    order: list[list[Action]] = [[] for _ in range(count)]
    for o in graph.topological_order:
        order[home[o]].append(Action(stage_of[o], KINDS[graph.operators[o].phase], 0))
    return Plan(stages, tuple(map(tuple, order)), "none")


def lattice_workload(blocks: int = 4, branches: int = 3, length: int = 4) -> Workload:
    graph = lattice(blocks, branches, length)
    return Workload(graph, "lattice", parameters=int(sum(o.param_bytes for o in graph.operators) / 4))
