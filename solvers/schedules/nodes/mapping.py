"""Which devices the stages of a draft run on: on clusters of several nodes, so that little crosses between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from solvers.errors import InvalidPlan
from solvers.evaluation.columns import PHASES, graph_columns
from solvers.kernels.arrays import Floats, Ints, starts
from solvers.plan.drafts import DraftStage
from solvers.problem.cluster import Cluster
from solvers.problem.graph import Phase, topological_order
from solvers.problem.problem import Problem
from solvers.schedules.nodes.mapping_kernel import map_to_nodes
from solvers.schedules.nodes.traffic_kernel import around_rings, between_places, between_replicas
from solvers.schedules.ordering.orders import stage_successors

ROUNDS = 20
"""Restarts without success after which the search for a mapping ends."""
TOGETHER = 1e-6
"""Share of all bytes that replicas without gradients count as exchanging: where it costs nothing else they
stay in one node."""
MOST_WORK = 2_000_000
"""Pairs of devices a search looks at: a few milliseconds."""


GRADIENT_WEIGHTS = (1.0, 0.25, 4.0)
"""Weights worth trying where the plan is simulated anyway, the best alone first: the best of the three took 2 %
less time than the first, over 120 random cuts of a transformer with four branches on 8 nodes of 4."""


def map_stages(
    problem: Problem,
    stages: Sequence[DraftStage],
    sets: Sequence[tuple[int, ...]],
    gradient_weight: float = GRADIENT_WEIGHTS[0],
) -> list[tuple[int, ...]]:
    """Devices of every stage: accelerators in the order of the stages, or, where links between nodes are
    slower than those inside, so that few bytes of a mini-batch cross between nodes. Then devices are exchanged until
    stages with a pinned operator have theirs; which only holds for stages of one device.

    What crosses is what stages send each other and the all-reduce of replicas' gradients; both as
    `solvers.evaluation` has them. gradient_weight: what a byte of the latter counts; neither is hidden behind
    compute altogether, so other weights may give a shorter iteration. Deterministic; keeps the order where no
    mapping known is better. Raises InvalidPlan if there are too few accelerators.
    """
    after = [sorted(targets) for targets in stage_successors(problem, sets)]
    order = dict.fromkeys([*topological_order(after), *range(len(stages))])  # the latter for stages on cycles
    owners = [index for index in order if stages[index].host is None]
    accelerators = problem.cluster.accelerators
    needed = sum(stages[index].replicas for index in owners)
    if needed > len(accelerators):
        raise InvalidPlan(f"the stages take {needed} accelerators, there are {len(accelerators)}")
    in_order = nodes_to_map(problem)
    replicas = [stages[index].replicas for index in owners]
    if in_order is None:
        seats: Sequence[int] = accelerators
    else:
        weight = _weights(problem, stages, sets, owners, len(in_order), gradient_weight)
        seats = [accelerators[i] for i in _seats(weight, starts(replicas), in_order)]
    if problem.pins:
        begins = dict(zip(owners, starts(replicas).tolist(), strict=False))
        pinned = _pinned(problem, stages, sets)
        seats = exchanged(problem.cluster, seats, {begins[index]: device for index, device in pinned.items()})
    chosen: dict[int, tuple[int, ...]] = {}
    taken = 0
    for index, count in zip(owners, replicas, strict=True):
        chosen[index] = tuple(seats[taken : taken + count])
        taken += count
    return [chosen[index if stage.host is None else stage.host] for index, stage in enumerate(stages)]


def _pinned(problem: Problem, stages: Sequence[DraftStage], sets: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """The stage that has the devices where a pinned operator is -> the device to which it is pinned."""
    device_of = {}
    for index, (stage, operators) in enumerate(zip(stages, sets, strict=True)):
        for device in {problem.pins[o] for o in operators if o in problem.pins}:
            device_of[index if stage.host is None else stage.host] = device
    return device_of


def exchanged(cluster: Cluster, seats: Sequence[int], wanted: Mapping[int, int]) -> list[int]:
    """The seats with devices exchanged so that those at the positions ``wanted`` have theirs: first whole nodes of
    equal devices, as long as that gives some their node, then single devices."""
    places, node = list(seats), [device.node for device in cluster.devices]
    members = {number: [d for d, at in enumerate(node) if at == number] for number in dict.fromkeys(node)}
    settled: set[int] = set()

    def kinds_in(number: int) -> list[tuple[str, float]]:
        return [(cluster.devices[d].kind, cluster.devices[d].memory_bytes) for d in members[number]]

    for position, device in wanted.items():
        here, there = node[places[position]], node[device]
        if here != there and not {here, there} & settled and kinds_in(here) == kinds_in(there):
            to = dict(zip(members[here] + members[there], members[there] + members[here], strict=True))
            places = [to.get(place, place) for place in places]
        settled.add(there)
    for position, device in wanted.items():
        to = {places[position]: device, device: places[position]}
        places = [to.get(place, place) for place in places]
    return places


def nodes_to_map(problem: Problem) -> Ints | None:
    """The node of every accelerator, numbered from 0; None where stages go in order: all links are alike,
    accelerators are not, some are not linked, or nothing is gained by sharing a node."""
    if problem not in _NODES:
        _NODES[problem] = None if problem.transfers_alike else _two_levels(problem.cluster)
    return _NODES[problem]


_NODES: WeakKeyDictionary[Problem, Ints | None] = WeakKeyDictionary()


def _two_levels(cluster: Cluster) -> Ints | None:
    accelerators = cluster.accelerators
    specs = [cluster.devices[device] for device in accelerators]
    if not specs or len({replace(spec, name="", node=0) for spec in specs}) > 1:
        return None
    among = {speed: links for speed, links in cluster.speeds.items() if not (speed.from_cpu or speed.to_cpu)}
    inside = [speed.bandwidth_bytes_per_s for speed in among if speed.inside]
    between = [speed.bandwidth_bytes_per_s for speed in among if not speed.inside]
    if sum(among.values()) < len(accelerators) * (len(accelerators) - 1):
        return None
    if not inside or not between or max(between) > min(inside):
        return None
    names = {node: number for number, node in enumerate(dict.fromkeys(spec.node for spec in specs))}
    return np.array([names[spec.node] for spec in specs], np.int64)


def _add_rings(gradient_bytes: Floats, start: Ints, weight: Floats) -> None:
    least = TOGETHER * (weight.sum() + gradient_bytes.sum() or 1.0)
    around_rings(np.maximum(gradient_bytes, least), start, weight)


def _seats(weight: Floats, start: Ints, in_order: Ints) -> list[int]:
    """The device, counted from 0, of every seat (see `solvers.schedules.nodes.mapping_kernel`)."""
    node_of = map_to_nodes(weight, start, in_order, ROUNDS, MOST_WORK)
    room = np.bincount(in_order)
    free = {node: np.flatnonzero(in_order == node).tolist()[::-1] for node in range(len(room))}
    names: dict[int, int] = {}
    for node in dict.fromkeys(node_of.tolist()):  # nodes of a size are alike: the first to be used is the lowest
        same = [other for other in range(len(room)) if room[other] == room[node]]
        names[node] = next(other for other in same if other not in names.values())
    return [free[names[node]].pop() for node in node_of.tolist()]


def _weights(
    problem: Problem,
    stages: Sequence[DraftStage],
    sets: Sequence[tuple[int, ...]],
    owners: Sequence[int],
    devices: int,
    gradient_weight: float = 1.0,
) -> Floats:
    """Bytes a mini-batch from seat to seat: the replicas of ``owners``, one after the other, [devices, devices]."""
    number = {index: row for row, index in enumerate(owners)}
    start = starts([stages[index].replicas for index in owners])
    weight = np.zeros((devices, devices))
    gradient_bytes = np.zeros(len(owners))
    graph = graph_columns(problem.graph)
    forward = graph.phase == PHASES.index(Phase.FORWARD)
    trained, frozen = (np.where(forward, held, 0.0) for held in (graph.trained_bytes, graph.frozen_bytes))
    learns = ~forward & (graph.phase != PHASES.index(Phase.UPDATE))
    places: dict[tuple[int, int], int] = {}
    place_of = np.empty(len(problem.graph), np.int64)
    for index, (stage, members) in enumerate(zip(stages, sets, strict=True)):
        group = number[index if stage.host is None else stage.host]
        operators = list(members)
        place_of[operators] = places.setdefault((group, stage.micro_batch_size), len(places))
        if problem.training and learns[operators].any():
            gradient_bytes[group] += gradient_weight * problem.copies.reduced(
                float(trained[operators].sum()),
                float(frozen[operators].sum()),
                problem.mini_batch / stage.micro_batch_size,
            )
    group_of = np.array([group for group, _ in places], np.int64)
    sizes = np.array([size for _, size in places], np.int64)
    shares = start[group_of + 1] - start[group_of]
    once, each = between_places(graph, place_of, group_of, shares)
    between_replicas(once, each, start[group_of], shares, sizes, problem.mini_batch, weight)
    np.fill_diagonal(weight, 0.0)  # what a replica has in two stages stays where it is
    _add_rings(gradient_bytes, start, weight)
    return weight
