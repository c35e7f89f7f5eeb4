"""The one form between a plan and its schedule: tasks on resources, and what they hold, as columns."""

from __future__ import annotations

from typing import NamedTuple

from solvers.kernels.arrays import Bools, Floats, Ints

F, B, I, W, U, SYNC = range(6)  # noqa: E741  (as actions are named)
"""Kinds of tasks: positions in `plan.ACTION_KINDS`, and the all-reduce of replicas' gradients."""


class Units(NamedTuple):
    """What runs as one task, once per micro-batch and replica: a stage's action, or a single operator of it.

    A place is a group of devices and a size of micro-batches; places are numbered in their order, groups too.
    """

    stage: Ints
    """[units]"""
    kind: Ints
    """[units] F, B, I, W or U"""
    operator: Ints
    """[units] the operator of a unit that is a single one, else -1"""
    samples: Ints
    """[units] of a micro-batch; of an update the whole mini-batch"""
    micro_batches: Ints
    """[units] how many"""
    call: Bools
    """[units] whether transfers in and out are part of the task (CALL execution)"""
    again: Bools
    """[units] whether the stage's forward runs again first (recomputation)"""
    group: Ints
    """[units] the devices that run it, each a share"""
    place: Ints
    """[units]"""
    place_group: Ints
    """[places]"""
    group_start: Ints
    """[groups + 1] into group_device"""
    group_device: Ints
    """devices of each group, replica by replica"""
    replicas: Ints
    """[groups] how many devices share each micro-batch: those of the group, or more if its devices, the first of all,
    stand for the others, which do the same at the same time (see `crossings_kernel.crossings_of`)"""
    member_start: Ints
    """[units + 1] into member"""
    member: Ints
    """operators of each unit, in the order in which they run"""
    home_start: Ints
    """[operators + 1] into home"""
    home: Ints
    """units that run each operator: several where it is repeated"""
    slot: Ints
    """[units + 1] where the tasks of a unit begin in `Rows.of_slot`"""


class Rows(NamedTuple):
    """The compute tasks, device by device in their order."""

    unit: Ints
    """[rows]"""
    micro_batch: Ints
    """[rows]"""
    device: Ints
    """[rows]"""
    position: Ints
    """[rows] in the device's order"""
    of_slot: Ints
    """row of micro-batch j on replica q of unit u, at units.slot[u] + j * replicas + q"""
    ordered: Bools
    """[devices] whether a device takes its tasks one after the other; CPUs may run any number at once"""


class Messages(NamedTuple):
    """Tensors, or sums of them, as operators make and read them; in place of operators there may be sets of them, each
    of which one unit runs."""

    maker_start: Ints
    """[messages + 1] into maker"""
    maker: Ints
    """operators that make each message"""
    reader_start: Ints
    """[messages + 1] into reader"""
    reader: Ints
    """operators that read each message"""
    ends: Ints
    """[messages] equal for messages that the same operators make and the same operators read"""
    nbytes: Floats
    """[messages, 2] B fixed, B per sample"""
    stated_s: Floats
    """[messages] s per sample that the workload states; [0] if it states none"""
    latencies: Ints
    """[messages] how many each pays if it is sent"""


class Bundles(NamedTuple):
    """Messages that leave the same units of one place for the same units elsewhere: they travel together."""

    source_start: Ints
    """[bundles + 1] into source"""
    source: Ints
    """units of one place that make the messages, ascending"""
    target_start: Ints
    """[bundles + 1] into target"""
    target: Ints
    """units that read them, ascending by place, then number"""
    nbytes: Floats
    """[bundles, 2] B fixed, B per sample"""
    stated_s: Floats
    """[bundles] s per sample where the workload states it"""
    tensors: Ints
    """[bundles] how many pay a latency; 0 if there is only an order to keep"""


class Tasks(NamedTuple):
    """Compute tasks first, device by device in their order (`Rows`), then transfers in the order in which they
    take turns by default."""

    seconds: Floats
    """[tasks] s"""
    resource: Ints
    """[tasks] device | D + lane, or way out | 2 D + way in | 3 D + wire"""
    priority: Floats
    """[tasks] of ready tasks the one with the least runs first, then the one of the lowest number"""
    device: Ints
    """[tasks] that computes or sends"""
    to_device: Ints
    """[tasks] -1 for compute; the receiver; the sender itself for its half of a transfer"""
    unit: Ints
    """[tasks] -1 for transfers"""
    micro_batch: Ints
    """[tasks] of the unit; of a transfer that of its last maker; 0 for updates and all-reduces"""
    stage: Ints
    """[tasks] of the unit; of a transfer that of its last maker"""
    kind: Ints
    """[tasks] F, B, I, W, U, SYNC; of a transfer that of its last maker"""
    maker: Ints
    """[tasks] the last of the tasks that made what is sent; -1 for compute and all-reduces"""
    latencies: Ints
    """[tasks] latencies that a transfer pays"""
    nbytes: Floats
    """[tasks] B that a transfer moves"""
    reader_start: Ints
    """[tasks + 1] into reader"""
    reader: Ints
    """tasks that read what a transfer brings"""
    after_start: Ints
    """[tasks + 1] into after"""
    after: Ints
    """tasks that wait for each"""
    waits: Ints
    """[tasks] how many tasks each waits for"""


class Sends(NamedTuple):
    """What a task, or several, send at once."""

    device: Ints
    """[sends] the sender"""
    nbytes: Floats
    """[sends] B kept until the last transfer of the send has ended"""
    maker_start: Ints
    """[sends + 1] into maker"""
    maker: Ints
    """tasks that make what is sent"""
    transfer_start: Ints
    """[sends + 1] into transfer"""
    transfer: Ints
    """tasks that carry it"""


class HostCopies(NamedTuple):
    """What forwards of stages that offload save, and the tasks that copy it to the host's memory and back."""

    forward: Ints
    """[forwards] row"""
    backward: Ints
    """[forwards] row of the same micro-batch on the same device"""
    nbytes: Floats
    """[forwards] B that are offloaded"""
    out: Ints
    """[forwards] the task that copies it to the host; -1 where it stays"""
    back: Ints
    """[forwards] the task that copies it back; likewise"""


class Holds(NamedTuple):
    """What devices hold beside what they hold all the time: each from the first of some instants to the last of
    others. Instants are starts or ends of tasks."""

    device: Ints
    """[holds]"""
    nbytes: Floats
    """[holds] B"""
    since_start: Ints
    """[holds + 1] into since"""
    since: Ints
    """tasks"""
    from_end: Bools
    """[holds] whether it begins with the end of the first of these to end, else with the first start"""
    until_start: Ints
    """[holds + 1] into until"""
    until: Ints
    """tasks: held until the last of them has ended"""
