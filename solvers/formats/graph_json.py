"""graph.json, our own format of a workload: written and read back without loss."""

from __future__ import annotations

from solvers.errors import InvalidProblem
from solvers.formats.cluster_json import cluster_json, compute_json, read_cluster, read_compute
from solvers.formats.json_fields import Field, shown
from solvers.formats.json_text import dump_json, parse_json
from solvers.formats.op_graph_json import graph_json, read_numbers, read_op_graph
from solvers.formats.records import record_json
from solvers.formats.workload import Workload
from solvers.problem.cluster import Cluster
from solvers.problem.problem import Execution, Objective, Transfers

FORMAT = "placement-explorer/graph"
VERSION = 1
MAX_NOTES = 1_000

_WORKLOAD = (
    "transfer_s", "stated_bytes", "training", "objective", "transfers", "execution", "costs_from", "parameters", "notes"
)  # fmt: skip
"""What is written as it stands."""


def write_graph(workload: Workload) -> str:
    """The text of a graph.json; `read_graph` of it gives the workload back."""
    compute, cluster = workload.compute, workload.cluster
    return dump_json(
        {
            "format": FORMAT,
            "version": VERSION,
            "reference": workload.reference,
            "graph": graph_json(workload.graph),
            **{name: record_json(getattr(workload, name)) for name in _WORKLOAD},
            "compute": None if compute is None else compute_json(compute),
            "cluster": None if cluster is None else cluster_json(cluster),
        }
    )


def read_graph(data: bytes | str | object, where: str = "graph.json") -> Workload:
    """The workload of a graph.json (its text, or its parsed value).

    Raises InvalidProblem with one line that says where in the file, what was expected and found.
    """
    value = parse_json(data, where) if isinstance(data, bytes | str) else data
    parts = read_header(
        Field(value, f"{where}:"), FORMAT, VERSION, ("reference", "graph"), ("compute", "cluster", *_WORKLOAD)
    )
    graph = read_op_graph(parts["graph"])
    known = {key: part for key, part in parts.items() if not part.is_null}
    cluster: Cluster | None = read_cluster(known["cluster"]) if "cluster" in known else None
    return Workload(
        graph,
        parts["reference"].text(),
        compute=read_compute(known["compute"], len(graph)) if "compute" in known else None,
        transfer_s=read_numbers(known.get("transfer_s"), len(graph.tensors)),
        stated_bytes=read_numbers(known.get("stated_bytes"), len(graph)),
        cluster=cluster,
        training=known["training"].flag() if "training" in known else True,
        objective=known["objective"].choice(Objective) if "objective" in known else Objective.ITERATION,
        transfers=known["transfers"].choice(Transfers) if "transfers" in known else Transfers.LINKS,
        execution=known["execution"].choice(Execution) if "execution" in known else Execution.OPERATOR,
        costs_from=known["costs_from"].text() if "costs_from" in known else "given",
        parameters=known["parameters"].integer() if "parameters" in known else None,
        notes=tuple(item.text() for item in known["notes"].items(MAX_NOTES)) if "notes" in known else (),
    )


def read_header(
    field: Field,
    expected: str,
    version: int | tuple[int, ...],
    required: tuple[str, ...],
    optional: tuple[str, ...] = (),
) -> dict[str, Field]:
    """The fields of one of our files, after its format and version were found to be the expected (one of them)."""
    value = field.value
    stated = value.get("format") if isinstance(value, dict) else None
    if stated != expected:
        named = "none" if stated is None else shown(stated)
        raise InvalidProblem(f'{field.where} expected "format": "{expected}", found {named}')
    number = value.get("version") if isinstance(value, dict) else None
    known = version if isinstance(version, tuple) else (version,)
    if not isinstance(number, int) or isinstance(number, bool) or number not in known:
        listed = " and ".join(filter(None, (", ".join(map(str, known[:-1])), str(known[-1]))))
        reads = f"version{'s' if len(known) > 1 else ''} {listed}"
        raise InvalidProblem(f"{field.where} this program reads {reads} of {expected}, found {shown(number)}")
    return field.fields(("format", "version", *required), optional)
