"""Simpler questions whose plans answer this one too: fewer devices, or no replicas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from solvers.plan.plan import Plan
from solvers.problem.cluster import Cluster
from solvers.problem.problem import Problem

LEAST_DEVICES = 2
"""One device is a question of its own."""


def simpler(problem: Problem) -> Iterator[Problem]:
    """The same with no replicas, where some are allowed, and on the first devices, the largest power of two that is
    less than all: so few steps lead from many devices to two, and no answer is behind that for half of them."""
    if problem.max_replicas > 1:
        yield replace(problem, max_replicas=1)
    devices = len(problem.cluster.accelerators)
    fewer = 1 << max(devices - 1, 1).bit_length() - 1
    if LEAST_DEVICES <= fewer < devices and not problem.cluster.cpus and not problem.pins:
        yield replace(problem, cluster=on_first(problem.cluster, fewer), max_replicas=min(problem.max_replicas, fewer))


def on_first(cluster: Cluster, devices: int) -> Cluster:
    """The first so many devices, and the links between them."""
    links = tuple(link for link in cluster.links if max(link.src, link.dst) < devices)
    return Cluster(cluster.devices[:devices], links)


def on_all(problem: Problem, plan: Plan) -> Plan:
    """The plan of a simpler question, where the devices that it leaves idle are there too."""
    return replace(plan, order=(*plan.order, *((),) * (len(problem.cluster) - len(plan.order))))
