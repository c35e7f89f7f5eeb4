"""Lines through measured messages and collectives: a latency and a bandwidth of the links that they went over, as plans
model messages and rings, judged on sizes that were held out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from explorer.costs.curves import HeldOut, MeasuredLink
from explorer.costs.fit.kernels import BYTES, MEASURED, rows_of
from explorer.costs.least_squares import coefficients
from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Floats

PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "alltoall": 1}
"""How often a ring passes the whole round: (devices - 1) messages of 1 / devices of all bytes each time."""
LEAST_SIZES = 8
FILE = re.compile(r"(nccl|send_receive)_(\w+)\.csv(\.gz)?")


def links_in(folder: Path) -> Iterator[MeasuredLink]:
    """Of every file nccl_*.csv.gz (operation, gpus, elements_16_bit, milliseconds) and send_receive_*.csv.gz (workers,
    devices_per_node, size in bytes, milliseconds) a line for each operation and number of devices. Raises
    InvalidProblem for a file without these columns."""
    for path in sorted(folder.iterdir()):
        match = FILE.fullmatch(path.name)
        if match is None or match[2] not in MEASURED:
            continue
        collectives = match[1] == "nccl"
        columns = ("operation", "gpus", "elements_16_bit") if collectives else ("workers", "devices_per_node", "size")
        groups: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
        try:
            for row in rows_of(path, (*columns, "milliseconds")):
                key, nbytes = _collective(row) if collectives else _message(row)
                if (seconds := float(row["milliseconds"]) * 1e-3) > 0 and (not collectives or key[0] in PASSES):
                    groups[key].append((nbytes, seconds))
        except (TypeError, ValueError) as error:
            raise InvalidProblem(f"{path}: {error}: expected numbers") from None
        for (operation, devices), measured in sorted(groups.items()):
            if len(measured) >= LEAST_SIZES:
                yield fitted(MEASURED[match[2]], operation, devices, np.array(sorted(measured)))


def _collective(row: dict[str, str]) -> tuple[tuple[str, int], float]:
    return (row["operation"], int(row["gpus"])), float(row["elements_16_bit"]) * BYTES


def _message(row: dict[str, str]) -> tuple[tuple[str, int], float]:
    return (_between(int(row["devices_per_node"])), int(row["workers"])), float(row["size"])


def _between(devices_per_node: int) -> str:
    return "send between nodes" if devices_per_node == 1 else "send in a node"


def fitted(device: str, operation: str, devices: int, measured: Floats) -> MeasuredLink:
    """measured: bytes and seconds, ascending, [sizes, 2]; the line stands on every second, and is judged on the others
    by estimated over measured seconds."""
    counts = _counts(operation, devices, measured[:, 0])
    latency, per_byte = coefficients(counts[::2], measured[::2, 1]).tolist()
    ratios = counts[1::2] @ np.array([latency, per_byte]) / measured[1::2, 1]
    low, median, high = np.percentile(ratios, (10, 50, 90)).tolist()
    rate = 1 / per_byte if per_byte > 0 else 0.0
    return MeasuredLink(
        device, operation, devices, latency, rate, len(counts[::2]), HeldOut(len(ratios), low, median, high)
    )


def _counts(operation: str, devices: int, nbytes: Floats) -> Floats:
    """Latencies and bytes that each link sees, [sizes, 2]."""
    if operation not in PASSES:
        return np.column_stack([np.ones(len(nbytes)), nbytes])
    steps = PASSES[operation] * (devices - 1)
    return np.column_stack([np.full(len(nbytes), float(steps)), nbytes * steps / devices])
