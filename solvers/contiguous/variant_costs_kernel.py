"""What the general dynamic programmes read: costs by pass, by direction and by number of replicas."""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from solvers.kernels.arrays import Floats, Ints

BLOCKING, LANE, DUPLEX = 0, 1, 2
MAKES, READS = 1, 2


class VariantCosts(NamedTuple):
    """Costs of super-operators and directed messages, in seconds per sample.

    passes: 1 (everything together) or 2 (forward, backward). rows: for one of row_replicas accelerators of a kind.
    acc_s: [rows, passes, nodes], inf where it cannot run; cpu_s: [passes, nodes]. row_replicas: [rows].
    static_bytes, param_bytes: [nodes]; saved_bytes, workspace_bytes:
    [rows, nodes]. sync_s, sync_s_per_byte: [rows], the gradients' synchronisation, if there
    are any, sent in the last pass; inf where so many replicas cannot share a micro-batch. node_start,
    node_message, node_role: the messages a node is on, and whether it MAKES them, READS them or both
    (their sum). message_pass: [messages];
    message_s: [rows, messages]. maker_start, makers, reader_start, readers: a message's nodes.
    """

    acc_s: Floats
    cpu_s: Floats
    row_replicas: Ints
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
    """Devices, ways to give a part some of them, and caps.

    classes: of devices that are alike, the first one the CPUs. A state is how many of each class are in use, used:
    [states, classes]; stride: [classes], by how much one more device of a class changes its number; available:
    [classes]. flights: [states], micro-batches kept by the part that is made next. ways: what a part may have, the
    first one a CPU. need: [ways, classes]; step: [ways], from the state before to the one after; way_row: [ways], row
    of the costs (of a CPU 0); way_bytes: [ways], the least memory of its devices. transfers: BLOCKING, LANE or DUPLEX.
    worth: [classes, passes] seconds that a device of the class can take over, at most, in a second, of work as
    `least_work_s` tells it.
    """

    used: Ints
    stride: Ints
    available: Ints
    flights: Floats
    need: Ints
    step: Ints
    way_row: Ints
    way_bytes: Floats
    transfers: int
    worth: Floats


@njit(cache=True)
def busy_s(compute_s: float, sent_s: float, received_s: float, transfers: int) -> float:
    """A device's load (Tarnawski et al. 2020, section 3, and its variants)."""
    if transfers == LANE:
        return max(compute_s, sent_s + received_s)
    if transfers == DUPLEX:
        return max(compute_s, sent_s, received_s)
    return compute_s + sent_s + received_s
