"""The orders of devices that hold two stages of a chain placed in a V: the first leg goes down the devices, the second
comes back up them, so that device d runs stages d and 2 D - 1 - d.

What a micro-batch holds on a device is then about alike on all of them, and how soon its backward follows its forward
decides how much that is (Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from solvers.problem.problem import Pipeline


class Step(NamedTuple):
    """leg: 0 for the device's stage on the way down the V, 1 for the one on the way back. kind: F, I or W."""

    leg: int
    kind: str
    micro_batch: int


PERIOD = 6
"""Steps of a micro-batch on a device: F, I and W of two stages."""
TURNS = ((0, "F"), (1, "F"), (1, "I"), (0, "I"))
"""(leg, kind) in the order in which a micro-batch comes to a device, but for its gradients of parameters."""


@lru_cache(64)
def v_orders(pipeline: Pipeline, devices: int, micro_batches: int) -> tuple[tuple[Step, ...], ...]:
    """What every device does, [devices], each F, I and W as long as the others.

    pipeline: ZB_V, V_HALF, V_MIN or DUAL_PIPE_V. A pattern that wants more micro-batches than there are is made for
    as many as it wants, and those too many are left out.
    """
    if pipeline in BLOCKS:
        return _repeated(BLOCKS[pipeline](devices), micro_batches)
    turns = {Pipeline.ZB_V: _zb_v, Pipeline.DUAL_PIPE_V: _dual_pipe_v}[pipeline]
    wanted = max(micro_batches, 2 * devices)
    rows = (_numbered(turns(rank, devices, wanted)) for rank in range(devices))
    return tuple(tuple(step for step in row if step.micro_batch < micro_batches) for row in rows)


def _v_min(devices: int) -> list[tuple[int, ...]]:
    """When the four `TURNS` of the first micro-batch begin on each device (section 3.3: every pass goes on at once)."""
    gap = 2 * (devices % 3 == 0)  # else steps of one device would fall together
    return [
        (d, 2 * devices - d - 1, 2 * devices + gap + d, 4 * devices + gap - d - 1) for d in range(devices)
    ]  # fmt: skip


def _v_half(devices: int) -> list[tuple[int, ...]]:
    """The same, where what goes down the V waits for a step at every device."""
    gap = 3 * (devices % 2 == 0)
    return [
        (2 * d, 3 * devices - d - 2, 3 * devices + gap + 2 * d - 1, 6 * devices + gap - d - 2)
        for d in range(devices)
    ]  # fmt: skip


BLOCKS: dict[Pipeline, Callable[[int], list[tuple[int, ...]]]] = {Pipeline.V_HALF: _v_half, Pipeline.V_MIN: _v_min}
"""Building blocks that are repeated every `PERIOD` steps, one for each micro-batch."""


class _Device:
    """The steps of a device in time, and how many (stage, micro-batch)s it holds in each step."""

    def __init__(self, begins: tuple[int, ...], micro_batches: int) -> None:
        self.at = {
            Step(leg, kind, j): begin + PERIOD * j
            for (leg, kind), begin in zip(TURNS, begins, strict=True)
            for j in range(micro_batches)
        }
        self.end = max(self.at.values()) + 2 * PERIOD * max(begins)
        self.busy = np.zeros(self.end, np.bool_)
        self.busy[list(self.at.values())] = True
        self.fill()
        self.held = np.zeros(self.end, np.int64)
        for step, begin in self.at.items():
            self.held[begin:] += step.kind == "F"
            self.held[begin + 1 :] -= step.kind == "W"

    def fill(self) -> None:
        """Put gradients of parameters that have no step into free ones, the longest waiting first."""
        for step, begin in sorted(((s, t) for s, t in self.at.items() if s.kind == "I"), key=lambda one: one[1]):
            weights = step._replace(kind="W")
            if weights not in self.at:
                free = begin + 1 + int(np.argmin(self.busy[begin + 1 :]))
                self.at[weights] = free
                self.busy[free] = True

    def drain(self) -> None:
        """Take out the gradients of parameters after the last forward, from where on what is held only falls."""
        last = max(t for step, t in self.at.items() if step.kind == "F")
        for step in [step for step, t in self.at.items() if step.kind == "W" and t > last]:
            self.busy[self.at.pop(step)] = False

    def move(self, step: Step, ready: int, most: int) -> None:
        """Begin a step as early as it is ready, the device free and what it holds at most ``most``."""
        old = self.at[step]
        for begin in (ready + np.flatnonzero(~self.busy[ready:old])).tolist():
            if step.kind == "F" and self.held[begin:old].max() >= most:
                continue
            self.held[begin:old] += step.kind == "F"
            self.held[begin + 1 : old + 1] -= step.kind == "W"
            self.busy[old], self.busy[begin] = False, True
            self.at[step] = begin
            return


def _repeated(blocks: list[tuple[int, ...]], micro_batches: int) -> tuple[tuple[Step, ...], ...]:
    """Blocks repeated, gradients of parameters put into the gaps, and every step as early as it can be within the
    memory that the pattern takes anyway (section 3.4: squeezing and reordering); in the end the gaps of what is left
    after the last forward are closed, and gradients of parameters come last there."""
    devices = [_Device(begins, micro_batches) for begins in blocks]
    most = max(int(device.held.max()) for device in devices)
    _earlier(devices, most)
    for device in devices:
        device.drain()
    _earlier(devices, most)
    for device in devices:
        device.fill()
    return tuple(tuple(sorted(device.at, key=device.at.__getitem__)) for device in devices)


def _earlier(devices: list[_Device], most: int) -> None:
    steps = sorted((t, rank, step) for rank, device in enumerate(devices) for step, t in device.at.items())
    for _, rank, step in steps:
        leg, kind, j = step
        before = [(rank, Step(leg, kind, j - 1))] if j else []
        turn = TURNS.index((leg, kind)) if kind != "W" else 0
        away = rank - 1 if (leg == 0) == (kind == "F") else rank + 1
        if kind == "W":
            before.append((rank, Step(leg, "I", j)))
        elif 0 <= away < len(devices):
            before.append((away, step))
        elif turn:  # at the ends of the V, from one leg to the other
            before.append((rank, Step(*TURNS[turn - 1], j)))
        ready = max((devices[r].at[other] + 1 for r, other in before), default=0)
        devices[rank].move(step, ready, most)


def _numbered(turns: Iterable[tuple[int, str]]) -> Iterator[Step]:
    """Steps with their micro-batches, each kind of a leg in turn."""
    count: dict[tuple[int, str], int] = {}
    for turn in turns:
        number = count[turn] = count.get(turn, -1) + 1
        yield Step(*turn, number)


def _zb_v(rank: int, devices: int, micro_batches: int) -> Iterator[tuple[int, str]]:
    """ZB-V (Qi et al., ICLR 2024, section 6), as torch's ScheduleZBVZeroBubble has it: as much in flight as the first
    device of 1F1B has, and no bubble where F, I and W take equally long."""
    tail = devices - rank
    first, second = 2 * tail - 1 + rank, rank + tail  # forwards of each leg so far
    yield from [(0, "F")] * (2 * tail - 1)
    yield from [(1, "F"), (0, "F")] * rank
    yield from [(1, "F"), (1, "I"), (1, "W")] * tail
    while second < first or first < micro_batches:
        if first < micro_batches:
            yield 0, "F"
            first += 1
        yield from ((0, "I"), (0, "W"), (1, "F"), (1, "I"), (1, "W"))
        second += 1
    yield from [(0, "I"), (1, "I")] * rank
    yield from [(0, "I"), (0, "W")] * tail
    yield from [(1, "W")] * rank
    yield from [(0, "W")] * rank


def _dual_pipe_v(rank: int, devices: int, micro_batches: int) -> Iterator[tuple[int, str]]:
    """DualPipeV (Qi et al., "DualPipe could be better without the Dual", 2025; torch's ScheduleDualPipeV), whose steps
    are those of DualPipe (DeepSeek-V3, 2024, section 3.2.1). A forward and a backward that overlap come one after the
    other here, and a whole backward is I and W."""
    tail = devices - rank - 1
    waiting: list[tuple[int, str]] = []
    yield from [(0, "F")] * (2 * tail)
    yield from [(0, "F"), (1, "F")] * (rank + 1)
    yield from [(1, "I"), (1, "W"), (1, "F")] * tail
    whole = ((1, "I"), (1, "W")), ((0, "I"), (0, "W"))
    yield from [(0, "F"), *whole[0], (1, "F"), *whole[1]] * (micro_batches - 2 * devices + rank + 1)
    yield from [*whole[0], (1, "F"), *whole[1]] * tail
    backwards = [(leg, "I") for _ in range(rank + 1) for leg in (1, 0)]
    put_off = 2 * ((rank + 1) // 2) + (rank % 2 == 0)  # from this backward on, W waits
    for number, (leg, kind) in enumerate(backwards):
        yield leg, kind
        if number < put_off:
            yield leg, "W"
        else:
            waiting.append((leg, "W"))
    for _ in range(tail):
        yield waiting.pop(0)
        yield 0, "I"
        waiting.append((0, "W"))
    yield from waiting
