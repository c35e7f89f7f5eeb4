"""Lower bounds on iteration time: what replicas pay for, heads and tails, and tensors too large to send.

More replicas are done with their micro-batches sooner, but add up gradients for longer and each run the whole update.
Nothing runs before the shortest way to it. A tensor that takes too long to send keeps its two ends on one device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.bounds.sent import sent_s
from solvers.bounds.times import greatest_ruled_out_s, times_of
from solvers.evaluation.columns import best_of_links
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.problem.cluster import Cluster, Ring
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Contiguity, Objective, Problem

THRESHOLDS = 12
"""Heads and tails for which the work between them must fit between them."""


def iteration_bound_s(problem: Problem, choices: Sequence[int], at_least_s: float = 0.0) -> float:
    """A bound for plans in which every operator has one of these numbers of micro-batches, seconds; ``at_least_s``
    where nothing more is proved.

    A time T is ruled out where, with those numbers of replicas alone with which a group of operators that share a
    device can be done by T, the work of all groups, or of those between a head and a tail, does not fit into the
    time of all devices. Without replicas also where operators that would take more than T to send each other one
    tensor, and so share a device, have more than T to do. Only for accelerators of one kind.
    """
    cluster = problem.cluster
    alike = len({device.kind for device in cluster.devices}) == 1 and not cluster.cpus
    if problem.objective is not Objective.ITERATION or not alike or not len(problem.graph):
        return at_least_s
    groups = _groups(problem, choices)
    if problem.max_replicas == 1:
        at_least_s = max(at_least_s, _joined_s(problem, choices, groups))
    return groups.least_s(at_least_s)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Operators that share their devices, for every number of replicas that they may have."""

    replicas: Ints
    """[degrees]"""
    work_s: Floats
    """[groups, degrees] all micro-batches of a group on one of its replicas; inf where samples cannot be divided"""
    update_s: Floats
    """[groups, degrees]"""
    sync_s: Floats
    """[groups, degrees] of its gradients alone, over the fastest links that so many devices have"""
    before_s: Floats
    """[groups] the shortest way to any of its operators"""
    after_s: Floats
    """[groups] the shortest way from any of its operators but updates to the end"""
    devices: int

    def done_s(self) -> Floats:
        """No group is done sooner, [groups, degrees]."""
        last = np.maximum(self.after_s[:, None], self.sync_s + self.update_s)
        return self.before_s[:, None] + self.work_s + last

    def least_s(self, at_least_s: float) -> float:
        """The least time that is not ruled out, within `PRECISION` and no more than that."""
        done = self.done_s()
        low = max(at_least_s, float(done.min(axis=1).max()))
        most = float(done.max(axis=1, where=np.isfinite(done), initial=0.0).sum()) + low
        return greatest_ruled_out_s(lambda time_s: self._ruled_out(time_s, done), low) if np.isfinite(most) else low

    def _ruled_out(self, time_s: float, done_s: Floats) -> bool:
        usable = done_s <= time_s
        device_s = np.where(usable, self.replicas * (self.work_s + self.update_s), np.inf).min(axis=1)
        if float(device_s.sum()) > self.devices * time_s:
            return True
        moving_s = np.where(usable, self.replicas * self.work_s, np.inf).min(axis=1)
        ways_in, ways_out = _thresholds(self.before_s), _thresholds(self.after_s)
        inside = np.zeros((len(ways_in), len(ways_out)))
        row = np.searchsorted(ways_in, self.before_s, side="right") - 1
        column = np.searchsorted(ways_out, self.after_s, side="right") - 1
        np.add.at(inside, (row, column), moving_s)
        inside = np.cumsum(np.cumsum(inside[::-1, ::-1], axis=0), axis=1)[::-1, ::-1]
        room = self.devices * (time_s - ways_in[:, None] - ways_out[None, :])
        return bool(((inside > 0) & (inside > room * (1 + 1e-12))).any())


def _thresholds(ways_s: Floats) -> Floats:
    """A few of these values, ascending, the least one among them."""
    return np.unique(np.quantile(ways_s, np.linspace(0.0, 1.0, THRESHOLDS), method="lower"))


def _groups(problem: Problem, choices: Sequence[int]) -> _Groups:
    graph, cluster, replicas = problem.graph, problem.cluster, problem.degrees()
    times = times_of(problem, choices)
    update = times.update
    head, tail = times.heads_and_tails_s(problem)
    number, count = group_of(graph), len(together(graph))

    def summed(values: Floats, chosen: Bools) -> Floats:
        totals = np.zeros((count, values.shape[1]))
        np.add.at(totals, number[chosen], values[chosen])
        return totals

    before, after = np.full(count, np.inf), np.full(count, np.inf)
    np.minimum.at(before, number, head)
    np.minimum.at(after, number[~update], tail[~update])
    sync = np.zeros((count, len(replicas)))
    if problem.training and problem.contiguity is Contiguity.ACYCLIC and len(replicas) > 1:
        bytes_of = np.where(times.forward, problem.exchanged_bytes(problem.mini_batch), 0.0)
        gradients = np.bincount(number, bytes_of, count) * (np.bincount(number, times.backward, count) > 0)
        fixed, per_byte = _rings(cluster, replicas)
        sync = np.where(gradients[:, None] > 0, fixed + per_byte * gradients[:, None], 0.0)
    return _Groups(
        replicas,
        summed(times.all_s, ~update),
        summed(times.once_s, update),
        sync,
        before,
        np.where(np.isfinite(after), after, 0.0),
        len(cluster),
    )


def _rings(cluster: Cluster, replicas: Ints) -> tuple[Floats, Floats]:
    """Seconds, and seconds a byte, in which so many replicas add up gradients at best, [degrees] each: a ring of more
    devices than a node has goes over links between nodes too."""
    largest = max(Counter(device.node for device in cluster.devices).values())
    any_link, between = best_of_links(cluster), best_of_links(cluster, between=True)
    latency_s, bandwidth = np.where((replicas <= largest)[:, None], any_link, between).T
    rings = [Ring(degree) for degree in replicas.tolist()]
    return np.array([ring.steps for ring in rings]) * latency_s, np.array([r.nbytes(1.0) for r in rings]) / bandwidth


def _joined_s(problem: Problem, choices: Sequence[int], groups: _Groups) -> float:
    """The least time T for which operators fit that share a device as they would take longer than T to send each
    other of one tensor."""
    number, tensors, operators = group_of(problem.graph), problem.graph.tensors, problem.graph.operators
    parent = list(range(len(groups.before_s)))

    def root(group: int) -> int:
        while parent[group] != group:
            parent[group] = parent[parent[group]]
            group = parent[group]
        return group

    _, seconds = sent_s(problem, choices)
    work, before, after = groups.work_s[:, 0].copy(), groups.before_s.copy(), groups.after_s.copy()
    update = groups.update_s[:, 0].copy()
    most_s = float((before + work + np.maximum(after, update)).max())
    for tensor in np.argsort(-seconds, kind="stable").tolist():
        if seconds[tensor] <= most_s:  # with a time between the two nothing more is joined
            return most_s
        if operators[tensors[tensor].producer].replicable:  # where it is read there may be a copy of it
            continue
        producer = root(int(number[tensors[tensor].producer]))
        longest_s = most_s
        for consumer in tensors[tensor].consumers:
            if operators[consumer].replicable:
                continue
            other = root(int(number[consumer]))
            producer = root(producer)
            if other == producer:
                continue
            parent[other] = producer
            work[producer] += work[other]
            update[producer] += update[other]
            before[producer] = min(before[producer], before[other])
            after[producer] = min(after[producer], after[other])
            done = before[producer] + work[producer] + max(after[producer], update[producer])
            longest_s = max(longest_s, float(done))
        most_s = max(most_s, min(float(seconds[tensor]), longest_s))
    return most_s
