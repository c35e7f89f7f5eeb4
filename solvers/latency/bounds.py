"""Lower bounds on the latency of one sample, from one path through the graph at a time.

However operators are placed, a path falls into stretches in one call each and operators on CPUs,
one after the other. A stretch lasts as long as its call: the compute and the messages that cross the
call's boundary, of which a minimum cut is the least. Memory limits how long a stretch can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.latency.max_flow_kernel import Network
from solvers.latency.model import LatencyModel
from solvers.latency.path_cut_kernel import Order, shortest, stretches_from

MOST_OPERATORS = 3000
"""With more operators the tables of who comes before whom get too large."""

TIE = 1e-4
"""Weight of what a path is not chosen by: among paths equal in the rest the heavier one proves more."""

Check = Callable[[], None]


def order_of(model: LatencyModel) -> Order:
    """The kernel's view of a model; times and caps are those of the best accelerator."""
    graph = model.problem.graph
    count = len(graph)
    above = np.zeros((count, count), bool)
    for v in graph.topological_order:
        for u in graph.predecessors[v]:
            above[v] |= above[u]
            above[v, u] = True
    return Order(
        above,
        np.ascontiguousarray(above.T),
        model.group_of,
        model.members.start,
        model.members.items,
        model.group_bytes,
        np.asarray(model.allowed[:, :-1].any(axis=1)),
        model.acc_s.min(axis=0, initial=np.inf),
        np.where(model.allowed[model.group_of, -1], model.cpu_s, np.inf),
        float(model.caps[:-1].max(initial=0.0)),
    )


def path_bound_s(
    model: LatencyModel, order: Order, path: Ints, pieces: int | None, below_s: float, check: Check, net: Network
) -> float:
    """Seconds that no plan with at most ``pieces`` pieces per accelerator (None: any number) beats.

    At most ``below_s``, which should be the best latency known: it cuts the work short. path:
    operators, each a successor of the one before. Calls ``check`` often.
    """
    fastest = np.minimum(order.acc_s, order.cpu_s)[path]
    rest_s = np.concatenate([[0.0], np.cumsum(fastest)])
    stretch_s = np.full((len(path), len(path)), np.inf)
    for first in range(len(path)):
        check()
        stretch_s[first] = stretches_from(model.calls, order, path, first, pieces == 1, rest_s, below_s, net)
    most = len(path) if pieces is None else min(model.accelerators * pieces, len(path))
    return min(shortest(path, stretch_s, order.cpu_s, most), below_s)


def paths(model: LatencyModel, seed: int = 0) -> Iterator[Ints]:
    """Paths from a source to a sink that are heavy in compute, in messages, in bytes; then in mixtures."""
    graph = model.problem.graph
    calls = model.calls
    sent = np.zeros(len(graph))
    for operator in range(len(graph)):
        sent[operator] = calls.message_s[calls.sent[calls.sent_start[operator] : calls.sent_start[operator + 1]]].sum()
    nbytes = model.group_bytes[model.group_of]
    weights = [w / max(float(w.sum()), 1e-300) for w in (calls.seconds[0], calls.seconds[-1], sent, nbytes)]
    rng = np.random.default_rng(seed)
    seen: set[tuple[int, ...]] = set()
    mixtures = [np.array(row) + TIE for row in ((1, 1, 0, 0), (1, 1, 1, 1), (0, 0, 0, 1), (0, 0, 1, 0))]
    while True:
        mixture = mixtures.pop(0) if mixtures else rng.dirichlet(np.ones(4) * 0.5)
        weight = np.tensordot(mixture, np.array(weights), 1)
        path = _heaviest(model, weight if len(seen) < 4 else weight * rng.uniform(0.5, 1.5, len(graph)))
        if (key := tuple(path.tolist())) not in seen:
            seen.add(key)
            yield path
        elif not mixtures:
            return


def _heaviest(model: LatencyModel, weight: Floats) -> Ints:
    graph = model.problem.graph
    total = np.zeros(len(graph))
    came_from = np.full(len(graph), -1, np.int64)
    for v in graph.topological_order:
        for u in graph.predecessors[v]:
            if came_from[v] < 0 or total[u] > total[came_from[v]]:
                came_from[v] = u
        total[v] = weight[v] + (total[came_from[v]] if came_from[v] >= 0 else 0.0)
    path = [int(np.argmax(total))]
    while came_from[path[-1]] >= 0:
        path.append(int(came_from[path[-1]]))
    return np.array(path[::-1], np.int64)
