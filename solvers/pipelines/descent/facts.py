"""Drafts over super-operators as arrays, and what moves of a search read of a question."""

from __future__ import annotations

from typing import NamedTuple

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.plain import BELOW

SIZE, REPLICAS, AGAIN, BLOCK, SLACK, HOST = range(6)
"""Columns of the table of stages: as in `DraftStage`, but a stage with devices of its own is its own host."""


class Stages(NamedTuple):
    """A draft."""

    of: Ints
    """[super-operators] the stage of each"""
    table: Ints
    """[stages, 6]"""


NOBODY = BELOW
"""In place of a stage."""


class Change(NamedTuple):
    """What a move leads to, which may turn out not to be a draft."""

    stages: Stages
    spread: bool
    """whether free devices are to be given to its busiest stages"""
    but: int
    """the stage that gets none of them, or NOBODY"""


AFTER, BEFORE = range(2)


class Graph(NamedTuple):
    """The forward graph of super-operators, which are numbered in a topological order."""

    edges: Ints
    """[edges, 2]"""
    start: Ints
    """[2, super-operators + 1] into near, AFTER and BEFORE each"""
    near: Ints
    """[2, edges] those that read of each, and those that each reads of"""


FORWARD_S, BACKWARD_S, SAVED, WORKSPACE, STATIC, PARAMS = range(6)
"""What super-operators take, s and B of a micro-batch."""
FIXED, PER_BYTE = range(2)
SECONDS, BYTES = range(2)
MAKER, MESSAGE = range(2)


class Costs(NamedTuple):
    """Costs of super-operators, a row for each size of micro-batches that is known and number of replicas."""

    sizes: Ints
    """[sizes] samples"""
    row: Ints
    """[sizes, devices + 1] the row, -1 where so many devices cannot share a micro-batch"""
    amounts: Floats
    """[rows, 6, super-operators], after these as many rows for each level of what runs again"""
    sync_s: Floats
    """[rows, 2] to add up gradients, once: FIXED and PER_BYTE of parameters"""
    sent: Ints
    """[sent, 2] who sends what among forward messages, the MAKER and the MESSAGE"""
    reader_start: Ints
    """[messages + 1] into reader"""
    reader: Ints
    messages: Floats
    """[rows, 2, messages] SECONDS and BYTES"""


class Rules(NamedTuple):
    """What a question allows."""

    devices: int
    mini_batch: int
    backward: bool
    """whether the graph has one"""
    all_in_flight: bool
    """GPipe"""
    runs_ahead: bool
    """whether slack and blocks mean something: neither in GPipe nor in 1F1B as it is run"""
    again: Ints
    """what stages may run again (`solvers.plan.drafts`), the least first"""
    mixed: bool
    """whether stages may differ in their micro-batches"""
    by_stage: bool
    """whether devices may run several stages whatever they take, as where they are interleaved"""
    sizes: Ints
    """samples that micro-batches may have"""
    caps: Floats
    """[devices] B, descending"""
    kinds: Ints
    """[kinds] how many devices there are of each, the fastest first"""
    slower: Floats
    """[kinds] how many times as long as on the fastest kind everything takes"""
    pinned: Ints
    """[super-operators] the device where each is to be, -1: any"""
    glue_share: float
    """of the average work of a device, that stages on the devices of another may take together"""


class Facts(NamedTuple):
    """What moves read of a question."""

    graph: Graph
    costs: Costs
    rules: Rules
