"""What the general dynamic programmes read: costs by pass, by direction and by number of replicas."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

BLOCKING, LANE, DUPLEX = 0, 1, 2
MAKES, READS = 1, 2


class VariantCosts(NamedTuple):
    """Costs of super-operators and directed messages, in seconds per sample.

    passes: 1 (everything together) or 2 (forward, backward). Row r - 1 is for one of r replicas.
    acc_s: [replicas, passes, nodes]; cpu_s: [passes, nodes]; supported: [nodes], whether an
    accelerator can run it. static_bytes, param_bytes: [nodes]; saved_bytes, workspace_bytes:
    [replicas, nodes]. sync_s, sync_s_per_byte: [replicas], the gradients' synchronisation, if there
    are any; it is sent in the last pass. node_start, node_message, node_role: the messages a node is
    on, and whether it MAKES them, READS them or both (their sum). message_pass: [messages];
    message_s: [replicas, messages]. maker_start, makers, reader_start, readers: a message's nodes.
    """

    acc_s: Floats
    cpu_s: Floats
    supported: Flags
    static_bytes: Floats
    param_bytes: Floats
    saved_bytes: Floats
    workspace_bytes: Floats
    sync_s: Floats
    sync_s_per_byte: Floats
    node_start: Ints
    node_message: Ints
    node_role: Ints
    message_pass: Ints
    message_s: Floats
    maker_start: Ints
    makers: Ints
    reader_start: Ints
    readers: Ints


class VariantLimits(NamedTuple):
    """Devices and caps. ``in_flight[d]``: micro-batches kept by the d-th part from the end.

    replicas: most accelerators a part may have. transfers: BLOCKING, LANE or DUPLEX. cpu_worth:
    [passes] seconds of accelerator work that a second of a CPU can take over, at most.
    """

    accelerators: int
    cpus: int
    replicas: int
    acc_bytes: float
    cpu_bytes: float
    in_flight: Floats
    transfers: int
    cpu_worth: Floats


@njit(cache=True)
def busy_s(compute_s: float, sent_s: float, received_s: float, transfers: int) -> float:
    """A device's load (Tarnawski et al. 2020, section 3, and its variants)."""
    if transfers == LANE:
        return max(compute_s, sent_s + received_s)
    if transfers == DUPLEX:
        return max(compute_s, sent_s, received_s)
    return compute_s + sent_s + received_s


@njit(cache=True)
def sync_time_s(costs: VariantCosts, row: int, param_bytes: float) -> float:
    """Seconds per sample that one of ``row + 1`` replicas synchronises gradients for."""
    return costs.sync_s[row] + costs.sync_s_per_byte[row] * param_bytes if param_bytes > 0 else 0.0


@njit(cache=True)
def parts_at_least(cpus: int, accelerators: int, replicas: int) -> int:
    """How many parts have been made, at least, with so many devices in use."""
    return cpus + (accelerators + replicas - 1) // replicas


@njit(cache=True)
def add_node(costs: VariantCosts, node: int, made: Ints, read: Ints, load: Floats) -> None:
    """Add a node to a set: to made and read, how many of a message's makers and readers are in the
    set, and to load, [replicas, passes, >= 3] with columns compute, sent and received."""
    replicas, passes = load.shape[0], load.shape[1]
    for r in range(replicas):
        for p in range(passes):
            load[r, p, 0] += costs.acc_s[r, p, node] if costs.supported[node] else np.inf
    for t in range(costs.node_start[node], costs.node_start[node + 1]):
        m, role = costs.node_message[t], costs.node_role[t]
        all_makers = costs.maker_start[m + 1] - costs.maker_start[m]
        all_readers = costs.reader_start[m + 1] - costs.reader_start[m]
        sent = made[m] > 0 and read[m] < all_readers
        received = read[m] > 0 and made[m] < all_makers
        made[m] += role & MAKES
        read[m] += role >> 1
        more = int(made[m] > 0 and read[m] < all_readers) - int(sent)
        if more:
            for r in range(replicas):
                load[r, costs.message_pass[m], 1] += more * costs.message_s[r, m]
        more = int(read[m] > 0 and made[m] < all_makers) - int(received)
        if more:
            for r in range(replicas):
                load[r, costs.message_pass[m], 2] += more * costs.message_s[r, m]


@njit(cache=True)
def take_away(costs: VariantCosts, node: int, made: Ints, read: Ints) -> None:
    """Undo what `add_node` did to made and read."""
    for t in range(costs.node_start[node], costs.node_start[node + 1]):
        m, role = costs.node_message[t], costs.node_role[t]
        made[m] -= role & MAKES
        read[m] -= role >> 1
