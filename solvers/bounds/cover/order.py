"""Orders of deciding groups in which few hyperedges are open at a time (small vertex separation)."""

from __future__ import annotations

import random
from collections.abc import Iterator

from solvers.bounds.cover.model import CoverModel

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
