"""A profile of any graph, with times that a person can check by hand."""

from __future__ import annotations

from dataclasses import replace

from explorer.costs.profile import LinkTimes, OperatorTimes, Profile, WholeTimes
from solvers.formats.op_graph_json import graph_hash
from solvers.problem.graph import OpGraph, Phase

MS = 1e-3


def profile_of(graph: OpGraph, ranks: int = 2, **changes: object) -> Profile:
    """Operator k takes (k + 1) ms at 1 sample and (k + 1) x 3 ms at 4; every update 5 ms with Adam and 2 ms
    with SGD. A message takes 1 ms and 1 s per GB; a rank has 1 GB."""
    operators = tuple(
        OperatorTimes(operator.name, ((k + 1) * MS, (k + 1) * 3 * MS), (0.1, 0.05))
        for k, operator in enumerate(graph.operators)
        if operator.phase is not Phase.UPDATE
    )
    updates = [operator.name for operator in graph.operators if operator.phase is Phase.UPDATE]
    profile = Profile(
        reference=graph.name,
        graph_sha256=graph_hash(graph),
        training=graph.trains,
        dtype="fp32",
        hardware=("Slide Rule (R) 3000",) * ranks,
        hosts=("desk",) * ranks,
        backend="gloo",
        torch="2.13.0",
        python="3.11",
        date="2026-11-21T16:00:00Z",
        threads=1,
        pinned=True,
        samples=(1, 4),
        operators=operators,
        updates={"adam": dict.fromkeys(updates, 5 * MS), "sgd": dict.fromkeys(updates, 2 * MS)},
        wholes=(WholeTimes(1, 0.1, 0.2, 0.1, 0.2, 0.25), WholeTimes(4, 0.3, 0.6, 0.3, 0.6, 0.75)),
        links=(LinkTimes(0, 1, (1000, 10**6), (MS, 2 * MS), MS, 1e9),) if ranks > 1 else (),
        step_overhead_s=1e-4,
        noise=0.01,
        memory_bytes=(1e9,) * ranks,
        notes=("made by hand",),
    )
    return replace(profile, **changes)  # type: ignore[arg-type]
