"""Which variant of max-load a search over chains is for, and its costs as the kernels read them.

Tarnawski et al., NeurIPS 2020, appendix: overlapped and duplex transfers, forward and backward passes
one after the other (GPipe), replicated parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.chains import ROUNDING, flights_of
from solvers.contiguous.load_kernel import BLOCKING, DUPLEX, LANE, Costs, Limits
from solvers.contiguous.messages_kernel import messages_of, nets_of
from solvers.contiguous.ways import Ways, ways_of
from solvers.kernels.arrays import Floats
from solvers.problem.cluster import Ring
from solvers.problem.problem import Objective, Pipeline, Problem, Transfers


@dataclass(frozen=True, slots=True)
class Variant:
    """What the load of a part is. passes: 2 if the largest forward and the largest backward load add
    up, else 1. replicas: most accelerators for one part. transfers: BLOCKING, LANE or DUPLEX."""

    passes: int
    replicas: int
    transfers: Transfers


def variant_of(problem: Problem) -> Variant:
    """The variant that the problem's max-load is; for other objectives, a max-load that stands for them."""
    own = problem.objective is Objective.MAX_LOAD
    transfers = problem.transfers
    if transfers is Transfers.LINKS or (transfers is Transfers.DUPLEX and not own):
        transfers = Transfers.BLOCKING
    two = own and problem.pipeline is Pipeline.GPIPE and problem.has_backward()
    replicas = max(min(problem.max_replicas, len(problem.cluster.accelerators)), 1)
    return Variant(2 if two else 1, replicas, transfers)


def is_plain(variant: Variant, contracted: Contracted, classes: int) -> bool:
    """Whether cuts of hyperedges are the loads: no replicas, one pass, no directions, accelerators of one class, and
    no message of several makers to several readers, which can be both sent and received by one device."""
    if classes != 1 or variant.passes > 1 or variant.replicas > 1 or variant.transfers is Transfers.DUPLEX:
        return False
    traffic = contracted.traffic
    several = (np.diff(traffic.makers.start) > 1) & (np.diff(traffic.readers.start) > 1)
    return not (several & (contracted.message_s > 0)).any()


def costs_of(
    condensed: Condensed, contracted: Contracted, variant: Variant, *, plain: bool, memory: str = "all"
) -> Costs:
    """The kernels' view of the costs.

    contracted: one of ``condensed``. plain: whether hyperedges stand for messages, as `is_plain` allows. memory: "all",
    "core" (`Contracted.core_bytes`) or "none".
    """
    problem, traffic = condensed.problem, contracted.traffic
    rows = (("", 1),) if plain else ways_of(problem, variant.replicas).rows
    copies = [
        condensed.at(contracted.samples, merge_trivial=contracted.has_merged, replicas=r, kind=kind) for kind, r in rows
    ]

    def by_pass(seconds: Floats) -> Floats:
        return seconds if variant.passes == 2 else seconds.sum(axis=0, keepdims=True)

    nothing = np.zeros(len(contracted))
    static = {"all": contracted.static_bytes, "core": contracted.core_bytes, "none": nothing}[memory]
    replicas = np.array([r for _, r in rows], np.int64)
    sync_s, sync_s_per_byte = synchronisation(problem, variant.replicas, contracted.samples)
    acc_s = [np.where(copy.supported, by_pass(copy.acc_pass_s), np.inf) for copy in copies]
    message_s = contracted.net_s[None] if plain else np.array([copy.message_s for copy in copies])
    return Costs(
        np.array([[np.where(contracted.supported, contracted.acc_s, np.inf)]] if plain else acc_s),
        contracted.cpu_s[None] if plain else by_pass(contracted.cpu_pass_s),
        replicas,
        static,
        contracted.param_bytes,
        np.array([nothing if memory == "none" else copy.saved_bytes for copy in copies]),
        np.array([nothing if memory == "none" else copy.workspace_bytes for copy in copies]),
        sync_s[replicas - 1],
        sync_s_per_byte[replicas - 1],
        nets_of(contracted.shape) if plain else messages_of(traffic),
        traffic.backward.astype(np.int64) if variant.passes == 2 else np.zeros(message_s.shape[1], np.int64),
        message_s,
        None if plain else True,
    )


def synchronisation(problem: Problem, replicas: int, samples: int) -> tuple[Floats, Floats]:
    """Seconds per sample of a ring all-reduce of gradients among r replicas, fixed and per byte, [replicas];
    inf where they cannot share micro-batches of ``samples``."""
    fixed, per_byte = np.zeros(replicas), np.zeros(replicas)
    for r in range(2, replicas + 1):
        if not problem.can_share(samples, r):
            fixed[r - 1] = math.inf
    if not problem.training or not problem.cluster.links:
        return fixed, np.where(np.arange(replicas) > 0, math.inf if problem.training else 0.0, 0.0)
    for r in range(2, replicas + 1):
        seconds, seconds_per_byte = Ring(r).over_worst_s(problem.cluster.speeds)
        fixed[r - 1] += seconds / problem.mini_batch
        per_byte[r - 1] = seconds_per_byte / problem.mini_batch
    return fixed, per_byte


def limits_of(
    problem: Problem, costs: Costs, variant: Variant, micro_batches: int, memory_share: float = 1.0
) -> Limits:
    """Devices, caps (of the smallest device of a class, times ``memory_share``) and micro-batches in flight."""
    cluster, ways = problem.cluster, ways_of(problem, variant.replicas)
    available = np.array([len(cluster.cpus), *map(len, ways.classes)], np.int64)
    used = np.array(list(np.ndindex(*(available + 1))), np.int64)
    stride = np.array([math.prod((available[c + 1 :] + 1).tolist()) for c in range(len(available))], np.int64)
    need = np.zeros((len(ways.draws) + 1, len(available)), np.int64)
    need[0, 0] = 1
    if ways.draws:
        need[1:, 1:] = ways.draws
    parts = used[:, 0] + -(-used[:, 1:].sum(axis=1) // variant.replicas)  # made before, at least
    transfers = {Transfers.LANE: LANE, Transfers.DUPLEX: DUPLEX}.get(variant.transfers, BLOCKING)
    return Limits(
        used,
        stride,
        available,
        flights_of(problem, len(cluster), micro_batches)[np.minimum(parts, len(cluster)) + 1],
        need,
        np.asarray((used[:, None] + need <= available).all(axis=2)),
        need @ stride,
        np.array([0, *ways.row_of], np.int64),
        np.array([_cap(problem, ways, draw) * memory_share * (1 + ROUNDING) for draw in ((), *ways.draws)]),
        transfers,
        np.minimum(_worth(problem, costs, ways), 1e15),  # stands for infinity: none left must give 0, not NaN
    )


def _cap(problem: Problem, ways: Ways, draw: tuple[int, ...]) -> float:
    """The least memory of the devices that a part has of each class; of the CPUs for ()."""
    cluster = problem.cluster
    drawn = [d for pool, count in zip(ways.classes, draw, strict=True) if count for d in pool] if draw else []
    return min((cluster.devices[device].memory_bytes for device in drawn or cluster.cpus), default=math.inf)


def least_work_s(costs: Costs) -> Floats:
    """Accelerator seconds that a node takes at least, those of all replicas together; 0 where only a CPU can run it,
    [passes, nodes]."""
    least = (costs.acc_s * costs.row_replicas[:, None, None]).min(axis=0)
    return np.asarray(np.where(np.isfinite(least), least, 0.0))


def _worth(problem: Problem, costs: Costs, ways: Ways) -> Floats:
    """How much of `least_work_s` a second of a device can do, at most, [classes with the CPUs first, passes]."""
    work = least_work_s(costs)

    def largest(seconds: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(work > 0, work / seconds, 0.0).max(axis=1, initial=0.0))

    worth = [largest(costs.cpu_s)]
    for devices in ways.classes:
        of_kind = [row for row, (kind, _) in enumerate(ways.rows) if kind == problem.cluster.devices[devices[0]].kind]
        worth.append(largest((costs.acc_s[of_kind] * costs.row_replicas[of_kind, None, None]).min(axis=0)))
    return np.array(worth)


def least_load_s(costs: Costs, limits: Limits) -> Floats:
    """Loads no chain can beat, by pass: all work divided evenly, or the largest super-operator, which replicas may
    share, [passes]."""
    worth = limits.available @ limits.worth
    total = least_work_s(costs).sum(axis=1)
    with np.errstate(divide="ignore"):
        average = np.where(total == 0, 0.0, np.divide(total, worth, where=worth > 0, out=np.full(len(worth), np.inf)))
    acc = costs.acc_s.min(axis=0)
    single = np.minimum(acc, costs.cpu_s) if limits.available[0] else acc
    return np.asarray(np.maximum(average, single.max(axis=1)))
