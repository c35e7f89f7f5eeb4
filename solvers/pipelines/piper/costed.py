"""What Piper's dynamic program reads: seconds and bytes of stages by option, whatever they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.coarsening.traffic import Traffic
from solvers.pipelines.piper.memory_kernel import StageMemory
from solvers.pipelines.piper.stage_kernel import StageCosts

Ids = NDArray[np.int32]

ROUNDING = 1e-12
"""Relative slack of the memory cap, for sums added in another order."""
NONE_CHEAPEST: Ids = np.zeros((1, 1, 0), np.int32)
"""In place of `StageMemory.cheapest` where a stage as a whole is recomputed or not."""


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
    """Nodes in a topological order, and messages between them, with their costs by option.

    most_devices, most_sum: how many devices there are, and the most that the degrees may add up to.
    """

    traffic: Traffic
    costs: StageCosts
    memory: StageMemory
    most_devices: int
    most_sum: int

    def __len__(self) -> int:
        return self.traffic.nodes

    def measured(self, nodes: Sequence[int], option: int, flights: int) -> PiperStage | None:
        """A stage, with what it must recompute so that ``flights`` micro-batches in flight fit; None if they cannot."""
        costs, memory, members = self.costs, self.memory, list(nodes)
        inside = np.zeros(len(self), bool)
        inside[members] = True
        sent, received = self.traffic.crossing(inside)
        g = int(memory.group[option])
        moved_s = float(costs.send_s[option, sent].sum() + costs.receive_s[option, received].sum())
        compute_s = float(costs.compute_s[option, members].sum())
        if costs.has_params[members].any():
            compute_s += float(costs.fixed_s[option])
        cap = memory.cap_bytes - float(memory.workspace_bytes[g, members].max())
        cap -= flights * float(memory.received_bytes[g, received].sum())
        plain = memory.held_bytes[g] + flights * memory.kept_bytes[g]
        again = memory.held_again_bytes[g] + flights * memory.kept_again_bytes[g]
        over = float(plain[members].sum()) - cap
        recomputed: list[int] = []
        if over > 0 and not memory.by_layer:
            recomputed, over = members, float(again[members].sum()) - cap
        elif over > 0:
            for node in memory.cheapest[g, flights - 1].tolist():
                if over <= 0 or node < 0:
                    break
                if inside[node]:
                    recomputed.append(node)
                    over -= float(plain[node] - again[node])
        compute_s += float(costs.again_s[option, recomputed].sum()) if recomputed else 0.0
        seconds = max(compute_s, moved_s) if costs.beside else compute_s + moved_s
        if over > 0 or not np.isfinite(seconds):
            return None
        return PiperStage(
            tuple(sorted(members)), option, flights, tuple(sorted(recomputed)), compute_s, moved_s, seconds
        )
