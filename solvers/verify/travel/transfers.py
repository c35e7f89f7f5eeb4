"""The spans that messages must have, under each of the four transfer models, and who waits for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.problem.problem import Problem, Transfers
from solvers.verify.travel.reduction import all_reduces
from solvers.verify.travel.routes import Parts, Routes, Sendings
from solvers.verify.travel.wires import Speeds, Wires
from solvers.verify.work.jobs import Jobs
from solvers.verify.work.messages import Messages


class Expected(NamedTuple):
    """Spans of transfers that must be there: columns, as in `SpanColumns`."""

    stage: Ints
    kind: Ints
    micro_batch: Ints
    device: Ints
    to_device: Ints
    resource: Ints
    """position in ``Moves.resources``"""
    nbytes: Floats
    seconds: Floats
    priority: Floats


class Moves(NamedTuple):
    """All that must travel, and the spans that it must have."""

    sendings: Sendings
    parts: Parts
    kept_bytes: Floats
    """[sendings] B that the sender keeps until all of it has gone"""
    sends: Bools
    """[sendings] whether the sender's half has a span, a row of ``departures``"""
    arrives: Bools
    """[parts] whether there is a span, a row of ``arrivals``"""
    direct: Bools
    """[parts] nothing is sent: the samples are there already, or it is an order without bytes"""
    departures: Expected
    arrivals: Expected
    reduces: Expected
    folded_s: Floats
    """[turns] s that calls fetch and send themselves"""
    resources: tuple[str, ...]
    rings: tuple[tuple[int, ...], ...]
    """the devices of every stage, all its replicas, of which the turns are those of the first or of all"""


def transfers_of(problem: Problem, jobs: Jobs, messages: Messages, rings: tuple[tuple[int, ...], ...]) -> Moves:
    """What must travel between the turns of ``jobs``, and what these send for gradients; rings: see `Moves`.

    LINKS: everything is one span on its link. The others: a sender's half, and a receiver's for each destination;
    CPUs pay for neither; under BLOCKING calls fetch and send themselves, also what stays on their device (Tarnawski
    et al. 2020, section 6).
    """
    routes, speeds, wires = Routes(problem, jobs, messages), Speeds(problem, messages.bundles), Wires(problem)
    sendings, parts = routes.sendings(), routes.parts()
    src, sender, call = sendings.device, parts.sending, routes.first_maker[sendings.bundle]
    links, blocking = problem.transfers is Transfers.LINKS, problem.transfers is Transfers.BLOCKING
    is_cpu = np.array([device.is_cpu for device in problem.cluster.devices])
    free = speeds.tensors[sendings.bundle] == 0
    departs = ~free & ~is_cpu[src] & (not links)  # [sendings] whether the sender is busy, in its call or apart
    within_call = departs & jobs.call[call] & blocking
    stays = src[sender] == parts.device
    if blocking:
        stays &= ~routes.through_host()[parts.target]
    direct = free[sender] | stays
    costs = ~direct & (links | ~is_cpu[parts.device])
    fetches = costs & jobs.call[routes.first_reader[parts.target]] & blocking  # [parts] whether the calls that read do
    arrives = costs & ~fetches
    farthest = _farthest(routes, speeds, sendings, departs)
    seconds = speeds.seconds(sendings.bundle[sender], parts.samples, src[sender], parts.device)

    folded = np.zeros(len(jobs.job))  # the first of the calls that make a bundle sends it, every reader fetches it
    k = sendings.slice
    np.add.at(folded, (jobs.first[call] + k)[within_call], farthest[within_call])
    fetched = fetches[parts.read_of]
    np.add.at(folded, parts.read_by[fetched], seconds[parts.read_of[fetched]])

    made = routes.last_maker[sendings.bundle]
    row = (jobs.stage[made], jobs.kind[made], k // jobs.replicas[made], src)
    kept = speeds.nbytes(sendings.bundle, sendings.samples)
    received = speeds.nbytes(sendings.bundle[sender], parts.samples)
    last, first = _priorities(jobs, sendings, parts)
    departures = (*row, src, wires.of("out", src, src), kept, farthest, last)
    there = wires.of("in", src[sender], parts.device)
    arrivals = (*(column[sender] for column in row), parts.device, there, received, seconds, first)
    sends = departs & ~within_call
    return Moves(
        sendings,
        parts,
        kept,
        sends,
        arrives,
        direct,
        Expected._make(column[sends] for column in departures),
        Expected._make(column[arrives] for column in arrivals),
        Expected(*all_reduces(problem, jobs, wires, rings)),
        folded,
        wires.known(),
        rings,
    )


def _farthest(routes: Routes, speeds: Speeds, sendings: Sendings, departs: Bools) -> Floats:
    """[sendings] Seconds of the sender's half: to the slowest of all devices of all places that read the bundle,
    whether this slice of it goes there or not."""
    slowest = np.zeros(len(departs))
    row, dst = routes.destinations(sendings, np.flatnonzero(departs))
    seconds = speeds.seconds(sendings.bundle[row], sendings.samples[row], sendings.device[row], dst)
    np.maximum.at(slowest, row, seconds)
    return slowest


def _priorities(jobs: Jobs, sendings: Sendings, parts: Parts) -> tuple[Floats, Floats]:
    """What goes first where several could, the least first: ([sendings], [parts]). A turn has its position in its
    device's order; what leaves comes just after the last turn that makes it, what arrives just before the first that
    reads it."""
    position = jobs.position.astype(np.float64)
    last = np.zeros(len(sendings.bundle))
    np.maximum.at(last, sendings.made_at, position[sendings.made_by])
    first = np.full(len(parts.sending), np.inf)
    np.minimum.at(first, parts.read_of, position[parts.read_by])
    return last + 0.25, first - 0.25
