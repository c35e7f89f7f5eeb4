"""What the general dynamic programmes read: costs by pass, by direction and by number of replicas."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from solvers.kernels.arrays import Bools, Floats, Ints

BLOCKING, LANE, DUPLEX = 0, 1, 2
MAKES, READS = 1, 2


class VariantCosts(NamedTuple):
    """Costs of super-operators and directed messages, in seconds per sample.

    passes: 1 (everything together) or 2 (forward, backward). Row r - 1 is for one of r replicas.
    acc_s: [replicas, passes, nodes]; cpu_s: [passes, nodes]; supported: [nodes], whether an
    accelerator can run it. static_bytes, param_bytes: [nodes]; saved_bytes, workspace_bytes:
    [replicas, nodes]. sync_s, sync_s_per_byte: [replicas], the gradients' synchronisation, if there
    are any, sent in the last pass; inf where so many replicas cannot share a micro-batch. node_start,
    node_message, node_role: the messages a node is on, and whether it MAKES them, READS them or both
    (their sum). message_pass: [messages];
    message_s: [replicas, messages]. maker_start, makers, reader_start, readers: a message's nodes.
    """

    acc_s: Floats
    cpu_s: Floats
    supported: Bools
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
def parts_at_least(cpus: int, accelerators: int, replicas: int) -> int:
    """How many parts have been made, at least, with so many devices in use."""
    return cpus + (accelerators + replicas - 1) // replicas
