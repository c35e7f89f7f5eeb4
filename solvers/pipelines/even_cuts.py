"""Cut an order of super-operators into parts of nearly equal loads, for devices that run several in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from solvers.coarsening.contracted import Contracted
from solvers.kernels.arrays import Floats, Ints

MOST_PLACES = 800
"""Places to cut at that are looked at; of long orders those that send least, evenly spread."""


def even_cuts(
    contracted: Contracted,
    order: Sequence[int],
    parts: int,
    in_flight: Sequence[int],
    cap_bytes: float,
    transfer_weight: float,
    check: Callable[[], None],
) -> tuple[int, ...]:
    """Where to cut ``order`` into exactly ``parts``, both ends included; () if memory does not allow it.

    The least sum of squares of compute plus ``transfer_weight`` x what both ends send and receive: a device
    that runs several parts has the sum of their loads, which is even if each is. Part i, with ``in_flight[i]``
    micro-batches in flight, holds at most ``cap_bytes``. Calls ``check`` for every part.
    """
    nodes = np.asarray(order, np.int64)
    sends_s = _crossing_s(contracted, nodes)
    load_s = _before(contracted.acc_s[nodes])
    places = _places(load_s, sends_s, max(MOST_PLACES, 4 * parts))
    load_s, sends_s = load_s[places], sends_s[places]
    static, saved = _before(contracted.static_bytes[nodes])[places], _before(contracted.saved_bytes[nodes])[places]
    ends_s = transfer_weight * (sends_s[:, None] + sends_s[None, :])
    squared = (load_s[None, :] - load_s[:, None] + ends_s) ** 2
    squared[np.tril_indices(len(places))] = np.inf

    def costs() -> Iterator[Floats]:
        for flights in in_flight[:parts]:
            check()
            held = (static[None, :] - static[:, None]) + flights * (saved[None, :] - saved[:, None])
            yield np.where(held > cap_bytes, np.inf, squared)

    least, cuts = cheapest(costs(), np.add)
    return tuple(int(places[at]) for at in cuts) if np.isfinite(least) else ()


def cheapest(costs: Iterable[Floats], join: np.ufunc) -> tuple[float, list[int]]:
    """The least joined cost of consecutive parts of all places, and where they begin and end.

    costs: of every part, from the first on, by where it begins and ends, [places, places]; inf where it cannot.
    """
    best, came_from = np.zeros(0), list[Ints]()
    for cost in costs:
        if not came_from:
            best = np.full(len(cost), np.inf)
            best[0] = 0.0
        values = join(best[:, None], cost)
        came_from.append(values.argmin(axis=0))
        best = values.min(axis=0)
    cuts = [len(best) - 1]
    for row in reversed(came_from):
        cuts.append(int(row[cuts[-1]]))
    return float(best[-1]), cuts[::-1]


def _before(values: Floats) -> Floats:
    """Sums of what is before every place, [places]."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _crossing_s(contracted: Contracted, nodes: Ints) -> Floats:
    """Seconds per sample of the hyperedges that a cut at every place splits, [places]."""
    position = np.empty(len(nodes), np.int64)
    position[nodes] = np.arange(len(nodes))
    change = np.zeros(len(nodes) + 1)
    for net, pins in enumerate(contracted.shape.nets):
        at = position[list(pins)]
        change[at.min() + 1] += contracted.net_s[net]
        change[at.max() + 1] -= contracted.net_s[net]
    return np.maximum(np.cumsum(change), 0.0)


def _places(load_s: Floats, sends_s: Floats, most: int) -> Ints:
    """The ends, and of stretches of equal load the places that send least."""
    if len(load_s) <= most:
        return np.arange(len(load_s))
    total = max(float(load_s[-1]), 1e-300)
    stretch = np.minimum((load_s / total * (most - 2)).astype(np.int64), most - 3)
    chosen = {0, len(load_s) - 1}
    for number in np.unique(stretch):
        inside = np.flatnonzero(stretch == number)
        chosen.add(int(inside[sends_s[inside].argmin()]))
    return np.array(sorted(chosen), np.int64)
