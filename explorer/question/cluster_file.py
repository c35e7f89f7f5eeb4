"""A cluster from a file of one's own: a JSON object with devices and links."""

from __future__ import annotations

from explorer.costs.devices import DEVICES
from explorer.question.loading import read_file
from solvers.errors import InvalidProblem
from solvers.formats.cluster_json import read_cluster
from solvers.formats.json_fields import Field
from solvers.formats.json_text import parse_json
from solvers.problem.cluster import Cluster


def load_cluster(path: str) -> Cluster:
    """The cluster of a file as `parse_cluster` reads it. Raises InvalidProblem, in one line."""
    return parse_cluster(read_file(path), path)


def parse_cluster(data: bytes | str, where: str) -> Cluster:
    """The cluster of a JSON text: {"devices": [{"name", "kind", "memory_bytes", "node"}], "links": [{"src", "dst",
    "bandwidth_bytes_per_s", "latency_s", "resource"}]}, see `solvers.formats.cluster_json`.

    A device needs a name and a kind; what else is not stated is as the catalogue has it for its kind (null is no
    limit). Devices without a link between them cannot send to each other; links that name one resource share it.
    Raises InvalidProblem that names the place in the file.
    """
    field = Field(parse_json(data, where), f"{where}:")
    cluster = read_cluster(Field(_completed(field.value), field.where))
    seen: dict[str, int] = {}
    for position, device in enumerate(cluster.devices):
        if seen.setdefault(device.name, position) != position:
            raise InvalidProblem(
                f"{where}: devices[{position}].name: {device.name[:80]!r} is the name of devices[{seen[device.name]}],"
                " too; give each its own"
            )
        if device.concurrency is None and not device.is_cpu:
            raise InvalidProblem(
                f"{where}: devices[{position}].concurrency: only a CPU runs any number of operators at once; leave it"
                " out, or give 1"
            )
    return cluster


def _completed(value: object) -> object:
    """The same with what the catalogue knows of a device filled in where the file does not say."""
    if not isinstance(value, dict) or not isinstance(value.get("devices"), list):
        return value
    return {**value, "devices": [_known(device) for device in value["devices"]]}


def _known(device: object) -> object:
    kind = device.get("kind") if isinstance(device, dict) else None
    if not isinstance(device, dict) or not isinstance(kind, str) or kind not in DEVICES:
        return device
    spec = DEVICES[kind]
    stated = {
        "memory_bytes": spec.memory_bytes,
        "flops_per_s": max(spec.peak_flops_per_s.values()),
        "memory_bytes_per_s": spec.memory_bytes_per_s,
    }
    return {**stated, **device}
