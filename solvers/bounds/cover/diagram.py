"""All sets of one accelerator as a layered decision diagram.

Groups are decided one after the other, in or out. What matters about the decisions so far is, for
every hyperedge with some pins decided and some not, whether its decided pins are all out, all in or
mixed; when it becomes mixed, its seconds are paid. Sets that agree on that share a node, so graphs
that are narrow in some order have small diagrams, and the best set is a longest path with one
resource: the load. Orders of deciding groups in which few hyperedges are open at a time have a small vertex separation.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from solvers.bounds.cover.model import CoverModel
from solvers.bounds.cover.pricing_kernel import Layers
from solvers.kernels.arrays import Floats, Ints, inverse

TIE_BREAKING = (0.0, 0.3, 1.0, 2.0)
"""Weights of chance against greed; graphs differ in which gives the narrowest order."""
WIDE = 1.6
"""Bits of a hyperedge with three or more pins (out, in or mixed); two pins are one bit of the first."""


def orders(model: CoverModel, tries: int, seed: int = 0) -> Iterator[list[int]]:
    """The groups as they are numbered, then greedy orders with some chance."""
    yield list(range(len(model)))
    rng = random.Random(seed)
    frontier = _Frontier(model)
    for attempt in range(tries):
        yield frontier.order(rng.randrange(len(model)), TIE_BREAKING[attempt % len(TIE_BREAKING)], rng)


class _Frontier:
    """Which groups and hyperedges are decided in part."""

    def __init__(self, model: CoverModel) -> None:
        self.near: list[set[int]] = [set() for _ in range(len(model))]
        self.wide: list[list[int]] = [[] for _ in range(len(model))]
        self.pins = model.nets
        for net, pins in enumerate(model.nets):
            if len(pins) == 2:
                self.near[pins[0]].add(pins[1])
                self.near[pins[1]].add(pins[0])
            else:
                for pin in pins:
                    self.wide[pin].append(net)

    def order(self, start: int, chance: float, rng: random.Random) -> list[int]:
        """Always the group that adds least to the frontier; of equals, the one it waits for longest."""
        undecided = [len(near) for near in self.near]
        left = [len(pins) for pins in self.pins]
        groups: dict[int, int] = {}  # decided groups with undecided neighbours -> since when
        nets: dict[int, int] = {}
        waiting = set(range(len(self.near)))
        order: list[int] = []
        group = start
        while True:
            waiting.discard(group)
            order.append(group)
            for other in self.near[group]:
                undecided[other] -= 1
                if undecided[other] == 0:
                    groups.pop(other, None)
            if undecided[group]:
                groups[group] = len(order)
            for net in self.wide[group]:
                left[net] -= 1
                if left[net]:
                    nets.setdefault(net, len(order))
                else:
                    nets.pop(net, None)
            if not waiting:
                return order
            near = {other for g in groups for other in self.near[g] if other in waiting}
            near |= {other for net in nets for other in self.pins[net] if other in waiting}

            def cost(candidate: int) -> tuple[float, int, int]:
                added = float(undecided[candidate] > 0)
                since = len(order) + 1
                for other in self.near[candidate]:
                    if other in groups:
                        since = min(since, groups[other])
                        added -= undecided[other] == 1
                for net in self.wide[candidate]:
                    if net in nets:
                        since = min(since, nets[net])
                        added -= WIDE * (left[net] == 1)
                    else:
                        added += 0.7 * WIDE
                return added + chance * rng.random(), since, candidate

            group = min(sorted(near or waiting), key=cost)


OPEN_LIMIT = 31
"""Hyperedges that can be open at once: a node's key has two bits for each."""
OUT, IN, MIXED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Diagram:
    """Layer i of ``layers`` decides group ``order[i]``; what is moved are seconds of hyperedges that become mixed.

    exact: no hyperedge was forgotten to keep the diagram small (otherwise a path's communication may be less than its
    set's).
    """

    order: Ints
    layers: Layers
    exact: bool


def diagram_of(model: CoverModel, target_s: float, *, most: int = 400_000, tries: int = 60, seed: int = 0) -> Diagram:
    """The smallest diagram, in a few orders, of all sets with a load of at most ``target_s``.

    If none has at most ``most`` nodes, one in which the lightest hyperedges are forgotten.
    """
    net_of = inverse(model.nets, len(model))
    best = None
    for order in orders(model, tries, seed):
        limit = most if best is None else len(best.layers.child)
        best = _build(model, net_of, order, target_s, limit, forget=False) or best
    if best is None:
        order = next(orders(model, 0))
        best = _build(model, net_of, order, target_s, most, forget=True)
    assert best is not None, "a diagram that forgets always fits"
    return best


def _build(
    model: CoverModel, net_of: list[list[int]], order: list[int], target_s: float, limit: int, *, forget: bool
) -> Diagram | None:
    """The diagram for one order; None if it has more than ``limit`` nodes (then, with ``forget``,
    the lightest open hyperedges are forgotten instead)."""
    nets = _OpenNets(model)
    keys, least_s = np.zeros(1, np.int64), np.zeros(1)
    layer, children, moves = [0, 1], [], []
    nodes = 1
    width = max(64, 4 * limit // max(len(order), 1))
    for group in order:
        touched = [net for net in net_of[group] if net not in nets.forgotten]
        fresh = {net for net in touched if net not in nets.slot}
        while len(fresh) > len(nets.unused):
            if not forget:
                return None
            lightest = nets.lightest(fresh)
            if lightest in nets.slot:
                keys = keys & nets.close(lightest)
            fresh.discard(lightest)
            touched = [net for net in touched if net != lightest]
            nets.forgotten.add(lightest)
        options = nets.decide(keys, touched, fresh)
        reached, loads = [], []
        for choice, (key, moved) in enumerate(options):
            compute_s = float(model.acc_s[group]) if choice == IN and not model.overlapped else 0.0
            now_s = least_s + moved + compute_s
            possible = now_s <= target_s if choice == OUT or model.allowed[group] else np.zeros(len(key), bool)
            reached.append(np.where(possible, key, -1))
            loads.append(now_s)
        every, index = np.unique(np.concatenate([*reached, [-1]]), return_inverse=True)
        while forget and len(every) > width and nets.slot:
            lightest = nets.lightest()
            clear = nets.close(lightest)
            reached = [np.where(key >= 0, key & clear, -1) for key in reached]
            nets.forgotten.add(lightest)
            every, index = np.unique(np.concatenate([*reached, [-1]]), return_inverse=True)
        count = len(keys)
        child = np.stack([index[:count], index[count : 2 * count]], axis=1) - 1 + nodes  # every[0] is -1
        child[child < nodes] = -1
        least_s = np.full(len(every), np.inf)
        np.minimum.at(least_s, index[: 2 * count], np.concatenate(loads))
        keys, least_s = every[1:], least_s[1:]
        children.append(child)
        moves.append(np.stack([moved for _, moved in options], axis=1))
        nodes += len(keys)
        layer.append(nodes)
        if nodes > limit and not forget:
            return None
    children.append(np.full((len(keys), 2), -1, np.int64))
    moves.append(np.zeros((len(keys), 2)))
    child = np.concatenate(children)
    into = child.ravel()
    arcs = np.argsort(into, kind="stable")
    arcs = arcs[into[arcs] >= 0]
    arcs_start = np.searchsorted(into[arcs], np.arange(len(child) + 1))
    layers = Layers(np.array(layer, np.int64), child, np.concatenate(moves), arcs_start, arcs)
    return Diagram(np.array(order, np.int64), layers, not nets.forgotten)


class _OpenNets:
    """Hyperedges with some pins decided and some not: each has a slot of two bits in the keys of nodes."""

    def __init__(self, model: CoverModel) -> None:
        self.net_s = model.net_s
        self.left = [len(pins) for pins in model.nets]  # undecided pins
        self.slot: dict[int, int] = {}
        self.unused = list(range(OPEN_LIMIT - 1, -1, -1))
        self.forgotten: set[int] = set()

    def lightest(self, more: Iterable[int] = ()) -> int:
        return min([*self.slot, *more], key=lambda net: self.net_s[net])

    def close(self, net: int) -> np.int64:
        """Free the slot of a hyperedge; the mask that clears it from keys."""
        place = self.slot.pop(net)
        self.unused.append(place)
        return ~np.int64(3 << 2 * place)

    def decide(self, keys: Ints, touched: list[int], fresh: set[int]) -> list[tuple[Ints, Floats]]:
        """Keys after deciding a group out and in, and the seconds of what becomes mixed; ``fresh`` ones are opened,
        those without undecided pins closed."""
        for net in touched:
            self.left[net] -= 1
        for net in fresh:
            self.slot[net] = self.unused.pop()
        options = [_decide(keys, self.slot, fresh, touched, self.net_s, choice) for choice in (OUT, IN)]
        for net in touched:
            if self.left[net] == 0:
                clear = self.close(net)
                options = [(key & clear, moved) for key, moved in options]
        return options


def _decide(
    keys: Ints, slot: dict[int, int], fresh: set[int], touched: list[int], net_s: Floats, choice: int
) -> tuple[Ints, Floats]:
    """Keys after deciding a group, and the seconds of the hyperedges that become mixed by it."""
    moved = np.zeros(len(keys))
    after = keys.copy()
    for net in touched:
        shift = 2 * slot[net]
        if net in fresh:
            after |= np.int64(choice << shift)
            continue
        status = (keys >> shift) & 3
        mixes = (status != MIXED) & (status != choice)
        moved += np.where(mixes, net_s[net], 0.0)
        after = np.where(mixes, (after & ~np.int64(3 << shift)) | np.int64(MIXED << shift), after)
    return after, moved
