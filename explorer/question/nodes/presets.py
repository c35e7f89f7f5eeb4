"""Clusters that people have, by name. What a maker states is the peak; `placement-explorer calibrate` measures your own
machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from explorer.costs.devices import DEVICES
from explorer.question.nodes.described import read_described
from explorer.question.written.closest import closest
from explorer.question.written.device_lists import parse_kinds
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.problem.cluster import Cluster

MAX_NODES = 2_048
_COUNTED = re.compile(r"(?:([0-9]{1,4})x)?([a-z][a-z0-9-]*)")


@dataclass(frozen=True, slots=True)
class Preset:
    """A cluster that can be asked for by name. node: as in `explorer.question.nodes.described`, and network likewise.
    source: where the figures are from."""

    name: str
    title: str
    devices: str
    links: dict[str, str]
    network: dict[str, str]
    source: str

    def description(self, nodes: int = 1) -> dict[str, object]:
        """What a file says of so many of them."""
        node = {**({} if nodes == 1 else {"count": nodes}), "devices": self.devices, "links": self.links}
        return {"nodes": [node], **({"network": self.network} if nodes > 1 else {})}


def _nvswitch(bandwidth: str) -> dict[str, str]:
    """Every GPU has one port into the switch."""
    return {"bandwidth": bandwidth, "latency": "2us", "wires": "device"}


def _adapters(bandwidth: str) -> dict[str, str]:
    """A network adapter for every GPU."""
    return {"bandwidth": bandwidth, "latency": "5us", "wires": "device"}


_ALL = (
    Preset(
        "dgx-a100",
        "DGX A100: 8 A100 of 80 GB, NVSwitch, 200 Gbit/s InfiniBand a GPU",
        "8xA100-80GB",
        _nvswitch("300GB/s"),
        _adapters("25GB/s"),
        "NVIDIA, DGX A100 datasheet: third-generation NVLink, 600 GB/s a GPU in both directions; 8 ConnectX-6 of"
        " 200 Gbit/s",
    ),
    Preset(
        "dgx-h100",
        "DGX H100: 8 H100 of 80 GB, NVSwitch, 400 Gbit/s InfiniBand a GPU",
        "8xH100-80GB",
        _nvswitch("450GB/s"),
        _adapters("50GB/s"),
        "NVIDIA, DGX H100 datasheet: fourth-generation NVLink, 900 GB/s a GPU in both directions; 8 ConnectX-7 of"
        " 400 Gbit/s",
    ),
    Preset(
        "dgx-h200",
        "DGX H200: 8 H200 of 141 GB, NVSwitch, 400 Gbit/s InfiniBand a GPU",
        "8xH200-141GB",
        _nvswitch("450GB/s"),
        _adapters("50GB/s"),
        "NVIDIA, DGX H200 datasheet: as DGX H100, with H200",
    ),
    Preset(
        "v100-node",
        "4 V100 of 16 GB, two NVLinks between any two, 100 Gbit/s InfiniBand a node",
        "4xV100-16GB",
        {"bandwidth": "50GB/s", "latency": "5us"},
        {"bandwidth": "12.5GB/s", "latency": "10us", "wires": "node"},
        "NVIDIA, Tesla V100 datasheet: six NVLinks of 25 GB/s a direction, here two to each of the three others",
    ),
    Preset(
        "pcie-box",
        "4 A100 of 40 GB on one PCIe 4.0 root, 100 Gbit/s Ethernet a node",
        "4xA100-40GB",
        {"bandwidth": "25GB/s", "latency": "10us", "wires": "shared"},
        {"bandwidth": "12.5GB/s", "latency": "30us", "wires": "node"},
        "PCIe 4.0 x16: 31.5 GB/s a direction, some 25 as measured",
    ),
    Preset(
        "l4-box",
        "4 L4 of 24 GB on one PCIe 4.0 root, 100 Gbit/s Ethernet a node",
        "4xL4-24GB",
        {"bandwidth": "25GB/s", "latency": "10us", "wires": "shared"},
        {"bandwidth": "12.5GB/s", "latency": "30us", "wires": "node"},
        "NVIDIA L4 datasheet: PCIe 4.0 x16",
    ),
    Preset(
        "laptop",
        "one laptop GPU of 8 GB",
        "RTX4060M-8GB",
        {"bandwidth": "12GB/s", "latency": "10us"},
        {"bandwidth": "1GB/s", "latency": "100us", "wires": "node"},
        "PCIe 4.0 x8",
    ),
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in _ALL}
"""Every cluster by name."""
OFFERED = (
    "dgx-a100",
    "dgx-h100",
    "2xdgx-h100",
    "8xdgx-h100",
    "dgx-h200",
    "v100-node",
    "2xv100-node",
    "pcie-box",
    "l4-box",
    "laptop",
)
"""Those that a list shows: some of them with several nodes."""


def find_preset(name: str) -> tuple[Preset, int] | None:
    """ "2xdgx-h100" -> (that preset, 2 nodes); None for what has no such form or name. Raises InvalidProblem if there
    are too many nodes."""
    match = _COUNTED.fullmatch(name)
    if match is None or match[2] not in PRESETS:
        return None
    nodes = int(match[1] or 1)
    if not 1 <= nodes <= MAX_NODES:
        raise InvalidProblem(f"{name}: expected 1 to {MAX_NODES} nodes")
    return PRESETS[match[2]], nodes


def preset_cluster(name: str) -> Cluster | None:
    """The cluster of a name; None if there is none of that name."""
    preset = find_preset(name)
    return None if preset is None else read_described(Field(preset[0].description(preset[1]), f"{name}:"))


def preset_title(name: str) -> str:
    """What a list calls it. Raises InvalidProblem for an unknown name."""
    preset = find_preset(name)
    if preset is None:
        raise InvalidProblem(f"there is no cluster {name[:80]!r}{suggestion(name)}")
    return preset[0].title if preset[1] == 1 else f"{preset[1]} nodes: {preset[0].title}"


def preset_devices(name: str) -> tuple[int, float]:
    """How many accelerators it has, and the bytes of memory of the largest; 0 for an unknown name."""
    preset = find_preset(name)
    if preset is None:
        return 0, 0.0
    written = parse_kinds(preset[0].devices)
    kinds = (written,) if isinstance(written, str) else written
    return preset[1] * len(kinds), max(DEVICES[kind].memory_bytes for kind in kinds)


def suggestion(name: str) -> str:
    """ "; did you mean dgx-h100?", or the names that there are."""
    match = _COUNTED.fullmatch(name)
    return (
        closest(match[2] if match else name, PRESETS) or f"; there are {', '.join(PRESETS)}, and 2xNAME for two nodes"
    )
