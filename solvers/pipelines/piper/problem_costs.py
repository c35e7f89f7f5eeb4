"""A problem as Piper's dynamic program reads it: layers are super-operators, options numbers of replicas."""

from __future__ import annotations

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.messages_kernel import messages_of
from solvers.kernels.arrays import Floats, Ints
from solvers.pipelines.costs import degrees_of
from solvers.pipelines.piper.costed import NONE_CHEAPEST, ROUNDING, Costed
from solvers.pipelines.piper.memory_kernel import StageMemory
from solvers.pipelines.piper.stage_kernel import StageCosts
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

    Not whole: every stage has micro-batches of ``samples``, which its replicas divide, and one more micro-batch in
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
    degrees = _degrees(problem, samples, whole=whole)
    steps = np.array(degrees, np.int64)
    copies = [condensed.at(samples, merge_trivial=merge_trivial, replicas=1 if whole else d) for d in degrees]
    shared = steps[:, None] if whole else 1
    compute_s = np.array([_of_whole(problem, base, d) if whole else copies[i].acc_s for i, d in enumerate(degrees)])
    message_s = np.array([copy.message_s for copy in copies]) / shared
    forward_s = np.array([copy.acc_pass_s[0] for copy in copies]) / shared
    fixed_s, per_byte = _synchronisation(problem, degrees)
    flights, always = _flights(problem, problem.mini_batch // samples, steps, whole=whole)
    costs = StageCosts(
        devices=steps,
        degrees=steps if whole else np.ones(len(degrees), np.int64),
        flights=flights,
        compute_s=compute_s + per_byte[:, None] * base.param_bytes,
        again_s=forward_s if problem.recompute and problem.has_backward() else np.full(forward_s.shape, np.inf),
        fixed_s=fixed_s,
        has_params=base.param_bytes > 0,
        send_s=message_s,
        receive_s=message_s,
        messages=messages_of(base.traffic),
        beside=beside,
    )
    received = always * _received(problem, base, message_s, degrees, whole)
    cap_bytes = min(problem.cluster.devices[d].memory_bytes for d in accelerators) * memory_share
    memory = _memory(copies, received, always, cap_bytes * (1 + ROUNDING), constant=bool((flights == 1).all()))
    return Costed(base.traffic, costs, memory, len(accelerators), len(accelerators))


def _flights(problem: Problem, count: int, degrees: Ints, *, whole: bool) -> tuple[Ints, int]:
    """Most micro-batches that stages ever keep, [options], and how many they do all the time where that is the same for
    every stage. count: of micro-batches."""
    if not problem.has_backward():
        return np.ones(len(degrees), np.int64), 1
    if problem.pipeline is Pipeline.GPIPE:
        return np.ones(len(degrees), np.int64), count
    return (np.maximum(count // degrees, 1) if whole else np.full(len(degrees), count, np.int64)), 1


def _memory(
    copies: list[Contracted], received: Floats, always: int, cap_bytes: float, *, constant: bool
) -> StageMemory:
    """copies: the super-operators for every option. received: bytes of messages, [options, messages]. always: see
    `_flights`. constant: whether all stages keep so many."""
    saved, held = np.array([copy.saved_bytes for copy in copies]), np.array([copy.static_bytes for copy in copies])
    return StageMemory(
        group=np.arange(len(copies)),
        kept_bytes=np.zeros(saved.shape) if constant else saved,
        held_bytes=held + always * saved if constant else held,
        kept_again_bytes=np.zeros(saved.shape),
        held_again_bytes=held + saved,
        workspace_bytes=np.array([copy.workspace_bytes for copy in copies]),
        received_bytes=received,
        by_layer=False,
        cheapest=NONE_CHEAPEST,
        cap_bytes=cap_bytes,
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
    whole_s = np.empty(len(base))
    for node, members in enumerate(base.shape.members):
        updating = [o for o in members if updates[o]]
        whole_s[node] = max(base.acc_s[node] - alone[updating].sum(), 0.0) / replicas + shared[updating].sum()
    return whole_s


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

    Derived from how long they take; gradients are not kept, and where sizes are stated nothing else is counted.
    """
    links = problem.cluster.speeds
    if problem.stated_bytes is not None or problem.transfer_s is not None or not links or not problem.has_backward():
        return np.zeros(message_s.shape)
    slowest = min(links, key=lambda link: link.bandwidth_bytes_per_s)
    samples = base.samples * (np.array(degrees)[:, None] if whole else 1)
    nbytes = np.maximum(message_s * samples - slowest.latency_s, 0.0) * slowest.bandwidth_bytes_per_s
    return np.where(base.traffic.backward[None, :], 0.0, nbytes)
