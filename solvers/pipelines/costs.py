"""What super-operators cost at one micro-batch size, for every number of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.traffic import Traffic
from solvers.evaluation.columns import graph_columns
from solvers.kernels.arrays import Floats, Ints
from solvers.pipelines.recomputation.levels import levels_of
from solvers.pipelines.seating import kinds_by_speed
from solvers.problem.links import Speed
from solvers.problem.problem import Problem


@dataclass(frozen=True, slots=True, eq=False)
class SizeCosts:
    """Costs of one micro-batch; row i is for ``degrees[i]`` replicas that share it, [degrees, super-operators].

    forward_s, backward_s: seconds (backward with its part of the update). saved_bytes are kept from the
    forward to the backward, workspace_bytes while it runs; static_bytes all the time; param_bytes: [super-operators].
    message_s: seconds of each message of ``traffic`` over one link, message_bytes its size;
    [degrees, messages]. sync_s, sync_s_per_byte: all-reduce of gradients, once per mini-batch, [degrees].
    """

    samples: int
    degrees: Ints
    traffic: Traffic
    forward_s: Floats
    backward_s: Floats
    saved_bytes: Floats
    workspace_bytes: Floats
    static_bytes: Floats
    param_bytes: Floats
    message_s: Floats
    message_bytes: Floats
    sync_s: Floats
    sync_s_per_byte: Floats
    levels: LevelCosts


@dataclass(frozen=True, slots=True, eq=False)
class LevelCosts:
    """The same where a level of operators runs again (`levels_of`), [levels, degrees, super-operators].

    again_s: seconds that the backward takes longer. saved_bytes, workspace_bytes: in place of those of `SizeCosts`.
    """

    again_s: Floats
    saved_bytes: Floats
    workspace_bytes: Floats


def node_of_operator(condensed: Condensed) -> Ints:
    """The super-operator of every operator, as `Condensed.at` numbers them if nothing trivial is merged."""
    members = condensed.at(1, merge_trivial=False).shape.members
    node = np.zeros(len(condensed.problem.graph), np.int64)
    for number, operators in enumerate(members):
        node[list(operators)] = number
    return node


def degrees_of(problem: Problem, samples: int) -> tuple[int, ...]:
    """Numbers of accelerators that can share a micro-batch of ``samples``: without links gradients cannot be
    added up."""
    most = min(problem.max_replicas, len(problem.cluster.accelerators))
    if problem.training and not problem.cluster.links:
        most = min(most, 1)
    return tuple(r for r in range(1, most + 1) if problem.can_share(samples, r))


def _level_costs(problem: Problem, node: Ints, samples: int, degrees: Sequence[int], kind: str) -> LevelCosts:
    """node: of every operator. kind: of accelerator."""
    levels, count = levels_of(problem), int(node.max()) + 1
    table = np.zeros((3, len(levels), len(degrees), count))
    for d, replicas in enumerate(degrees):
        share = samples / replicas
        whole = problem.compute.at(kind, share)
        for k, level in enumerate(levels):
            columns = graph_columns(level.problem.graph)
            longer = level.problem.compute.at(kind, share) - whole
            table[0, k, d] = np.bincount(node, np.where(np.isfinite(longer), longer, 0.0), count)
            table[1, k, d] = np.bincount(node, columns.saved_bytes[:, 0] + columns.saved_bytes[:, 1] * share, count)
            np.maximum.at(table[2, k, d], node, columns.workspace_bytes[:, 0] + columns.workspace_bytes[:, 1] * share)
    return LevelCosts(*table)


def size_costs(condensed: Condensed, samples: int) -> SizeCosts:
    """The costs at a micro-batch size on the fastest kind of accelerator, with transfers over the fastest kind of link
    (they differ on clusters of several nodes)."""
    problem = condensed.problem
    degrees = degrees_of(problem, samples)
    kinds = kinds_by_speed(problem)
    kind = kinds[0] if len(kinds) > 1 else ""
    copies = [condensed.at(samples, merge_trivial=False, replicas=r, kind=kind) for r in degrees]
    among = ((link.bandwidth_bytes_per_s, link.latency_s) for link in problem.cluster.speeds)
    bandwidth, latency = max(among, default=(np.inf, 0.0))
    if problem.transfer_s is not None:
        message_s = np.array([copy.message_s * samples for copy in copies])
    else:
        message_s = np.array([copy.message_tensors * latency + copy.message_bytes / bandwidth for copy in copies])
    fastest = [Speed(latency, bandwidth, inside=True, from_cpu=False, to_cpu=False)]
    sync = np.array([problem.repeats.over_worst_s(r, fastest) for r in degrees]) * problem.training
    return SizeCosts(
        samples,
        np.array(degrees, np.int64),
        copies[0].traffic,
        np.array([copy.acc_pass_s[0] * samples for copy in copies]),
        np.array([copy.acc_pass_s[1] * samples for copy in copies]),
        np.array([copy.saved_bytes for copy in copies]),
        np.array([copy.workspace_bytes for copy in copies]),
        np.array([copy.static_bytes for copy in copies]),
        copies[0].param_bytes,
        message_s,
        np.array([copy.message_bytes for copy in copies]),
        np.ascontiguousarray(sync[:, 0]),  # kernels are compiled for arrays without gaps
        np.ascontiguousarray(sync[:, 1]),
        _level_costs(problem, node_of_operator(condensed), samples, degrees, kinds[0]),
    )
