"""Which variant of max-load a search over chains is for, and its costs as the general kernels read them.

Tarnawski et al., NeurIPS 2020, appendix: overlapped and duplex transfers, forward and backward passes
one after the other (GPipe), replicated parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.chains import limits_of
from solvers.contiguous.variant_costs_kernel import BLOCKING, DUPLEX, LANE, MAKES, READS, VariantCosts, VariantLimits
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


def is_plain(variant: Variant, contracted: Contracted) -> bool:
    """Whether cuts of hyperedges tell the loads: no replicas, one pass, no directions, and no message
    of several makers to several readers, which can be both sent and received by one device."""
    if variant.passes > 1 or variant.replicas > 1 or variant.transfers is Transfers.DUPLEX:
        return False
    traffic = contracted.traffic
    several = (np.diff(traffic.makers.start) > 1) & (np.diff(traffic.readers.start) > 1)
    return not (several & (contracted.message_s > 0)).any()


def variant_costs(
    condensed: Condensed, contracted: Contracted, variant: Variant, *, memory: str = "all"
) -> VariantCosts:
    """The general kernels' view of the costs. contracted: one of ``condensed``. memory: as in `chains.costs_of`."""
    problem, traffic = condensed.problem, contracted.traffic
    copies = [contracted] + [
        condensed.at(contracted.samples, merge_trivial=contracted.has_merged, replicas=r)
        for r in range(2, variant.replicas + 1)
    ]

    def by_pass(seconds: Floats) -> Floats:
        return seconds if variant.passes == 2 else seconds.sum(axis=0, keepdims=True)

    nothing = np.zeros(len(contracted))
    static = {"all": contracted.static_bytes, "core": contracted.core_bytes, "none": nothing}[memory]
    roles: list[list[tuple[int, int]]] = [[] for _ in range(len(contracted))]
    for role, ends in ((MAKES, traffic.makers), (READS, traffic.readers)):
        for message in range(len(ends)):
            for node in ends[message].tolist():
                roles[node].append((message, role))
    merged = [_added_up(on) for on in roles]
    starts = np.zeros(len(merged) + 1, np.int64)
    np.cumsum([len(on) for on in merged], out=starts[1:])
    flat = np.array([pair for on in merged for pair in on], np.int64).reshape(-1, 2)
    sync_s, sync_s_per_byte = synchronisation(problem, variant.replicas, contracted.samples)
    return VariantCosts(
        np.array([by_pass(copy.acc_pass_s) for copy in copies]),
        by_pass(contracted.cpu_pass_s),
        contracted.supported,
        static,
        contracted.param_bytes,
        np.array([nothing if memory == "none" else copy.saved_bytes for copy in copies]),
        np.array([nothing if memory == "none" else copy.workspace_bytes for copy in copies]),
        sync_s,
        sync_s_per_byte,
        starts,
        np.ascontiguousarray(flat[:, 0]),
        np.ascontiguousarray(flat[:, 1]),
        traffic.backward.astype(np.int64) if variant.passes == 2 else np.zeros(len(traffic), np.int64),
        np.array([copy.message_s for copy in copies]),
        traffic.makers.start,
        traffic.makers.items,
        traffic.readers.start,
        traffic.readers.items,
    )


def _added_up(on: list[tuple[int, int]]) -> list[tuple[int, int]]:
    roles: dict[int, int] = {}
    for message, role in on:
        roles[message] = roles.get(message, 0) + role
    return sorted(roles.items())


def synchronisation(problem: Problem, replicas: int, samples: int) -> tuple[Floats, Floats]:
    """Seconds per sample of a ring all-reduce of gradients among r replicas, fixed and per byte, [replicas];
    inf where they cannot share micro-batches of ``samples``."""
    fixed, per_byte = np.zeros(replicas), np.zeros(replicas)
    for r in range(2, replicas + 1):
        if not problem.can_share(samples, r):
            fixed[r - 1] = math.inf
    links = problem.cluster.links
    if not problem.training or not links:
        return fixed, np.where(np.arange(replicas) > 0, math.inf if problem.training else 0.0, 0.0)
    for r in range(2, replicas + 1):
        seconds, seconds_per_byte = Ring(r).over_worst_s(links)
        fixed[r - 1] += seconds / problem.mini_batch
        per_byte[r - 1] = seconds_per_byte / problem.mini_batch
    return fixed, per_byte


def variant_limits(
    problem: Problem, contracted: Contracted, variant: Variant, micro_batches: int, memory_share: float = 1.0
) -> VariantLimits:
    """As `chains.limits_of`, for the general kernels."""
    plain = limits_of(problem, contracted, micro_batches, memory_share)
    acc, cpu = contracted.acc_pass_s, contracted.cpu_pass_s
    if variant.passes == 1:
        acc, cpu = acc.sum(axis=0, keepdims=True), cpu.sum(axis=0, keepdims=True)
    slow = contracted.supported & (acc > 0)
    with np.errstate(divide="ignore"):
        worth = np.where(slow, acc / np.where(slow, cpu, 1.0), 0.0).max(axis=1, initial=0.0)
    transfers = {Transfers.LANE: LANE, Transfers.DUPLEX: DUPLEX}.get(variant.transfers, BLOCKING)
    return VariantLimits(
        plain.accelerators,
        plain.cpus,
        variant.replicas,
        plain.acc_bytes,
        plain.cpu_bytes,
        plain.in_flight,
        transfers,
        np.minimum(worth, 1e15),  # stands for infinity: it must give 0, not NaN, when no CPU is left
    )


def least_load_s(costs: VariantCosts, limits: VariantLimits) -> Floats:
    """Loads no chain can beat, by pass: as `chains.average_load_s`; replicas may share a node, [passes]."""
    shares = np.arange(1, limits.replicas + 1)[:, None, None]
    worth = limits.accelerators + limits.cpus * limits.cpu_worth
    total = (costs.acc_s * shares).min(axis=0).sum(axis=1)
    with np.errstate(divide="ignore"):
        average = np.where(total == 0, 0.0, np.divide(total, worth, where=worth > 0, out=np.full(len(worth), np.inf)))
    able = costs.supported & (limits.accelerators > 0)
    acc = np.where(able, costs.acc_s.min(axis=0), np.inf)
    single = np.minimum(acc, costs.cpu_s) if limits.cpus else acc
    return np.asarray(np.maximum(average, single.max(axis=1)))
