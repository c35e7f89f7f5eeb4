"""How fast the links of a run were, by the messages that their readers had to wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np

from explorer.costs.least_squares import coefficients
from explorer.measured.action_times import ActionTimes
from explorer.measured.comparison import LinkError
from explorer.measured.link_times import ends_of, wire_seconds
from explorer.runner.bundles.outcome import MeasuredMessage, Outcome
from solvers.evaluation.lower import lower
from solvers.evaluation.tasks import SYNC
from solvers.plan.plan import Plan
from solvers.problem.cluster import Cluster, Link
from solvers.problem.problem import Objective, Problem, Transfers

FEWEST, SPREAD = 4, 2.0
"""A line is fitted to at least so many messages, the largest of them at least so much larger than the smallest."""
SAME_BYTES = 0.01
"""Relative difference between the bytes planned and sent that is no matter."""

Pair = tuple[int, int]
"""A link's devices: from, to."""
_Sent = tuple[MeasuredMessage, float | None]
"""A message and its seconds on the link, None where they are not known."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What the plan sends over one link in an iteration. messages: (latencies paid, bytes) of every transfer;
    averages: segment -> the same of the all-reduces of its stages, together."""

    messages: tuple[tuple[float, float], ...]
    averages: Mapping[int, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Observed:
    """One transfer: the latencies and bytes that the plan counts for it, and what it took."""

    latencies: float
    nbytes: float
    seconds: float


def planned_traffic(problem: Problem, plan: Plan, segments: Sequence[tuple[int, ...]]) -> dict[Pair, Planned]:
    """What the simulation moves over every link."""
    counting = replace(problem, transfers=Transfers.LINKS, transfer_s=None)
    segment_of = {stage: segment for segment, stages in enumerate(segments) for stage in stages}
    messages: dict[Pair, list[tuple[float, float]]] = defaultdict(list)
    averages: dict[Pair, dict[int, tuple[float, float]]] = defaultdict(dict)
    tasks = lower(counting, plan, _objective(problem)).tasks
    for i in np.flatnonzero(tasks.to_device >= 0).tolist():
        pair = (int(tasks.device[i]), int(tasks.to_device[i]))
        paid, nbytes = float(tasks.latencies[i]), float(tasks.nbytes[i])
        if tasks.kind[i] != SYNC:
            messages[pair].append((paid, nbytes))
            continue
        segment = segment_of.get(int(tasks.stage[i]), -1)
        before = averages[pair].get(segment, (0.0, 0.0))
        averages[pair][segment] = (before[0] + paid, before[1] + nbytes)
    return {pair: Planned(tuple(messages[pair]), averages[pair]) for pair in {*messages, *averages}}


def measured_links(
    problem: Problem, plan: Plan, outcome: Outcome, times: ActionTimes
) -> tuple[Cluster, tuple[LinkError, ...], list[str]]:
    """The cluster with the links as measured, what was found of each link in use, and notes.

    The seconds of messages (`wire_seconds`) are set against the bytes that the plan counts: where the run sends
    more or less in all (another dtype, say), the link's bandwidth makes up for it. Links that only the all-reduce
    of replicas used are measured by that.
    """
    planned = planned_traffic(problem, plan, outcome.segments)
    sent: dict[Pair, list[_Sent]] = defaultdict(list)
    seconds = wire_seconds(problem.cluster, outcome)
    for position, message in enumerate(outcome.messages):
        sent[ends_of(message, outcome)].append((message, seconds.get(position)))
    iterations = max(1, len({m.iteration for m in outcome.messages}))
    links, errors, notes = {(link.src, link.dst): link for link in problem.cluster.links}, [], []
    off = _all_reduce_ratios(planned, links, times)
    for pair in sorted({*planned, *sent} & set(links)):
        plans, link = planned.get(pair, Planned((), {})), links[pair]
        scale = _byte_scale(plans, sent[pair], iterations)
        if abs(scale - 1) > SAME_BYTES:
            notes.append(
                f"messages from device {pair[0]} to {pair[1]} carried {1 / scale:.3g} times the bytes that the plan"
                " counts"
            )
        averaged = not sent[pair]
        if averaged:
            observed = _all_reduces(plans, link, off)
        else:
            observed = [o for o in _observed(plans, sent[pair], iterations, scale) if o.seconds > 0]
        links[pair], way = fitted(link, observed)
        errors.append(
            LinkError(
                *pair,
                messages=len(sent[pair]) / iterations,
                waited=len(observed),
                nbytes=median([o.nbytes for o in observed] or [nbytes for _, nbytes in plans.messages] or [0.0]),
                measured_s=median(o.seconds for o in observed) if observed else None,
                predicted_s=median(_predicted_s(link, o) for o in observed) if observed else None,
                latency_s=links[pair].latency_s,
                bandwidth_bytes_per_s=links[pair].bandwidth_bytes_per_s,
                how="all-reduce" if averaged and observed else way,
            )
        )
    cluster = Cluster(problem.cluster.devices, tuple(links[link.src, link.dst] for link in problem.cluster.links))
    return cluster, tuple(errors), notes


def fitted(link: Link, observed: Sequence[Observed]) -> tuple[Link, str]:
    """The link at the speed observed, and how it was found: "fitted" (a line through the medians of all sizes,
    the sum of squared relative errors least), "ratio" (too few messages or sizes: latency and time per byte are
    both off by the median ratio), or "" (nothing to go by: the link as it is)."""
    known = [o for o in observed if o.seconds > 0]
    if not known:
        return link, ""
    by_size: dict[tuple[float, float], list[float]] = defaultdict(list)
    for o in known:
        by_size[o.latencies, o.nbytes].append(o.seconds)
    middle = [Observed(*size, median(values)) for size, values in by_size.items()]
    sizes = [o.nbytes for o in middle if o.nbytes > 0]
    if len(known) >= FEWEST and sizes and max(sizes) >= SPREAD * min(sizes):
        counts = np.array([(o.latencies, o.nbytes) for o in middle])
        latency, per_byte = coefficients(counts, np.array([o.seconds for o in middle])).tolist()
        if per_byte > 0:  # else time does not grow with the bytes
            return replace(link, latency_s=latency, bandwidth_bytes_per_s=1 / per_byte), "fitted"
    ratios = [o.seconds / predicted for o in known if (predicted := _predicted_s(link, o)) > 0]
    if not ratios:
        return replace(link, latency_s=median(o.seconds / max(o.latencies, 1.0) for o in known)), "ratio"
    ratio = median(ratios)
    return replace(
        link, latency_s=link.latency_s * ratio, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / ratio
    ), "ratio"


def _objective(problem: Problem) -> Objective:
    return Objective.MAKESPAN if problem.objective is Objective.MAKESPAN else Objective.ITERATION


def _predicted_s(link: Link, observed: Observed) -> float:
    return observed.latencies * link.latency_s + observed.nbytes / link.bandwidth_bytes_per_s


def _all_reduce_ratios(
    planned: Mapping[Pair, Planned], links: Mapping[Pair, Link], times: ActionTimes
) -> dict[int, float]:
    """Segment -> measured / predicted time of its all-reduce, which takes as long as the slowest link of the ring."""
    slowest: dict[int, float] = defaultdict(float)
    for pair, plans in planned.items():
        for segment, each in plans.averages.items():
            slowest[segment] = max(slowest[segment], _predicted_s(links[pair], Observed(*each, 0.0)))
    return {
        segment: times.sync_s[segment] / seconds
        for segment, seconds in slowest.items()
        if segment in times.sync_s and seconds > 0
    }


def _all_reduces(planned: Planned, link: Link, off: Mapping[int, float]) -> list[Observed]:
    """The all-reduces of one link, each as much off as that of its segment is (`_all_reduce_ratios`)."""
    counted = [(segment, Observed(*each, 0.0)) for segment, each in planned.averages.items() if segment in off]
    return [replace(o, seconds=_predicted_s(link, o) * off[segment]) for segment, o in counted]


def _byte_scale(planned: Planned, sent: Sequence[_Sent], iterations: int) -> float:
    """Bytes that the plan counts for each byte sent; 1 where either has none."""
    counted = sum(nbytes for _, nbytes in planned.messages)
    carried = sum(message.nbytes for message, _ in sent) / iterations
    return counted / carried if counted > 0 and carried > 0 else 1.0


def _observed(planned: Planned, sent: Sequence[_Sent], iterations: int, scale: float) -> list[Observed]:
    """The messages of one link whose time is known, in what the plan counts for them."""
    by_size: dict[int, list[float]] = defaultdict(list)
    for latencies, nbytes in planned.messages:
        by_size[round(nbytes)].append(latencies)
    whole = sum(latencies for latencies, _ in planned.messages)
    usual = whole * iterations / len(sent) if whole and sent else 1.0
    observed = []
    for message, seconds in sent:
        if seconds is not None:
            nbytes = message.nbytes * scale
            alike = by_size.get(round(nbytes))
            observed.append(Observed(fmean(alike) if alike else usual, nbytes, seconds))
    return observed
