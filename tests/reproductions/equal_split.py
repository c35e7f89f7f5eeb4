"""The equal split that Piper is compared with: as many layers in every stage, all stages run alike.

Tarnawski, Narayanan, Phanishayee, NeurIPS 2021, section 6: the planner of PipeDream-2BW (Narayanan et
al., ICML 2021), extended by tensor parallelism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Floats
from tests.reproductions.piper_model import PLAIN, RECOMPUTED, PiperModel


@dataclass(frozen=True, slots=True)
class EqualStages:
    """Stages (layers, ascending) that all have the same degrees and way; bottleneck_s is inf, and there
    are no stages, if nothing fits."""

    bottleneck_s: float
    stages: tuple[tuple[int, ...], ...] = ()
    tensor_degree: int = 1
    data_degree: int = 1
    recomputed: bool = False


NOTHING = EqualStages(math.inf)


def equal_split(
    model: PiperModel, block: str | None = None, *, tensor_parallel: bool = True, separate: bool = True
) -> EqualStages:
    """The best equal split over numbers of stages, both degrees, and recomputation everywhere or nowhere.

    block: the name of the layers that are divided equally; what comes before any of them goes with the
    first stage, what remains with the last, or (separate) to stages of their own if that is better.
    Without a name all layers are divided. tensor_parallel: whether degrees above 1 are tried.
    """
    blocks = [v for v in range(len(model)) if block is None or model.names[v] == block]
    first, last = _around(model, blocks)
    best = NOTHING
    for own in (0, 1) if separate and block is not None else (0,):
        for count in range(1, min(len(blocks), model.most_degrees - 2 * own) + 1):
            sizes = [len(blocks) // count + (i >= count - len(blocks) % count) for i in range(count)]
            ends = np.cumsum(sizes).tolist()
            stages = [blocks[end - size : end] for end, size in zip(ends, sizes, strict=True)]
            if own:
                stages = [first, *stages, last]
            else:
                stages[0], stages[-1] = first + stages[0], stages[-1] + last
            if all(stages):
                best = min(best, _degrees(model, stages, tensor_parallel), key=lambda split: split.bottleneck_s)
    return best


def _around(model: PiperModel, blocks: list[int]) -> tuple[list[int], list[int]]:
    """The other layers: those that a block is reached from, and the rest."""
    ahead = set(blocks)
    for u, v in sorted(model.edges, reverse=True):
        if v in ahead:
            ahead.add(u)
    others = [v for v in range(len(model)) if v not in set(blocks)]
    return [v for v in others if v in ahead], [v for v in others if v not in ahead]


def _degrees(model: PiperModel, stages: list[list[int]], tensor_parallel: bool) -> EqualStages:
    """The best degrees and way for stages given."""
    count = len(stages)
    stage_of = np.zeros(len(model), np.int64)
    for number, layers in enumerate(stages):
        stage_of[layers] = number
    ends = stage_of[np.array(model.edges, np.int64).reshape(-1, 2)]
    crosses = ends[:, 0] != ends[:, 1]
    flights = count - np.arange(count)

    def sums(values: Floats, label: NDArray[np.int64] = stage_of) -> Floats:
        return np.asarray(np.bincount(label, values, count), np.float64)

    best = NOTHING
    for t, degree in enumerate(model.degrees):
        if not model.able[t].all() or (degree > 1 and not tensor_parallel):
            continue
        sent = np.where(crosses, 2 * (model.edge_bytes + model.scatter_bytes[t]), 0.0)
        received = np.where(crosses, 2 * (model.edge_bytes + model.gather_bytes[t]), 0.0)
        moved, params = sums(sent, ends[:, 0]) + sums(received, ends[:, 1]), sums(model.param_bytes[t])
        for way in (PLAIN, RECOMPUTED):
            nbytes = flights * sums(model.per_flight_bytes[t, :, way]) + sums(model.fixed_bytes[t, :, way])
            time_s = sums(model.time_s[t, :, way])
            if (nbytes > model.memory_bytes).any() or not np.isfinite(time_s).all():
                continue
            for d in model.data_degrees(degree):
                if count * d > model.most_degrees or count * d * degree > model.devices:
                    continue
                in_bytes = moved / d + model.synchronised_bytes(params, d)
                seconds = float((time_s / d + in_bytes / model.bandwidth_bytes_per_s).max())
                if seconds < best.bottleneck_s:
                    best = EqualStages(
                        seconds, tuple(tuple(sorted(layers)) for layers in stages), degree, d, way == RECOMPUTED
                    )
    return best
