"""What Piper's dynamic programme reads: seconds and bytes of stages by option, whatever they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solvers.coarsening.traffic import Traffic
from solvers.contiguous.messages_kernel import messages_of
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.pipelines.piper.memory_kernel import StageMemory
from solvers.pipelines.piper.stage_kernel import StageCosts

Ids = NDArray[np.int32]

ROUNDING = 1e-12
"""Relative slack of the memory cap, for sums added in another order."""


@dataclass(frozen=True, slots=True)
class PiperStage:
    """Nodes (ascending) that run as one stage: with which option, how many micro-batches in flight, and which
    of them are recomputed. compute_s (with synchronisation), moved_s, and seconds, which is what of the two
    counts: per sample."""

    nodes: tuple[int, ...]
    option: int
    flights: int
    recomputed: tuple[int, ...] = ()
    compute_s: float = 0.0
    moved_s: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Costed:
    """Nodes and directed messages with their costs by option; the fields are those of `StageCosts` and
    `StageMemory`, see there. Nodes are in a topological order.

    beside: whether transfers run beside compute (not by layer). most_devices, most_sum: how many devices
    there are, and the most that the degrees may add up to.
    """

    traffic: Traffic
    devices: Ints
    degrees: Ints
    flights: Ints
    compute_s: Floats
    again_s: Floats
    fixed_s: Floats
    has_params: Bools
    send_s: Floats
    receive_s: Floats
    group: Ints
    kept_bytes: Floats
    held_bytes: Floats
    kept_again_bytes: Floats
    held_again_bytes: Floats
    workspace_bytes: Floats
    received_bytes: Floats
    by_layer: bool
    beside: bool
    cap_bytes: float
    most_devices: int
    most_sum: int
    costs: StageCosts = field(init=False)
    memory: StageMemory = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", self._costs())
        object.__setattr__(self, "memory", self._memory())

    def __len__(self) -> int:
        return self.traffic.nodes

    def _costs(self) -> StageCosts:
        return StageCosts(
            self.devices, self.degrees, self.flights, self.compute_s, self.again_s, self.fixed_s, self.has_params,
            self.send_s, self.receive_s, messages_of(self.traffic), self.beside,
        )  # fmt: skip

    def _memory(self) -> StageMemory:
        cap_bytes = float(self.cap_bytes) * (1 + ROUNDING)
        return StageMemory(
            self.group, self.kept_bytes, self.held_bytes, self.kept_again_bytes, self.held_again_bytes,
            self.workspace_bytes, self.received_bytes, self.by_layer, self._cheapest(), cap_bytes,
        )  # fmt: skip

    def _cheapest(self) -> Ids:
        """[groups, flights, nodes]: see `StageMemory`. In a group the order is that of any of its options."""
        if not self.by_layer:
            return np.zeros((1, 1, 0), np.int32)
        table = np.full((len(self.kept_bytes), int(self.flights.max()), len(self)), -1, np.int32)
        flights = np.arange(1, table.shape[1] + 1)[:, None]
        for g, option in zip(*np.unique(self.group, return_index=True), strict=True):
            saved = self.held_bytes[g] - self.held_again_bytes[g]
            saved = saved + flights * (self.kept_bytes[g] - self.kept_again_bytes[g])
            more_s = self.again_s[option]
            worth = np.where((saved > 0) & np.isfinite(more_s), more_s, np.inf) / np.where(saved > 0, saved, 1.0)
            order = np.argsort(worth, axis=1, kind="stable")
            table[g] = np.where(np.isfinite(np.take_along_axis(worth, order, axis=1)), order, -1)
        return table

    def measured(self, nodes: Sequence[int], option: int, flights: int) -> PiperStage | None:
        """A stage, with what it must recompute so that ``flights`` micro-batches in flight fit; None if they cannot."""
        mine = list(nodes)
        inside = np.zeros(len(self), bool)
        inside[mine] = True
        sent, received = self.traffic.crossing(inside)
        g = int(self.group[option])
        moved_s = float(self.send_s[option, sent].sum() + self.receive_s[option, received].sum())
        compute_s = float(self.compute_s[option, mine].sum())
        if self.has_params[mine].any():
            compute_s += float(self.fixed_s[option])
        cap = self.memory.cap_bytes - float(self.workspace_bytes[g, mine].max())
        cap -= flights * float(self.received_bytes[g, received].sum())
        plain = self.held_bytes[g] + flights * self.kept_bytes[g]
        again = self.held_again_bytes[g] + flights * self.kept_again_bytes[g]
        over = float(plain[mine].sum()) - cap
        recomputed: list[int] = []
        if over > 0 and not self.by_layer:
            recomputed, over = mine, float(again[mine].sum()) - cap
        elif over > 0:
            for node in self.memory.cheapest[g, flights - 1].tolist():
                if over <= 0 or node < 0:
                    break
                if inside[node]:
                    recomputed.append(node)
                    over -= float(plain[node] - again[node])
        compute_s += float(self.again_s[option, recomputed].sum()) if recomputed else 0.0
        seconds = max(compute_s, moved_s) if self.beside else compute_s + moved_s
        if over > 0 or not np.isfinite(seconds):
            return None
        return PiperStage(tuple(sorted(mine)), option, flights, tuple(sorted(recomputed)), compute_s, moved_s, seconds)
