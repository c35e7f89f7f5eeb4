"""A workload as plain data: what the page needs of a graph, computed once by the worker."""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np

from explorer.question.accelerators import make_accelerators
from explorer.question.settings import Settings
from explorer.view.graph.sharding import sharding_of
from explorer.view.plan_types import Skeleton
from solvers.formats.workload import Workload
from solvers.problem.graph import NOTHING, OpGraph, Phase, per_graph

CHUNK = 40
"""Operators per box when a graph names no modules and is too large to show one by one."""
FLAT_LIMIT = 600


def skeleton(workload: Workload) -> Skeleton:
    """The plain-data twin of a workload; equal graphs have equal hashes."""
    graph = workload.graph
    fields: Skeleton = {
        "hash": "",
        "graph": structure_hash(graph),
        "name": graph.name,
        "reference": workload.reference,
        "operators": len(graph),
        "parameters": workload.parameters,
        "costs_from": workload.costs_from,
        "stated": workload.compute is not None,
        "memory_bytes": _memory(workload),
        "samples": graph.samples,
        "training": workload.training,
        "objective": str(workload.objective),
        "notes": list(workload.notes),
        "names": [o.name for o in graph.operators],
        "types": [o.op_type for o in graph.operators],
        "modules": _modules(graph),
        "phases": [str(o.phase) for o in graph.operators],
        "anchors": _anchors(graph),
        "work": _work(workload),
        "params": [o.param_bytes for o in graph.operators],
        "saved": [[o.saved_bytes.fixed, o.saved_bytes.per_sample] for o in graph.operators],
        "tensors": [(t.producer, list(t.consumers), t.nbytes.fixed, t.nbytes.per_sample) for t in graph.tensors],
        "shapes": [f"{'×'.join(map(str, t.shape))} {t.dtype}".strip() for t in graph.tensors],
    }
    if (divided := sharding_of(graph)) is not None:
        fields["sharding"] = divided
    return {
        **fields,
        "hash": _hash({name: value for name, value in fields.items() if name not in ("hash", "shapes")}),
    }


@per_graph
def structure_hash(graph: OpGraph) -> str:
    """Equal for a model's graph and for that of any question about it: of operators and of what flows between them,
    whatever they weigh and however long they take. A plan is drawn over a graph of the same hash only."""
    operators = [(o.name, o.op_type, o.module_path, str(o.phase)) for o in graph.operators]
    return _hash([operators, [(t.producer, t.consumers) for t in graph.tensors if t.nbytes != NOTHING]])


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _memory(workload: Workload) -> float | None:
    """Bytes of the largest of the accelerators that the source states times for; 0 without a cap."""
    if workload.compute is None:
        return None
    most = max((device.memory_bytes for device in make_accelerators(workload, Settings())), default=0.0)
    return most if math.isfinite(most) else 0.0


def _work(workload: Workload) -> list[float]:
    """By what modules are compared: stated seconds (of the kind that runs an operator fastest), or FLOPs."""
    graph, stated = workload.graph, workload.compute
    if stated is None:
        return [float(f"{o.flops.at(graph.samples):.4g}") for o in graph.operators]
    fastest = np.min([table[:, -1] for table in stated.seconds.values()], axis=0)
    return [float(f"{s:.4g}") if np.isfinite(s) else 0.0 for s in fastest]


def _anchors(graph: OpGraph) -> list[int]:
    """Backward and update operators are drawn where their forward operator is."""
    anchors = list(range(len(graph)))
    for i, operator in enumerate(graph.operators):
        if operator.forward_of is not None:
            anchors[i] = operator.forward_of
    for i in graph.topological_order:
        operator = graph.operators[i]
        if operator.phase is Phase.FORWARD or operator.forward_of is not None:
            continue
        near = [*graph.predecessors[i], *graph.successors[i]]
        if not operator.module_path and near:
            anchors[i] = anchors[near[0]]
    return anchors


def _modules(graph: OpGraph) -> list[str]:
    """Module paths; a large graph without any is cut into runs of its topological order."""
    paths = [o.module_path for o in graph.operators]
    if any(paths) or len(graph) <= FLAT_LIMIT:
        return paths
    for start in range(0, len(graph), CHUNK):
        part = graph.topological_order[start : start + CHUNK]
        for i in part:
            paths[i] = f"operators {start}–{start + len(part) - 1}"
    return paths
