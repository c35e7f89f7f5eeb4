"""Piper's optimum from the definition alone: every chain of downsets of a tiny model."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np

from tests.reproductions.piper_model import PiperModel


def random_model(seed: int) -> PiperModel:
    """At most 6 layers, 5 devices, one or two degrees of tensor parallelism; some layers have one way only."""
    rng = random.Random(seed)
    count, devices = rng.randint(2, 6), rng.randint(1, 5)
    degrees = rng.choice([(1,), (1,), (1, 2), (2,)])
    edges = tuple((u, v) for u in range(count) for v in range(u + 1, count) if rng.random() < 0.4)
    shape = (len(degrees), count)
    able = np.array([[rng.random() < 0.97 for _ in range(count)] for _ in degrees])
    time_s = np.array(
        [[[t := rng.randint(0, 9) / 2, t + rng.randint(0, 4) / 3] for _ in range(count)] for _ in degrees]
    )
    per_flight = np.array([[[a := rng.randint(0, 6), rng.randint(0, a)] for _ in range(count)] for _ in degrees], float)
    fixed = np.array([[[b := rng.randint(0, 6), b + rng.randint(0, 3)] for _ in range(count)] for _ in degrees], float)
    for t, v in itertools.product(*map(range, shape)):
        if rng.random() < 0.2:
            time_s[t, v, 1] = math.inf
        elif rng.random() < 0.1:  # the recomputed way is the faster one
            time_s[t, v] = time_s[t, v, ::-1]
    nbytes = [[float(rng.randint(0, 4)) for _ in edges] for _ in range(1 + 2 * len(degrees))]
    return PiperModel(
        tuple("abcdef"[:count]),
        edges,
        np.array(nbytes[0]),
        degrees,
        able,
        time_s,
        np.array([[rng.choice([0, 0, 3, 8]) for _ in range(count)] for _ in degrees], float),
        per_flight,
        fixed,
        np.array(nbytes[1 : 1 + len(degrees)]).reshape(len(degrees), len(edges)),
        np.array(nbytes[1 + len(degrees) :]).reshape(len(degrees), len(edges)),
        devices,
        float(rng.choice([14, 20, 30, 45, 1000])),
        float(rng.choice([2, 10])),
        rng.choice([1, 2, 4, 6, 12]),
    )


def downsets_from_the_sink(model: PiperModel) -> list[frozenset[int]]:
    every = range(len(model))
    sets = [frozenset(s) for size in range(len(model) + 1) for s in itertools.combinations(every, size)]
    return [s for s in sets if all(v in s for u, v in model.edges if u in s)]


def greedy_s(model: PiperModel, layers: frozenset[int], t: int, d: int, flights: int) -> float:
    """Seconds of a stage in which the fastest ways are swapped, least seconds per byte saved first, until it fits."""
    recomputed = {v for v in layers if model.time_s[t, v, 1] < model.time_s[t, v, 0]}

    def takes(again: set[int]) -> float:
        return model.stage_bytes(layers, t, flights, again)

    swaps = []
    for v in layers:
        other = recomputed ^ {v}
        saved = takes(recomputed) - takes(other)
        more_s = model.time_s[t, v, int(v in other)] - model.time_s[t, v, int(v in recomputed)]
        if saved > 0 and math.isfinite(more_s):
            swaps.append((more_s / saved, v))
    for _, v in sorted(swaps):
        if takes(recomputed) <= model.memory_bytes:
            break
        recomputed ^= {v}
    return model.stage_s(layers, t, d, recomputed) if takes(recomputed) <= model.memory_bytes else math.inf


def least_bottleneck_s(model: PiperModel) -> float:
    """The least bottleneck over chains of downsets, degrees, and greedy choices of ways."""
    downsets = downsets_from_the_sink(model)
    everything = frozenset(range(len(model)))
    known: dict[tuple[frozenset[int], int, int], float] = {}

    def stage_s(layers: frozenset[int], t: int, d: int, flights: int) -> float:
        # What runs with more micro-batches in flight also runs with fewer, and takes no longer then.
        return max(greedy_s(model, layers, t, d, y) for y in range(1, flights + 1))

    def best(done: frozenset[int], devices: int, degrees: int) -> float:
        if done == everything:
            return 0.0
        key = (done, devices, degrees)
        if key not in known:
            value = math.inf
            for larger in downsets:
                if not done < larger:
                    continue
                for t, degree in enumerate(model.degrees):
                    for d in range(1, (model.devices - devices) // degree + 1):
                        total = degrees + d
                        if model.micro_batches % d or total > min(model.micro_batches, model.devices):
                            continue
                        seconds = stage_s(larger - done, t, d, -(-total // d))
                        if seconds < value:
                            value = min(value, max(seconds, best(larger, devices + degree * d, total)))
            known[key] = value
        return known[key]

    return best(frozenset(), 0, 0)
