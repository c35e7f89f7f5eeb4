"""The least max-load of a dnn-partitioning file in any variant, from the definitions alone."""

from __future__ import annotations

import functools
import math

from solvers.problem.problem import Transfers

Point = tuple[float, ...]


def best_variant_ms(file: dict, transfers: Transfers, two_passes: bool, replicas: int) -> float:
    """The least max-load over chains of downsets of groups; inf if none fits.

    A part is on a CPU or on up to ``replicas`` accelerators, which divide its times (a file's scale
    with the samples) and each hold its memory. two_passes: the largest forward load and the largest
    backward load add up, so every pair that no other is below in both is kept.
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
    downsets = [s for s in range(full + 1) if all(s & bit[a] or not s & bit[b] for a, b in order)]
    passes = ({False}, {True}) if two_passes else ({False, True},)

    def load(inside: set[int], which: set[bool]) -> float:
        chosen = {n["id"] for n in nodes if n["isBackwardNode"] in which}
        compute = float(sum(n["fpgaLatency"] for n in nodes if n["id"] in inside & chosen))
        received = sum(w for _, w in {(u, w) for u, v, w in edges if u in chosen - inside and v in inside})
        sent = sum(w for _, w in {(u, w) for u, v, w in edges if u in chosen & inside and v not in inside})
        if transfers is Transfers.LANE:
            return max(compute, sent + received)
        if transfers is Transfers.DUPLEX:
            return max(compute, sent, received)
        return compute + sent + received

    @functools.cache
    def loads(part: int) -> tuple[Point | None, Point]:
        members = [n for n in nodes if part & bit[group[n["id"]]]]
        cpu = tuple(float(sum(n["cpuLatency"] for n in members if n["isBackwardNode"] in which)) for which in passes)
        if not all(n["supportedOnFpga"] for n in members) or sum(n["size"] for n in members) > file["maxSizePerFPGA"]:
            return None, cpu
        return tuple(load({n["id"] for n in members}, which) for which in passes), cpu

    @functools.cache
    def fronts(before: int, accelerators: int, cpus: int) -> set[Point]:
        if before == full:
            return {(0.0,) * len(passes)}
        points: set[Point] = set()
        for after in downsets:
            if after & before != before or after == before:
                continue
            acc, cpu = loads(after & ~before)
            for r in range(1, min(replicas, accelerators) + 1) if acc is not None else ():
                points |= {
                    tuple(max(a / r, b) for a, b in zip(acc, p, strict=True))
                    for p in fronts(after, accelerators - r, cpus)
                }
            if cpus:
                points |= {tuple(map(max, cpu, p)) for p in fronts(after, accelerators, cpus - 1)}
        return {p for p in points if not any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in points)}

    return min((sum(p) for p in fronts(0, file["maxFPGAs"], file["maxCPUs"])), default=math.inf)
