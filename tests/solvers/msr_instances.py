"""Random tiny dnn-partitioning files, the published ones, and a planner's answer evaluated from first principles."""

from __future__ import annotations

import functools
import json
import math
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from solvers.formats.msr2020 import read_msr2020
from solvers.formats.workload import Workload
from solvers.problem.cluster import uniform_cluster
from solvers.problem.problem import Problem

SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[3] / "shared"))
FOLDER = SHARED / "workloads" / "msr2020"
needs_workloads = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"the published workloads are not at {FOLDER}; set SHARED to the folder that has them"
)


@functools.cache
def references() -> dict:
    return json.loads((FOLDER / "reference.json").read_text())["throughput"] if FOLDER.is_dir() else {}


@functools.cache
def published(name: str) -> Workload:
    path = FOLDER / "throughput" / f"{name}.json"
    return read_msr2020(path.read_text(), str(path))


def as_problem(workload: Workload, accelerators=None, cpus=None, memory_bytes=None, **options) -> Problem:
    """The problem a file states, with another number of devices or another cap if given."""
    all_devices = workload.cluster.devices
    acc = [d for d in all_devices if not d.is_cpu]
    cpu = [d for d in all_devices if d.is_cpu]
    if accelerators is not None:
        acc = [replace(acc[0], name=f"GPU {i}") for i in range(accelerators)]
    if memory_bytes is not None:
        acc = [replace(d, memory_bytes=memory_bytes) for d in acc]
    if cpus is not None:
        cpu = cpu[:cpus]
    stated = {
        "objective": workload.objective,
        "transfers": workload.transfers,
        "execution": workload.execution,
        "transfer_s": workload.transfer_s,
        "stated_bytes": workload.stated_bytes,
        "training": workload.training,
    }
    return Problem(workload.graph, uniform_cluster((*acc, *cpu), math.inf), workload.compute, **(stated | options))


def random_file(seed: int, cpus: int, mirrored: bool = True) -> dict:
    """At most 7 groups: shared colours, orphan backward operators, free operators, caps, no-accelerator operators.

    mirrored: backward operators that have a forward sibling feed each other only against forward edges.
    """
    rng = random.Random(seed)
    forward = rng.randint(2, 6)
    colour = {i: rng.randrange(forward) if rng.random() < 0.3 else i for i in range(forward)}
    backward = rng.choice([0, 0, 2, 3, 4])
    orphans = rng.randint(0, min(backward, 7 - len(set(colour.values()))))
    for i in range(backward):
        colour[forward + i] = 100 + i if i < orphans else rng.randrange(forward)
    nodes = []
    for i in range(forward + backward):
        free = rng.random() < 0.3
        node = {
            "id": 10 + i,
            "name": f"op{i % 4}",
            "supportedOnFpga": rng.random() > (0.15 if cpus else 0.02),
            "fpgaLatency": 0 if free else rng.randint(1, 9),
            "cpuLatency": 0 if free else rng.randint(5, 30),
            "isBackwardNode": i >= forward,
            "size": rng.randint(0, 4),
        }
        if (
            i >= forward
            or colour[i] != i
            or rng.random() < 0.7
            or colour[i] in [c for j, c in colour.items() if j != i]
        ):
            node["colorClass"] = colour[i]
        nodes.append(node)
    cost = [rng.choice([0, 1, 2, 5]) for _ in nodes]
    edges, joined = [], set()
    for u in range(len(nodes)):
        for v in range(u + 1, len(nodes)):
            allowed = u < forward or not mirrored or colour[u] >= 100 or colour[v] >= 100
            allowed = allowed or colour[u] == colour[v] or (colour[v], colour[u]) in joined
            if allowed and rng.random() < 0.35:
                if v < forward:
                    joined.add((colour[u], colour[v]))
                edges.append({"sourceId": 10 + u, "destId": 10 + v, "cost": cost[u]})
    accelerators = rng.randint(1 if cpus else 2, 3)
    cap = rng.choice([1000, max(n["size"] for n in nodes) + sum(n["size"] for n in nodes) // accelerators])
    return {"maxFPGAs": accelerators, "maxCPUs": cpus, "maxSizePerFPGA": max(cap, 1), "nodes": nodes, "edges": edges}


def best_max_load_ms(file: dict, contiguous: bool = True) -> float:
    """The least max-load over chains of downsets (or any sets), from the definition alone; inf if none fits.

    Any set of groups closed under predecessors counts, so neither cycles between groups nor trivial
    operators need treatment; every operator's transfers are counted per device.
    """
    nodes, edges = file["nodes"], [(e["sourceId"], e["destId"], e["cost"]) for e in file["edges"]]
    group = {n["id"]: n.get("colorClass", ("own", n["id"])) for n in nodes}
    backward = {n["id"]: n["isBackwardNode"] for n in nodes}
    names = sorted(set(group.values()), key=str)
    with_forward = {group[n["id"]] for n in nodes if not n["isBackwardNode"]}
    order = set()
    for u, v, _ in edges:
        if not backward[u] and not backward[v]:
            order.add((group[u], group[v]))
        elif backward[u] and backward[v] and not {group[u], group[v]} <= with_forward:
            order.add((group[v], group[u]))
    bit = {name: 1 << i for i, name in enumerate(names)}
    full = (1 << len(names)) - 1
    downsets = [s for s in range(full + 1) if not contiguous or all(s & bit[a] or not s & bit[b] for a, b in order)]

    @functools.cache
    def loads(part: int) -> tuple[float, float]:
        inside = {n["id"] for n in nodes if part & bit[group[n["id"]]]}
        members = [n for n in nodes if n["id"] in inside]
        cpu = sum(n["cpuLatency"] for n in members)
        if not all(n["supportedOnFpga"] for n in members) or sum(n["size"] for n in members) > file["maxSizePerFPGA"]:
            return math.inf, cpu
        received = {(u, w) for u, v, w in edges if u not in inside and v in inside}
        sent = {(u, w) for u, v, w in edges if u in inside and v not in inside}
        return sum(n["fpgaLatency"] for n in members) + sum(w for _, w in received) + sum(w for _, w in sent), cpu

    @functools.cache
    def best(before: int, accelerators: int, cpus: int) -> float:
        if before == full:
            return 0.0
        value = math.inf
        for after in downsets:
            if after & before != before or after == before:
                continue
            acc, cpu = loads(after & ~before)
            if accelerators:
                value = min(value, max(acc, best(after, accelerators - 1, cpus)))
            if cpus:
                value = min(value, max(cpu, best(after, accelerators, cpus - 1)))
        return value

    return best(0, file["maxFPGAs"], file["maxCPUs"])
