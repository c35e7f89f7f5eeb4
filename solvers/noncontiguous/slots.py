"""The places that a max-load integer program puts super-operators in, and what each costs there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.variants import Variant, synchronisation
from solvers.kernels.arrays import Bools, Floats
from solvers.plan.segments import Place
from solvers.problem.problem import Contiguity, Problem

Order = tuple[tuple[int, ...], ...]
"""The class of the accelerator at every position of a chain."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for one set of super-operators: ``replicas`` devices at once, of those in ``devices``, which are alike.

    position: in a chain, the number of accelerators' parts before it at most; -1 without a chain.
    """

    devices: tuple[int, ...]
    on_cpu: bool
    replicas: int = 1
    position: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class SlotCosts:
    """What super-operators cost in a slot, for each of its devices.

    seconds: [passes, super-operators], inf where it cannot run; nbytes: [super-operators] of memory. message_s:
    [messages of the traffic], over the fastest link that a message may take; far_s: how much longer it is on the way
    to another host. sync_s, sync_s_per_byte: seconds per sample of the gradients' synchronisation, if there are any,
    and for each byte of them. cap: bytes.
    """

    seconds: Floats
    nbytes: Floats
    message_s: Floats
    far_s: Floats
    sync_s: float
    sync_s_per_byte: float
    cap: float


def alike(problem: Problem) -> list[tuple[int, ...]]:
    """The devices in classes of which it is all one who is who: of one kind, memory and (where links between hosts
    are slower) host, and none that something is pinned to."""
    classes: dict[tuple[object, ...], list[int]] = {}
    pinned, several = set(problem.pins.values()), not problem.transfers_alike
    for number, device in enumerate(problem.cluster.devices):
        key = (device.kind, device.memory_bytes, device.node * several, number if number in pinned else -1)
        classes.setdefault(key, []).append(number)
    return [tuple(devices) for devices in classes.values()]


def orders_of(problem: Problem, most: int) -> list[Order]:
    """The orders in which a chain may go through the accelerators, devices of a class being all one; none if they are
    more than ``most``."""
    classes = [devices for devices in alike(problem) if not problem.cluster.devices[devices[0]].is_cpu]
    count = math.factorial(sum(map(len, classes)))
    for devices in classes:
        count //= math.factorial(len(devices))
    return list(_orders(classes, [len(devices) for devices in classes])) if count <= most else []


def _orders(classes: Sequence[tuple[int, ...]], left: list[int]) -> Iterator[Order]:
    if not any(left):
        yield ()
    for number, devices in enumerate(classes):
        if left[number]:
            rest = [count - (other == number) for other, count in enumerate(left)]
            for order in _orders(classes, rest):
                yield (devices, *order)


def slots_of(problem: Problem, replicas: int, order: Order | None = None) -> list[Slot]:
    """Slots for every placement in which a set of super-operators has one device or up to ``replicas`` of one class.

    In a chain (ACYCLIC) as many positions as there are accelerators, each a slot for every class and number of
    replicas (``order``: for this class alone, and one device), and before, between and after them as many for CPUs as
    there are, of every class. Otherwise as many for
    every class and number of replicas as there is room for; without replicas the devices in their order.
    """
    cpus = [devices for devices in alike(problem) if problem.cluster.devices[devices[0]].is_cpu]
    accelerators = [devices for devices in alike(problem) if devices not in cpus]
    ways = [(devices, r) for devices in accelerators for r in range(1, min(replicas, len(devices)) + 1)]
    if problem.contiguity is Contiguity.ACYCLIC:
        slots = []
        for position in range(len(problem.cluster.accelerators) + 1):
            slots += [Slot(devices, True, 1, position) for _ in problem.cluster.cpus for devices in cpus]
            if position < len(problem.cluster.accelerators):
                here = ways if order is None else [(order[position], 1)]
                slots += [Slot(devices, False, r, position) for devices, r in here]
        return slots
    if replicas == 1:
        class_of = {device: devices for devices in alike(problem) for device in devices}
        return [Slot(class_of[number], d.is_cpu) for number, d in enumerate(problem.cluster.devices)]
    slots = [Slot(devices, False, r) for devices, r in ways for _ in range(len(devices) // r)]
    return slots + [Slot(devices, True) for devices in cpus for _ in devices]


def costs_of(
    condensed: Condensed, contracted: Contracted, variant: Variant, slots: Sequence[Slot], flights: int
) -> list[SlotCosts]:
    """The costs in every slot. contracted: one of ``condensed``. flights: micro-batches in flight whose activations
    count as held, workspace with them; 0 counts neither."""
    problem, passes = condensed.problem, variant.passes
    sync_s, sync_s_per_byte = synchronisation(problem, variant.replicas, contracted.samples)
    near, far = speeds(problem) or (None, None)
    known: dict[tuple[str, float, int], SlotCosts] = {}
    costs = []
    for slot in slots:
        device = problem.cluster.devices[slot.devices[0]]
        key = (device.kind, device.memory_bytes, slot.replicas)
        if key not in known:
            here = condensed.at(
                contracted.samples,
                merge_trivial=contracted.has_merged,
                replicas=slot.replicas,
                kind=device.kind,
                speed=near,
            )
            there = condensed.at(contracted.samples, merge_trivial=contracted.has_merged, speed=far)
            able: Bools = np.isfinite(here.cpu_s) if slot.on_cpu else here.supported
            seconds = here.cpu_pass_s if slot.on_cpu else here.acc_pass_s
            seconds = seconds if passes == 2 else seconds.sum(axis=0, keepdims=True)
            nbytes = here.static_bytes
            if flights:
                nbytes = nbytes + flights * here.saved_bytes + here.workspace_bytes
            far_s = np.zeros(len(here.message_s)) if far is None else there.message_s - here.message_s
            known[key] = SlotCosts(
                np.where(able, seconds, np.inf),
                nbytes,
                here.message_s,
                far_s,
                float(sync_s[slot.replicas - 1]),
                float(sync_s_per_byte[slot.replicas - 1]),
                device.memory_bytes,
            )
        costs.append(known[key])
    return costs


def speeds(problem: Problem) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """(latency, bandwidth) of the links inside hosts and between them, where all devices are joined, links inside are
    alike and no slower than those between, which are alike too; else None. Not asked where links do not matter."""
    if problem.transfers_alike:
        return None
    cluster = problem.cluster
    by_inside: dict[bool, set[tuple[float, float]]] = {True: set(), False: set()}
    for speed in cluster.speeds:
        by_inside[speed.inside].add((speed.latency_s, speed.bandwidth_bytes_per_s))
    if not cluster.is_complete or any(len(each) != 1 for each in by_inside.values()):
        return None
    (near,), (far,) = by_inside[True], by_inside[False]
    return (near, far) if near[0] <= far[0] and near[1] >= far[1] else None


def taken(slot: Slot, free: list[int]) -> Place:
    """The next devices of a slot's class, taken out of ``free``."""
    devices = tuple([device for device in free if device in slot.devices][: slot.replicas])
    for device in devices:
        free.remove(device)
    return devices
