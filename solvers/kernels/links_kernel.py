"""The link between two devices, from tables of classes: as large as the classes are, not as the pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit

NO_LINK = 0
"""The class of pairs without a link."""
ALIKE = 1
"""The class of all links of a table that has no other."""


class LinkTable(NamedTuple):
    """The links of a cluster. A wire has the number of the first pair of devices that uses it, in the order of pairs,
    src * devices + dst: ``whole`` of its class, and, by the rule of the class, what it has of its two ends."""

    node: Ints
    """[devices]"""
    group: Ints
    """[devices]"""
    within: Ints
    """[groups] the class of links between devices of one node of the group"""
    between: Ints
    """[groups, groups] the class of links between devices of two nodes"""
    latency_s: Floats
    """[classes] s, inf for NO_LINK"""
    bandwidth: Floats
    """[classes] B/s, 0 for NO_LINK"""
    rule: Ints
    """[classes] into head and tail"""
    whole: Ints
    """[classes] the number of the wire, where all links of the class have that one"""
    head: Ints
    """[rules, devices] what the sender has of a wire's number"""
    tail: Ints
    """[rules, devices] what the receiver has of it"""


def table_of_one(latency_s: float, bandwidth: float) -> LinkTable:
    """The table of links of one class, which says nothing of devices."""
    one, none = np.array([ALIKE]), np.zeros(1, np.int64)
    latency, rate, rule = np.array([np.inf, latency_s]), np.array([0.0, bandwidth]), np.zeros(2, np.int64)
    ends = np.zeros((1, 1), np.int64)
    return LinkTable(none, none, one, one.reshape(1, 1), latency, rate, rule, rule, ends, ends)


@njit(cache=True)
def class_of(table: LinkTable, src: int, dst: int) -> int:
    """The class of the link between two devices; NO_LINK from one to itself."""
    if src == dst:
        return NO_LINK
    if table.node[src] == table.node[dst]:
        return int(table.within[table.group[src]])
    return int(table.between[table.group[src], table.group[dst]])


@njit(cache=True)
def wire_of(table: LinkTable, link: int, src: int, dst: int) -> int:
    """The number of the wire between two devices, whose link is of class ``link``."""
    rule = table.rule[link]
    return int(table.whole[link] + table.head[rule, src] + table.tail[rule, dst])
