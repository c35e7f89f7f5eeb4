"""The links of a cluster: one by one, or by class, where a pair's link is made when somebody asks for it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from operator import eq
from typing import NamedTuple, overload

from solvers.errors import InvalidProblem
from solvers.problem.names import clean_names

MAX_GROUPS = 2_048
"""Groups of devices whose links differ: of any two of them the class is written down."""
_RESERVED = re.compile(r"(device|lane|in|out) [0-9]+")
"""Resources of the simulator that are not links."""


@dataclass(frozen=True, slots=True)
class Link:
    """A directed connection. Links that name the same ``resource`` share one wire."""

    src: int
    dst: int
    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    resource: str = ""

    def __post_init__(self) -> None:
        clean_names(self, "resource")

    def transfer_s(self, nbytes: float) -> float:
        return self.latency_s + nbytes / self.bandwidth_bytes_per_s


class Wire(StrEnum):
    """Which transfers take turns on one wire. Of links inside a node PAIR: those from one device to another (NVLinks
    from each to each); PORT: all that a device sends (a switch); HOST: all of the node (PCIe through one root). Of
    links between nodes PAIR; ADAPTER: all that a device sends; NODE: all that a node sends; NODES: those from one node
    to another."""

    PAIR = "pair"
    PORT = "port"
    HOST = "host"
    ADAPTER = "adapter"
    NODE = "node"
    NODES = "nodes"

    def resource(self, src: int, dst: int, a: int, b: int) -> str:
        """The resource of a link between devices of these numbers, of nodes a and b."""
        return _NAMES[self].format(src=src, dst=dst, a=a, b=b)


_NAMES = {
    Wire.PAIR: "{src}->{dst}",
    Wire.PORT: "port {src}",
    Wire.HOST: "host {a} root",
    Wire.ADAPTER: "adapter {src}",
    Wire.NODE: "node{a} adapter",
    Wire.NODES: "node{a}->node{b}",
}
INSIDE = (Wire.PAIR, Wire.PORT, Wire.HOST)
BETWEEN = (Wire.PAIR, Wire.ADAPTER, Wire.NODE, Wire.NODES)


@dataclass(frozen=True, slots=True)
class LinkClass:
    """What links have in common."""

    bandwidth_bytes_per_s: float
    latency_s: float
    wire: Wire


class Speed(NamedTuple):
    """What is alike of the links of a cluster. inside: of devices whose ``node`` is one; from_cpu, to_cpu: whether a
    CPU sends, or receives."""

    latency_s: float
    bandwidth_bytes_per_s: float
    inside: bool
    from_cpu: bool
    to_cpu: bool


Sort = tuple[int, bool]
"""Of a device: its group, and whether it is a CPU."""


@dataclass(frozen=True, slots=True, eq=False)
class Tiers(Sequence[Link]):
    """The links of all ordered pairs of devices, by class: as a sequence in the order of their pairs, each made when it
    is asked for.

    numbers: of each device, and nodes: the node of each, as names of wires have them. groups: of each device; those of
    one node are of one group. within: the class of links inside a node of each group. between: that from a node of one
    group to another node of another, or of the same. None where there is no such pair. Made by `tiers_of`, so that
    equal links are equal tiers. Raises InvalidProblem.
    """

    numbers: tuple[int, ...]
    nodes: tuple[int, ...]
    groups: tuple[int, ...]
    within: tuple[LinkClass | None, ...]
    between: tuple[tuple[LinkClass | None, ...], ...]

    def __post_init__(self) -> None:
        count, groups = len(self.numbers), len(self.within)
        if not len(self.nodes) == len(self.groups) == count:
            raise InvalidProblem(f"links by class: {count} devices, {len(self.nodes)} nodes, {len(self.groups)} groups")
        if len(set(self.numbers)) < count:
            raise InvalidProblem("links by class: two devices have one number")
        if len(self.between) != groups or any(len(row) != groups for row in self.between):
            raise InvalidProblem(f"links by class: between {groups} groups there must be {groups} x {groups} classes")
        of_node = dict(zip(self.nodes, self.groups, strict=True))
        if any(of_node[node] != group for node, group in zip(self.nodes, self.groups, strict=True)):
            raise InvalidProblem("links by class: the devices of a node must be of one group")
        if any(not 0 <= group < groups for group in of_node.values()):
            raise InvalidProblem(f"links by class: a group that is not among the {groups}")
        sizes, nodes_of = Counter(self.nodes), Counter(of_node.values())
        shared = {group for node, group in of_node.items() if sizes[node] > 1}
        for group in nodes_of:
            _check_class(self.within[group] if group in shared else None, group in shared, INSIDE)
            for other in nodes_of:
                joined = group != other or nodes_of[group] > 1
                _check_class(self.between[group][other] if joined else None, joined, BETWEEN)

    def __eq__(self, other: object) -> bool:
        """Of equal tiers, and of a tuple that has the same links one by one."""
        if isinstance(other, tuple):
            return len(self) == len(other) and all(map(eq, self, sorted(other, key=lambda link: (link.src, link.dst))))
        return isinstance(other, Tiers) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(len(self))

    def _parts(self) -> tuple[object, ...]:
        return self.numbers, self.nodes, self.groups, self.within, self.between

    def __len__(self) -> int:
        return len(self.numbers) * (len(self.numbers) - 1)

    @overload
    def __getitem__(self, at: int) -> Link: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Link, ...]: ...
    def __getitem__(self, at: int | slice) -> Link | tuple[Link, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        place = at + len(self) if at < 0 else at
        if not 0 <= place < len(self):
            raise IndexError(at)
        src, dst = divmod(place, len(self.numbers) - 1)
        return self.link(src, dst + (dst >= src))

    def __iter__(self) -> Iterator[Link]:
        count = len(self.numbers)
        return (self.link(src, dst) for src in range(count) for dst in range(count) if src != dst)

    def class_of(self, src: int, dst: int) -> LinkClass:
        """The class of the link between two devices."""
        here, there = self.groups[src], self.groups[dst]
        link_class = self.within[here] if self.nodes[src] == self.nodes[dst] else self.between[here][there]
        assert link_class is not None
        assert src != dst
        return link_class

    def link(self, src: int, dst: int) -> Link:
        of = self.class_of(src, dst)
        name = of.wire.resource(self.numbers[src], self.numbers[dst], self.nodes[src], self.nodes[dst])
        return Link(src, dst, of.bandwidth_bytes_per_s, of.latency_s, name)

    def part(self, devices: Sequence[int]) -> Tiers:
        """The links between some of the devices, in this order."""
        return tiers_of(
            [self.numbers[d] for d in devices],
            [self.nodes[d] for d in devices],
            [self.groups[d] for d in devices],
            self.within.__getitem__,
            lambda here, there: self.between[here][there],
        )

    def at_speed(self, latency_s: float, bandwidth_bytes_per_s: float) -> Tiers:
        """The same links, all with this latency and bandwidth."""

        def fast(of: LinkClass | None) -> LinkClass | None:
            return None if of is None else LinkClass(bandwidth_bytes_per_s, latency_s, of.wire)

        between = tuple(tuple(map(fast, row)) for row in self.between)
        return Tiers(self.numbers, self.nodes, self.groups, tuple(map(fast, self.within)), between)

    def first_on(self, resource: str) -> tuple[int, int] | None:
        """A pair of devices whose link has this wire; None without one."""
        numbers = [int(text) for text in re.findall(r"[0-9]+", resource[:80])]
        at = {number: device for device, number in enumerate(self.numbers)}
        for src in [*{at.get(n, -1) for n in numbers}, *(d for d, node in enumerate(self.nodes) if node in numbers)]:
            for dst in range(len(self.numbers) if src >= 0 else 0):
                if src != dst and self.link(src, dst).resource == resource:
                    return src, dst
        return None

    def speeds(self, nodes: Sequence[int], cpus: Sequence[bool]) -> Counter[Speed]:
        """How many links there are of every speed. nodes, cpus: of the devices, as the cluster has them."""
        sorts = list(zip(self.groups, cpus, strict=True))
        every = Counter(sorts)
        total = Counter({(a, b): every[a] * every[b] for a in every for b in every})
        tier, node = _sharing(sorts, self.nodes), _sharing(sorts, nodes)
        both = _sharing(sorts, list(zip(self.nodes, nodes, strict=True)))
        by_speed: Counter[Speed] = Counter()
        for (a, b), pairs in total.items():
            own = every[a] if a == b else 0
            counts = (
                (True, True, both[a, b] - own), (True, False, tier[a, b] - both[a, b]),
                (False, True, node[a, b] - both[a, b]),
                (False, False, pairs - tier[a, b] - node[a, b] + both[a, b]),
            )  # fmt: skip
            for within, inside, links in counts:
                of = self.within[a[0]] if within else self.between[a[0]][b[0]]
                if links and of is not None:
                    by_speed[Speed(of.latency_s, of.bandwidth_bytes_per_s, inside, a[1], b[1])] += links
        return by_speed

    @property
    def shares_between(self) -> bool:
        """Whether any two links between nodes have one wire."""
        count, nodes = len(self.numbers), len(set(self.nodes))
        rules = {of.wire for row in self.between for of in row if of is not None} - {Wire.PAIR}
        return count > 2 and bool(rules - {Wire.NODES} or (rules and nodes < count))


def tiers_of(
    numbers: Sequence[int],
    nodes: Sequence[int],
    groups: Sequence[int],
    within: Callable[[int], LinkClass | None],
    between: Callable[[int, int], LinkClass | None],
) -> Tiers:
    """Tiers without what no pair of devices uses, groups numbered as they are met first.

    numbers, nodes, groups: of each device. within: of a group, between: of two, the class of their links.
    """
    number = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    if len(number) > MAX_GROUPS:
        raise InvalidProblem(f"links by class: at most {MAX_GROUPS:,} groups, found {len(number):,}")
    sizes = Counter(nodes)
    of_node = dict(zip(nodes, groups, strict=True))
    nodes_of, shared = Counter(of_node.values()), {of_node[node] for node, size in sizes.items() if size > 1}
    return Tiers(
        tuple(numbers),
        tuple(nodes),
        tuple(number[group] for group in groups),
        tuple(within(group) if group in shared else None for group in number),
        tuple(tuple(between(a, b) if a != b or nodes_of[a] > 1 else None for b in number) for a in number),
    )


def check_link(link: Link, devices: int) -> None:
    """Raises InvalidProblem for a link that cannot be between so many devices."""
    where = f"link {link.src} -> {link.dst}"
    if not (0 <= link.src < devices and 0 <= link.dst < devices):
        raise InvalidProblem(f"{where}: no such device")
    if link.src == link.dst:
        raise InvalidProblem(f"{where}: a device needs no link to itself; leave it out")
    if _RESERVED.fullmatch(link.resource):
        raise InvalidProblem(
            f"{where}: the resource {link.resource!r} has the name of a device's own; call it something else"
        )
    _check_speed(where, link.bandwidth_bytes_per_s, link.latency_s)


def _check_speed(where: str, bandwidth_bytes_per_s: float, latency_s: float) -> None:
    if not bandwidth_bytes_per_s > 0:
        raise InvalidProblem(f"{where}: bandwidth must be more than 0 bytes/s, found {bandwidth_bytes_per_s}")
    if not (math.isfinite(latency_s) and latency_s >= 0):
        raise InvalidProblem(f"{where}: latency must be >= 0 s, found {latency_s}")


@lru_cache(4096)
def _check_class(of: LinkClass | None, joined: bool, wires: tuple[Wire, ...]) -> None:
    if not joined:
        return
    where = f"links by class {'inside nodes' if wires is INSIDE else 'between nodes'}"
    if of is None:
        raise InvalidProblem(f"{where}: a class is missing")
    if of.wire not in wires:
        raise InvalidProblem(f"{where}: their wire is one of {', '.join(wires)}, found {of.wire}")
    _check_speed(where, of.bandwidth_bytes_per_s, of.latency_s)


def _sharing(sorts: Sequence[Sort], places: Sequence[object]) -> Counter[tuple[Sort, Sort]]:
    """How many ordered pairs of devices of two sorts are at one place, each with itself among them."""
    at: dict[object, Counter[Sort]] = {}
    for sort, place in zip(sorts, places, strict=True):
        at.setdefault(place, Counter())[sort] += 1
    pairs: Counter[tuple[Sort, Sort]] = Counter()
    for here in at.values():
        for a, some in here.items():
            for b, others in here.items():
                pairs[a, b] += some * others
    return pairs
