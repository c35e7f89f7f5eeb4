"""A problem without its graph, to and from a JSON value."""

from __future__ import annotations

from solvers.formats.cluster_json import MAX_KINDS, cluster_json, compute_json, read_cluster, read_compute, read_link
from solvers.formats.json_fields import Field
from solvers.formats.op_graph_json import read_numbers
from solvers.formats.records import read_record, record_json
from solvers.problem.engine import EngineCosts
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Contiguity, Execution, Objective, Optimizer, Pipeline, Precision, Problem, Transfers
from solvers.problem.regions import recomputing
from solvers.problem.tied import copying
from solvers.problem.training import ZERO_STAGES

_ORDERS = {"1f1b": Pipeline.K_F_K_B, "1f1b-textbook": Pipeline.ONE_F_ONE_B}
"""Of files: what 1F1B meant when it was first written left planners free to run ahead."""
_ORDER_WORDS = {pipeline: words for words, pipeline in _ORDERS.items()}

_REQUIRED = (
    "cluster", "compute", "objective", "contiguity", "transfers", "execution", "pipeline", "mini_batch",
    "micro_batches", "training", "optimizer",
)  # fmt: skip
_OPTIONAL = (
    "transfer_s", "stated_bytes", "pins", "costs_from", "max_replicas", "recompute", "mixed_micro_batches",
    "subgraphs_per_device", "precision", "zero", "regions", "engine", "copy_tied", "group_link", "group_sum_link",
    "outer_link", "host_links", "state_links", "recompute_operators",
)  # fmt: skip

_GROUP_LINKS = ("group_link", "group_sum_link", "outer_link")
_ALWAYS = (
    "objective", "contiguity", "transfers", "execution", "mini_batch", "micro_batches", "training",
    "optimizer", "max_replicas", "recompute", "mixed_micro_batches", "subgraphs_per_device", "costs_from", "transfer_s",
    "stated_bytes",
)  # fmt: skip
"""Written as they stand, whatever they are."""


def problem_json(problem: Problem) -> dict[str, object]:
    """Everything of the problem but its graph. Pins are written as [operator, device] pairs; times as they were traced,
    and whether regions run again or tied parameters are copied."""
    return {
        **{name: record_json(getattr(problem, name)) for name in _ALWAYS},
        "pipeline": _ORDER_WORDS.get(problem.pipeline, problem.pipeline.value),
        **({} if problem.precision is Precision.PURE else {"precision": problem.precision.value}),
        **({"zero": problem.zero} if problem.zero else {}),
        **({"recompute_operators": True} if problem.recompute_operators else {}),
        **({"regions": True} if problem.plain and not (problem.copy_tied or problem.recompute_operators) else {}),
        **({"copy_tied": True} if problem.copy_tied else {}),
        **({"host_links": dict(problem.host_links)} if problem.host_links else {}),
        **({"state_links": dict(problem.state_links)} if problem.state_links else {}),
        "pins": [[operator, device] for operator, device in sorted(problem.pins.items())],
        **({} if problem.engine is None else {"engine": record_json(problem.engine)}),
        **{name: record_json(link) for name in _GROUP_LINKS if (link := getattr(problem, name)) is not None},
        "cluster": cluster_json(problem.cluster),
        "compute": compute_json(problem.as_traced.compute),
    }


def read_problem(field: Field, graph: OpGraph) -> Problem:
    """The problem of ``graph``. Raises InvalidProblem."""
    parts = field.fields(_REQUIRED, _OPTIONAL)
    micro_batches = parts["micro_batches"]
    subgraphs = parts.get("subgraphs_per_device")
    given: dict[str, object] = {
        "objective": parts["objective"].choice(Objective),
        "contiguity": parts["contiguity"].choice(Contiguity),
        "transfers": parts["transfers"].choice(Transfers),
        "execution": parts["execution"].choice(Execution),
        "pipeline": _ORDERS.get(parts["pipeline"].text()) or parts["pipeline"].choice(Pipeline),
        "optimizer": parts["optimizer"].choice(Optimizer),
        "precision": parts["precision"].choice(Precision) if "precision" in parts else Precision.PURE,
        "zero": parts["zero"].integer(0, ZERO_STAGES[-1]) if "zero" in parts else 0,
        "training": parts["training"].flag(),
        "mini_batch": parts["mini_batch"].integer(1),
        "micro_batches": None if micro_batches.is_null else micro_batches.integer(1),
        "transfer_s": read_numbers(parts.get("transfer_s"), len(graph.tensors)),
        "stated_bytes": read_numbers(parts.get("stated_bytes"), len(graph)),
        "max_replicas": parts["max_replicas"].integer(1) if "max_replicas" in parts else 1,
        "recompute": parts["recompute"].flag() if "recompute" in parts else False,
        "recompute_operators": parts["recompute_operators"].flag() if "recompute_operators" in parts else False,
        "mixed_micro_batches": parts["mixed_micro_batches"].flag() if "mixed_micro_batches" in parts else False,
        "subgraphs_per_device": None if subgraphs is None or subgraphs.is_null else subgraphs.integer(1),
        "pins": _read_pins(parts["pins"], len(graph)) if "pins" in parts else {},
        "costs_from": parts["costs_from"].text() if "costs_from" in parts else "given",
        **{name: read_link(parts[name]) for name in _GROUP_LINKS if name in parts},
        "host_links": _read_host_links(parts["host_links"]) if "host_links" in parts else {},
        "state_links": _read_host_links(parts["state_links"]) if "state_links" in parts else {},
        "engine": read_record(parts["engine"], EngineCosts) if "engine" in parts else None,
    }
    cluster, compute = read_cluster(parts["cluster"]), read_compute(parts["compute"], len(graph))
    problem = field.located(lambda: Problem(graph, cluster, compute, **given))  # type: ignore[arg-type]
    if "copy_tied" in parts and parts["copy_tied"].flag():
        return field.located(lambda: copying(problem))
    return recomputing(problem) if "regions" in parts and parts["regions"].flag() else problem


def _read_host_links(field: Field) -> dict[str, float]:
    return {kind: speed.number() for kind, speed in field.mapping(MAX_KINDS).items()}


def _read_pins(field: Field, operators: int) -> dict[int, int]:
    pins = {}
    for pair in field.items(operators):
        operator, device = pair.items(2, exactly=2)
        pins[operator.integer(0, operators - 1)] = device.integer()
    return pins
