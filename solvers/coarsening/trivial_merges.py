"""Operators without work join their only neighbour: what keeps the number of downsets small.

Tarnawski et al., NeurIPS 2020, appendix: GNMT has 17,914 downsets with these merges and more than
3,000,000 without.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from solvers.kernels.arrays import Bools, Ints

TRIVIAL_S = 1e-9
"""Seconds per sample below which an operator may be merged into its neighbour (published: 1e-6 ms)."""
TRIVIAL_SHARE = 1e-9
"""... and as a share of all work, so that merging cannot be seen in an objective."""

Ends = tuple[Sequence[int], Sequence[int]]
"""The makers and the readers of a message."""


def merge_leaves(
    edges: Iterable[tuple[int, int]],
    messages: Iterable[Ends],
    trivial: Bools,
    somewhere: Bools,
    everywhere: Bools,
    *,
    directed: bool,
) -> Ints:
    """Node -> the node it is merged into, to a fixpoint (itself if it stays).

    A trivial node with exactly one neighbour in the forward graph joins that neighbour. messages:
    those that take time. No load grows: the node has no work, is as widely supported, and taking it
    to its neighbour's set makes no device send or receive more (`_harmless`). somewhere, everywhere: whether
    accelerators of some kind, and of every kind, can run it. directed: this holds
    for sending and for receiving, not only for their sum.
    """
    count = len(trivial)
    near: list[set[int]] = [set() for _ in range(count)]
    for u, v in edges:
        near[u].add(v)
        near[v].add(u)
    if not any(trivial[node] and len(near[node]) == 1 for node in range(count)):
        return np.arange(count)
    on: list[list[_Message]] = [[] for _ in range(count)]
    for makers, readers in messages:
        message = set(makers), set(readers)
        for node in message[0] | message[1]:
            on[node].append(message)
    into = list(range(count))
    todo = [node for node in range(count) if trivial[node]]
    while todo:
        node = todo.pop()
        if into[node] != node or len(near[node]) != 1:
            continue
        (host,) = near[node]
        if somewhere[host] and not everywhere[node]:
            continue
        if not all(_harmless(node, host, message, directed) for message in on[node]):
            continue
        into[node] = host
        near[host].discard(node)
        for message in on[node]:
            for ends in message:
                if node in ends:
                    ends.discard(node)
                    ends.add(host)
        todo += [other for other in (host, *near[host]) if trivial[other]]
    for node in range(count):
        while into[into[node]] != into[node]:
            into[node] = into[into[node]]
    return np.array(into, np.int64)


_Message = tuple[set[int], set[int]]


def _harmless(node: int, host: int, message: _Message, directed: bool) -> bool:
    """Whether no set that has ``host`` pays more for a message once it also has ``node``, nor any set
    that loses ``node``.

    A message with one maker or one reader costs every set that it splits one transfer, so it is
    enough that the host is on it. Otherwise, or if sending and receiving count apart, the host must
    play the node's part already, or the message must end between the two.
    """
    makers, readers = message
    pair = {node, host}
    if makers | readers <= pair:
        return True
    if host not in makers and host not in readers:
        return False
    if not directed and (len(makers) == 1 or len(readers) == 1):
        return True
    sends_alike = node not in makers or host in makers or readers <= pair
    reads_alike = node not in readers or host in readers or makers <= pair
    return sends_alike and reads_alike
