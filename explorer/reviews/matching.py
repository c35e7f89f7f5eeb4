"""Which device of one plan is which of another, and what moved between two placements, by the largest modules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from solvers.plan.plan import Plan
from solvers.problem.cluster import Device

Devices = frozenset[int]
SMALL = 0.05
"""Share of the graph's operators up to which a module is listed as one, though its parts moved differently."""

Change = tuple[str, str]
"""Where from and where to, in words."""


def matched_devices(
    plans: tuple[Plan, Plan], devices: tuple[Sequence[Device], Sequence[Device]]
) -> dict[int, int]:  # fmt: skip
    """Device of the first plan -> device of the second, such that most operators are on both (an assignment of
    maximum weight); of several such, one that keeps the most labels.

    A device without an operator in common with any that is left keeps its label, or has the first one that is free;
    it has no counterpart where none is. Devices of different kinds are matched only if one of the kinds is not there on
    the other side.
    """
    kinds = [{device.kind for device in side} for side in devices]
    first, second = devices

    def alike(i: int, j: int) -> bool:
        a, b = first[i].kind, second[j].kind
        return first[i].is_cpu == second[j].is_cpu and (a == b or a not in kinds[1] or b not in kinds[0])

    many = 2 * (len(first) + len(second)) + 1
    graph: nx.Graph[tuple[int, int]] = nx.Graph()
    for (i, j), count in sorted(_overlaps(*plans).items()):
        if alike(i, j):
            graph.add_edge((0, i), (1, j), weight=count * many + (i == j))
    matches: dict[int, int] = {}
    for a, b in nx.max_weight_matching(graph):
        (_, i), (_, j) = sorted((a, b))
        matches[i] = j
    for i in range(len(first)):  # those that have nothing in common with any that is left
        free = [j for j in range(len(second)) if j not in matches.values() and alike(i, j)]
        if i not in matches and free:
            matches[i] = i if i in free else free[0]
    return dict(sorted(matches.items()))


def renamed(match: Mapping[int, int]) -> dict[int, int]:
    """What of a matching changes its label."""
    return {i: j for i, j in match.items() if i != j}


def _overlaps(first: Plan, second: Plan) -> Counter[tuple[int, int]]:
    """Operators that a device of the first plan and one of the second both hold."""
    there = second.placement()
    return Counter(
        (i, j) for operator, devices in first.placement().items() for i in devices for j in there.get(operator, ())
    )


@dataclass(frozen=True, slots=True)
class Moved:
    """``operators`` of the ``of`` operators of a module (and of those in it) went from somewhere to somewhere else.

    module: its path; "" is the whole graph, or what has no module.
    """

    module: str
    source: str
    target: str
    operators: int
    of: int

    @property
    def whole(self) -> bool:
        """Whether all of the module moved together."""
        return self.operators == self.of


def moved_modules(modules: Sequence[str], changes: Sequence[Change | None]) -> tuple[Moved, ...]:
    """What moved, the most operators first; every operator that did is counted once.

    modules, changes: per operator its module path, and how it moved (None: not at all). A module whose operators all
    moved alike is one entry, and a SMALL one is an entry for every way in which some of it moved; of others the modules
    in them are looked at one by one.
    """
    moved_all: list[Moved] = []
    todo = [("", list(range(len(modules))))]
    while todo:
        path, members = todo.pop()
        among = Counter(changes[i] for i in members)
        if set(among) == {None}:
            continue
        if len(among) == 1 or (path and len(members) <= SMALL * len(modules)):
            moved_all += _counted(path, among, len(members))
            continue
        inner: dict[str, list[int]] = defaultdict(list)
        for i in members:
            inner[_below(path, modules[i])].append(i)
        own = inner.pop(path, [])
        moved_all += _counted(path, Counter(changes[i] for i in own), len(own))
        todo += inner.items()
    return tuple(sorted(moved_all, key=lambda moved: (-moved.operators, moved.module, moved.source, moved.target)))


def _counted(path: str, among: Counter[Change | None], of: int) -> list[Moved]:
    return [Moved(path, *change, count, of) for change, count in among.items() if change is not None]


def _below(path: str, module: str) -> str:
    """The module right below ``path`` that holds ``module``, or ``path`` itself."""
    if module == path:
        return path
    rest = module[len(path) + 1 :] if path else module
    head = rest.partition(".")[0]
    return f"{path}.{head}" if path else head
