"""How long messages of a run were on their wires, where that is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

from explorer.runner.bundles.outcome import MeasuredMessage, Outcome
from solvers.problem.cluster import Cluster, Link


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A message whose arrival is known. start_s: when it was posted, or the last one before it arrived that is
    known, too; doubtful: others that nobody waited for, and which may have held the link meanwhile."""

    position: int
    start_s: float
    arrived_s: float
    link: Link
    nbytes: int
    doubtful: tuple[tuple[float, float], ...]
    """(when posted, seconds that its link is said to take)."""


def ends_of(message: MeasuredMessage, outcome: Outcome) -> tuple[int, int]:
    """The devices that a message goes from and to."""
    return outcome.rank_devices[message.src_rank], outcome.rank_devices[message.dst_rank]


def wire_seconds(cluster: Cluster, outcome: Outcome) -> dict[int, float]:
    """Position of a message -> its seconds on the link.

    Only where its reader had to wait: else the moment of arrival is not known. Where another message was under
    way on the link meanwhile, its own time begins when that one arrived. If nobody waited for the other, it counts
    as gone after as many times its stated time as the link's messages usually take; a message posted before
    that is left out.
    """
    wires: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, message in enumerate(outcome.messages):
        src, dst = ends_of(message, outcome)
        link = cluster.link(src, dst)
        if link is not None:
            wires[link.resource or f"{src}->{dst}"][message.iteration].append(position)
    on_wire_s = {}
    for iterations in wires.values():
        arrivals = [h for positions in iterations.values() for h in _arrivals(cluster, outcome, positions)]
        stated = [(h, h.link.transfer_s(h.nbytes)) for h in arrivals]
        usual = median([(h.arrived_s - h.start_s) / s for h, s in stated if s > 0] or [0.0])
        for h in arrivals:
            if all(usual > 0 and posted + usual * seconds <= h.start_s for posted, seconds in h.doubtful):
                on_wire_s[h.position] = h.arrived_s - h.start_s
    return on_wire_s


def _arrivals(cluster: Cluster, outcome: Outcome, positions: Sequence[int]) -> Iterator[_Arrival]:
    """The messages of one link in one iteration that were waited for."""
    wire = sorted((outcome.messages[p].sent_s, outcome.messages[p].arrived_s, p) for p in positions)
    under_way: list[MeasuredMessage] = []
    for place, (sent_s, arrived_s, position) in enumerate(wire):
        message = outcome.messages[position]
        link = cluster.link(*ends_of(message, outcome))
        under_way = [other for other in under_way if other.arrived_s > sent_s]
        if message.waited and link is not None:
            beside = [*under_way, *_posted_meanwhile(outcome, wire, place)]
            ends = [other.arrived_s for other in beside if other.waited and other.arrived_s < arrived_s]
            start_s = min(arrived_s, max([sent_s, *ends]))
            doubtful = tuple(
                (other.sent_s, cluster.transfer_s(other.nbytes, *ends_of(other, outcome)))
                for other in beside
                if not other.waited
            )
            yield _Arrival(position, start_s, arrived_s, link, message.nbytes, doubtful)
        under_way.append(message)


def _posted_meanwhile(
    outcome: Outcome, wire: Sequence[tuple[float, float, int]], place: int
) -> Iterator[MeasuredMessage]:
    """The messages posted while the one at ``place`` was on its way."""
    for sent_s, _, position in islice(wire, place + 1, None):
        if sent_s >= wire[place][1]:
            return
        yield outcome.messages[position]
