"""How quiet a machine is: a fixed piece of work, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import fmean, pstdev

import torch

REPEATS = 30
PIECE_S = 5e-3
"""About how long one piece takes: as long as a step of a plan that is worth running."""
WIDTH = 192
"""Of the square matrices: they stay in the cache of a core, so that memory is not what is measured."""
BEST_SHARE = 0.5


def probe(
    device: torch.device | None = None, repeats: int = REPEATS, now: Callable[[], float] = time.perf_counter
) -> float:
    """The coefficient of variation of a fixed piece of work of this process, over the faster half of the
    repeats: what even the best runs of a plan are blurred by. Takes some 0.2 s."""
    device = torch.device("cpu") if device is None else device
    matrix = torch.full((WIDTH, WIDTH), 1.0 / WIDTH, device=device)

    def piece(times: int) -> float:
        before = now()
        for _ in range(times):
            torch.mm(matrix, matrix)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return now() - before

    piece(10)
    once = min(piece(10) for _ in range(3)) / 10
    times = max(1, min(10_000, round(PIECE_S / once))) if once > 0 else 1
    return variation([piece(times) for _ in range(repeats)])


def variation(seconds: Sequence[float]) -> float:
    """Standard deviation over mean of the faster half; 0 for fewer than two."""
    best = sorted(seconds)[: max(2, round(len(seconds) * BEST_SHARE))]
    mean = fmean(best) if best else 0.0
    return pstdev(best) / mean if mean > 0 else 0.0
