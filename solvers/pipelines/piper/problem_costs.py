"""A problem as Piper's dynamic programme reads it: layers are super-operators, options numbers of replicas."""

from __future__ import annotations

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.kernels.arrays import Floats
from solvers.pipelines.costs import degrees_of
from solvers.pipelines.piper.costed import Costed
from solvers.problem.graph import Phase
from solvers.problem.problem import Pipeline, Problem


def problem_costs(
    condensed: Condensed,
    samples: int,
    *,
    whole: bool = False,
    beside: bool = False,
    merge_trivial: bool = True,
    memory_share: float = 1.0,
) -> Costed | None:
    """The costs of stages of ``condensed.at(samples, merge_trivial=...)``; an option is a number of replicas.
    None if an accelerator cannot run everything.

    Not whole: every stage has micro-batches of ``samples``, which its replicas share, and one more micro-batch in
    flight than the next. whole: as in Piper's paper every replica takes micro-batches of ``samples`` of
    its own, so that a stage of d replicas has micro-batches of d times as many (d divides their number),
    and as many are in flight as the replicas of it and of all later stages.

    Transfers add to compute, as in the paper, or run beside it. A stage as a whole is recomputed or not.
    Transfers and synchronisation are those of the problem's slowest link. memory_share: how much of the
    smallest accelerator's memory to use.
    """
    problem = condensed.problem
    base = condensed.at(samples, merge_trivial=merge_trivial)
    accelerators = problem.cluster.accelerators
    if not accelerators or not base.supported.all():
        return None
    count, most = problem.mini_batch // samples, len(accelerators)
    degrees = _degrees(problem, samples, whole=whole)
    if whole:
        copies = [base] * len(degrees)
        compute_s = np.array([_of_whole(problem, base, d) for d in degrees])
        message_s = np.array([base.message_s / d for d in degrees])
        forward_s = np.array([base.acc_pass_s[0] / d for d in degrees])
    else:
        copies = [condensed.at(samples, merge_trivial=merge_trivial, replicas=d) for d in degrees]
        compute_s = np.array([copy.acc_s for copy in copies])
        message_s = np.array([copy.message_s for copy in copies])
        forward_s = np.array([copy.acc_pass_s[0] for copy in copies])
    fixed_s, per_byte = _synchronisation(problem, degrees)
    compute_s += per_byte[:, None] * base.param_bytes
    kept, received = (
        np.array([copy.saved_bytes for copy in copies]),
        _received(problem, base, message_s, degrees, whole),
    )
    steps, always = np.array(degrees, np.int64), 1
    if not problem.has_backward() or problem.pipeline is Pipeline.GPIPE:  # the same for every stage
        always = count if problem.has_backward() else 1
        flights = np.ones(len(degrees), np.int64)
    else:
        flights = np.maximum(count // steps, 1) if whole else np.full(len(degrees), count, np.int64)
    held = np.array([copy.static_bytes for copy in copies])
    constant = bool((flights == 1).all())
    return Costed(
        base.traffic,
        devices=steps,
        degrees=steps if whole else np.ones(len(degrees), np.int64),
        flights=flights,
        compute_s=compute_s,
        again_s=forward_s if problem.recompute and problem.has_backward() else np.full(forward_s.shape, np.inf),
        fixed_s=fixed_s,
        has_params=base.param_bytes > 0,
        send_s=message_s,
        receive_s=message_s,
        group=np.arange(len(degrees)),
        kept_bytes=np.zeros(kept.shape) if constant else kept,
        held_bytes=held + always * kept if constant else held,
        kept_again_bytes=np.zeros(kept.shape),
        held_again_bytes=held + kept,
        workspace_bytes=np.array([copy.workspace_bytes for copy in copies]),
        received_bytes=always * received,
        by_layer=False,
        beside=beside,
        cap_bytes=min(problem.cluster.devices[d].memory_bytes for d in accelerators) * memory_share,
        most_devices=most,
        most_sum=most,
    )


def _degrees(problem: Problem, samples: int, *, whole: bool) -> list[int]:
    """Numbers of replicas that a stage may have."""
    if not whole:
        return list(degrees_of(problem, samples))
    most = min(problem.max_replicas, len(problem.cluster.accelerators))
    if problem.training and not problem.cluster.links:
        most = 1  # gradients cannot be added up
    return [d for d in range(1, most + 1) if (problem.mini_batch // samples) % d == 0]


def _of_whole(problem: Problem, base: Contracted, replicas: int) -> Floats:
    """Seconds per sample of super-operators whose replicas take whole micro-batches; an update takes as long on
    every replica as it does for its share of the mini-batch."""
    kind = min(problem.cluster.devices[d].kind for d in problem.cluster.accelerators)
    updates = np.array([o.phase is Phase.UPDATE for o in problem.graph.operators])
    alone, shared = (problem.compute.at(kind, problem.mini_batch / r) / problem.mini_batch for r in (1, replicas))
    found = np.empty(len(base))
    for node, members in enumerate(base.shape.members):
        mine = [o for o in members if updates[o]]
        found[node] = max(base.acc_s[node] - alone[mine].sum(), 0.0) / replicas + shared[mine].sum()
    return found


def _synchronisation(problem: Problem, degrees: list[int]) -> tuple[Floats, Floats]:
    """Seconds per sample of a ring all-reduce of gradients among replicas, fixed and per byte, [options]."""
    fixed, per_byte = np.zeros(len(degrees)), np.zeros(len(degrees))
    if problem.training and problem.cluster.links:
        for i, r in enumerate(degrees):
            seconds, seconds_per_byte = problem.repeats.over_worst_s(r, problem.cluster.speeds)
            fixed[i], per_byte[i] = seconds / problem.mini_batch, seconds_per_byte / problem.mini_batch
    return fixed, per_byte


def _received(problem: Problem, base: Contracted, message_s: Floats, degrees: list[int], whole: bool) -> Floats:
    """Bytes of every message that a replica of its reader keeps until the backward, by option, [options, messages].

    Told from how long they take; gradients are not kept, and where sizes are stated nothing else is counted.
    """
    links = problem.cluster.speeds
    if problem.stated_bytes is not None or problem.transfer_s is not None or not links or not problem.has_backward():
        return np.zeros(message_s.shape)
    slowest = min(links, key=lambda link: link.bandwidth_bytes_per_s)
    samples = base.samples * (np.array(degrees)[:, None] if whole else 1)
    nbytes = np.maximum(message_s * samples - slowest.latency_s, 0.0) * slowest.bandwidth_bytes_per_s
    return np.where(base.traffic.backward[None, :], 0.0, nbytes)
