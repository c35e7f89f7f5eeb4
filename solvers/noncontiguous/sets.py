"""From a problem to what the moving kernels need: sets of super-operators on devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.coarsening.contracted import Contracted
from solvers.coarsening.traffic import Rows
from solvers.kernels.arrays import Bools, Ints, inverse
from solvers.noncontiguous.set_moves_kernel import ACYCLIC, ADDED, ANY, CONVEX, DUPLEX, LANE, MAKES, READS, Sets
from solvers.plan.plan import Plan
from solvers.problem.problem import Contiguity, Pipeline, Problem, Transfers
from solvers.schedules.assemble import assemble

MODEL = {Transfers.LANE: LANE, Transfers.DUPLEX: DUPLEX}
CONTIGUITY = {Contiguity.NONE: ANY, Contiguity.CONVEX: CONVEX, Contiguity.ACYCLIC: ACYCLIC}
NO_LINK = 1e3
"""What a message costs where no link could carry it, in multiples of all other work."""


def sets_of(problem: Problem, contracted: Contracted, *, in_flight: float = 1.0, memory_share: float = 1.0) -> Sets:
    """The kernels' view of a problem. ``in_flight`` micro-batches' saved activations are counted on
    every device, against ``memory_share`` of its memory; workspace and buffers are left out."""
    by_pass = problem.pipeline is Pipeline.GPIPE
    devices = problem.cluster.devices
    allowed = _allowed(problem, contracted)
    seconds = np.array([(contracted.cpu_pass_s if d.is_cpu else contracted.acc_pass_s) for d in devices])
    seconds = np.where(allowed.T[:, None, :], seconds, 0.0).transpose(1, 0, 2)
    if not by_pass:
        seconds = seconds.sum(axis=0, keepdims=True)
    model = MODEL.get(problem.transfers, ADDED)
    makers, readers, backward = contracted.traffic.makers, contracted.traffic.readers, contracted.traffic.backward
    split = model != DUPLEX and all(len(makers[m]) == 1 for m in range(len(makers)))
    joined: dict[tuple[tuple[int, ...], tuple[int, ...], int], float] = {}
    for m, cost in enumerate(contracted.message_s.tolist()):
        ends = tuple(makers[m].tolist()), tuple(readers[m].tolist())
        if split:
            ends = tuple(sorted({*ends[0], *ends[1]})), ()
        if cost > 0:
            key = (*ends, int(by_pass and backward[m]))
            joined[key] = joined.get(key, 0.0) + cost
    messages = list(joined)
    message_s = np.array(list(joined.values()))
    if np.isinf(message_s).any():
        other = seconds[np.isfinite(seconds)].sum() + message_s[np.isfinite(message_s)].sum()
        message_s = np.where(np.isinf(message_s), NO_LINK * max(other, 1e-9), message_s)
    on, of, role = _incidence(messages, len(contracted))
    unconstrained = problem.contiguity is Contiguity.NONE
    nothing = Rows.of([[]] * len(contracted))
    after = nothing if unconstrained else contracted.shape.successors
    before = nothing if unconstrained else contracted.shape.predecessors
    return Sets(
        np.ascontiguousarray(seconds),
        allowed,
        np.array([not d.is_cpu for d in devices]),
        contracted.static_bytes + in_flight * contracted.saved_bytes,
        np.array([d.memory_bytes * memory_share for d in devices]),
        model,
        split,
        message_s,
        np.array([key[2] for key in messages], np.int64),
        np.array([[len(key[0]), len(key[1])] for key in messages], np.int64).reshape(-1, 2).T.copy(),
        on.start,
        on.items,
        of.start,
        of.items,
        role,
        CONTIGUITY[problem.contiguity],
        after.start,
        after.items,
        before.start,
        before.items,
    )


def _allowed(problem: Problem, contracted: Contracted) -> Bools:
    """Where each super-operator can run, and is not pinned elsewhere, [super-operators, devices]."""
    on_cpu = np.isfinite(contracted.cpu_s)
    allowed = np.array([on_cpu if d.is_cpu else contracted.supported for d in problem.cluster.devices]).T
    for node, members in enumerate(contracted.shape.members):
        for operator in members:
            if operator in problem.pins:
                here = np.arange(len(problem.cluster)) == problem.pins[operator]
                allowed[node] &= here
    return np.ascontiguousarray(allowed)


def _incidence(messages: Sequence[tuple[tuple[int, ...], tuple[int, ...], int]], nodes: int) -> tuple[Rows, Rows, Ints]:
    """Nodes on every message; messages of every node, and what it does with each."""
    roles: list[dict[int, int]] = []
    for makers, readers, _ in messages:
        role = dict.fromkeys(makers, MAKES)
        for node in readers:
            role[node] = role.get(node, 0) | READS
        roles.append(role)
    of = inverse(roles, nodes)
    role_of = [roles[m][node] for node in range(nodes) for m in of[node]]
    return Rows.of([sorted(role) for role in roles]), Rows.of(of), np.array(role_of, np.int64)


def plan_of(problem: Problem, contracted: Contracted, where: Ints, micro_batches: int) -> Plan:
    """The plan with super-operator i on device ``where[i]``. Raises InvalidPlan if it cannot run."""
    return assemble(problem, contracted.shape.placement((device,) for device in where.tolist()), micro_batches)


def where_of(contracted: Contracted, plan: Plan) -> Ints | None:
    """The device of every super-operator in a plan; None if it replicates or splits one."""
    device_of: dict[int, int] = {}
    for stage in plan.stages:
        if len(stage.devices) > 1:
            return None
        for operator in stage.operators:
            device_of[operator] = stage.devices[0]
    homes = [{device_of[operator] for operator in members} for members in contracted.shape.members]
    if any(len(home) != 1 for home in homes):
        return None
    return np.array([min(home) for home in homes], np.int64)


def in_flight_choices(problem: Problem, micro_batches: int) -> list[tuple[float, float]]:
    """Pairs of micro-batches in flight and share of the memory to plan for, looser ones first.

    How many a device keeps is only known once its stages are; a plan that turns out not to fit
    calls for the next pair.
    """
    if problem.stated_bytes is not None:
        return [(1.0, 1.0)]
    most = 1
    if problem.has_backward():
        most = micro_batches if problem.pipeline is Pipeline.GPIPE else min(len(problem.cluster), micro_batches)
    first = most if problem.pipeline is Pipeline.GPIPE else 1
    pairs = [(float(count), 1.0) for count in range(first, most + 1)]
    return pairs + [(float(most), share) for share in (0.9, 0.8, 0.65, 0.5)]
