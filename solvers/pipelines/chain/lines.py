"""Linear orders of a problem's super-operators, costed for pipelines that are cut from them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.coarsening.traffic import Rows
from solvers.kernels.arrays import Floats, Ints
from solvers.pipelines.chain.lines_kernel import BLOCKING, LATENT, Line, Rules
from solvers.problem.graph import Phase
from solvers.problem.problem import Pipeline, Problem, Transfers

ROUNDING = 1e-12
"""Relative slack of memory caps, for sums added in another order."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearOrder:
    """Atoms in the order in which a pipeline runs them: operators (forward and all that goes with them)
    between which it may be cut. samples: per micro-batch."""

    atoms: tuple[tuple[int, ...], ...]
    samples: int
    line: Line


def rules_of(problem: Problem, micro_batches: int, *, memory_share: float = 1.0) -> Rules:
    """How pipelines of this problem run. memory_share: of the accelerators' memory, to plan for."""
    cluster = problem.cluster
    least = min((cluster.devices[d].memory_bytes for d in cluster.accelerators), default=math.inf)
    return Rules(
        len(cluster.accelerators),
        micro_batches,
        least * memory_share * (1 + ROUNDING),
        problem.pipeline is Pipeline.GPIPE,
        problem.has_backward(),
        problem.recompute and problem.has_backward(),
        BLOCKING if problem.transfers is Transfers.BLOCKING else LATENT,
    )


def cost_order(
    condensed: Condensed, contracted: Contracted, order: Sequence[int], most: int, degrees: Sequence[int]
) -> LinearOrder:
    """The costs of an order of super-operators, from the input on, in at most ``most`` atoms.

    contracted: one of ``condensed``, all of whose super-operators an accelerator supports.
    """
    problem, samples = condensed.problem, contracted.samples
    copies = [condensed.at(samples, merge_trivial=contracted.has_merged, replicas=r) for r in degrees]
    nodes = np.asarray(order, np.int64)
    bounds = _cuts(contracted, nodes, most)
    atom_of_node = np.empty(len(nodes), np.int64)
    atom_of_node[nodes] = np.searchsorted(bounds, np.arange(len(nodes)), side="right") - 1
    members = [tuple(contracted.shape.members[node]) for node in nodes.tolist()]
    atoms = tuple(tuple(o for group in members[a:b] for o in group) for a, b in itertools.pairwise(bounds.tolist()))

    def up_to(values: Floats) -> Floats:
        return np.concatenate([[0.0], np.cumsum(values[..., nodes])])[bounds]

    atom_of = np.empty(len(problem.graph), np.int64)
    for atom, operators in enumerate(atoms):
        atom_of[list(operators)] = atom
    sync = [_synchronisation(problem, r) for r in degrees]
    messages = _messages(problem, atom_of)
    message_s = np.array([_seconds(problem, messages, samples, r) for r in degrees])
    makers, readers = Rows.of([m.makers for m in messages]), Rows.of([m.readers for m in messages])
    line = Line(
        np.array(degrees, np.int64),
        np.array([up_to(copy.acc_pass_s[0]) * samples for copy in copies]),
        np.array([up_to(copy.acc_pass_s[1]) * samples for copy in copies]),
        np.array([up_to(copy.saved_bytes) for copy in copies]),
        np.array([np.maximum.reduceat(copy.workspace_bytes[nodes], bounds[:-1]) for copy in copies]),
        np.array([up_to(copy.static_bytes) for copy in copies]),
        up_to(contracted.param_bytes),
        *_tables(problem, messages, message_s, len(atoms), samples, degrees),
        np.array([fixed for fixed, _ in sync]),
        np.array([per_byte for _, per_byte in sync]),
        makers.start,
        makers.items,
        readers.start,
        readers.items,
        np.array([m.is_gradient for m in messages], np.bool_),
        message_s,
    )
    return LinearOrder(atoms, samples, line)


def _cuts(contracted: Contracted, nodes: Ints, most: int) -> Ints:
    """Where atoms begin, and the end: everywhere if there are few super-operators, else in every equal
    part of the work where the fewest seconds of messages cross."""
    count = len(nodes)
    if count <= most:
        return np.arange(count + 1)
    place = np.empty(count, np.int64)
    place[nodes] = np.arange(count)
    crossing = np.zeros(count + 1)
    traffic = contracted.traffic
    for message in range(len(traffic)):
        ends = place[np.concatenate([traffic.makers[message], traffic.readers[message]])]
        crossing[ends.min() + 1] += contracted.message_s[message]
        crossing[ends.max() + 1] -= contracted.message_s[message]
    crossing = np.cumsum(crossing)
    work = np.cumsum(contracted.acc_s[nodes])
    bucket = np.minimum((work / max(work[-1], 1e-300) * most).astype(np.int64), most - 1)
    chosen = {0, count}
    for part in np.unique(bucket[:-1]):
        inside = np.flatnonzero(bucket[:-1] == part) + 1  # a cut after these operators
        chosen.add(int(inside[np.argmin(crossing[inside])]))
    return np.array(sorted(chosen), np.int64)


@dataclass(frozen=True, slots=True)
class _Message:
    """Bytes that go from some atoms to others; fixed and per sample, or stated seconds per sample."""

    makers: tuple[int, ...]
    readers: tuple[int, ...]
    is_gradient: bool
    tensor: int


def _messages(problem: Problem, atom_of: Ints) -> list[_Message]:
    """What goes from atoms to others; of what has no size, one message for all between the same atoms."""
    graph = problem.graph
    found: dict[tuple[object, ...], _Message] = {}
    for group in graph.messages:
        first = graph.tensors[group[0]]
        makers = tuple(sorted({int(atom_of[graph.tensors[t].producer]) for t in group}))
        readers = tuple(sorted({int(atom_of[consumer]) for consumer in first.consumers}))
        if len({*makers, *readers}) > 1:
            gradient = graph.operators[first.producer].phase is not Phase.FORWARD
            message = _Message(makers, readers, gradient, group[0])
            key = (makers, readers, gradient, group[0] if _weighs(problem, group[0]) else -1)
            found.setdefault(key, message)
    return list(found.values())


def _weighs(problem: Problem, tensor: int) -> bool:
    """Whether sending a tensor takes time."""
    nbytes = problem.graph.tensors[tensor].nbytes
    return problem.transfer_s is not None or bool(nbytes.fixed or nbytes.per_sample)


def _seconds(problem: Problem, messages: Sequence[_Message], samples: int, degree: int) -> Floats:
    """Seconds of every message, of which each of ``degree`` devices sends or receives a share."""
    if problem.transfer_s is not None:
        return np.array([problem.transfer_s[m.tensor] for m in messages], np.float64) * (samples / degree)
    latency, bandwidth, wires = _between(problem, degree)
    tensors = problem.graph.tensors
    nbytes = np.array([tensors[m.tensor].nbytes.at(samples / wires) for m in messages], np.float64)
    return np.where(nbytes > 0, latency + nbytes / bandwidth, 0.0)


def _between(problem: Problem, degree: int) -> tuple[float, float, float]:
    """(latency, bandwidth, links side by side) between neighbouring stages of ``degree`` devices."""
    cluster = problem.cluster
    if not cluster.links:
        return (1e9, 1.0, 1.0) if len(cluster) > 1 else (0.0, math.inf, 1.0)
    per_node = _largest_node(problem)
    inner = [speed for speed in cluster.speeds if speed.inside]
    outer = [speed for speed in cluster.speeds if not speed.inside]
    whole_nodes = not inner or (bool(outer) and degree >= per_node)
    chosen = outer if whole_nodes else inner
    # Devices of one host share the wire to another host where links name one resource.
    shared = whole_nodes and cluster.shares_between
    wires = degree / per_node if shared else degree
    return (
        max(link.latency_s for link in chosen),
        min(link.bandwidth_bytes_per_s for link in chosen),
        max(wires, 1.0),
    )


def _largest_node(problem: Problem) -> int:
    nodes = [problem.cluster.devices[d].node for d in problem.cluster.accelerators]
    return max(Counter(nodes).values(), default=1)


def _synchronisation(problem: Problem, degree: int) -> tuple[float, float]:
    """Seconds of an all-reduce among so many devices, fixed and per byte of parameters; inside nodes where one has room
    for them."""
    if not problem.training:
        return 0.0, 0.0
    speeds = list(problem.cluster.speeds)
    inner = [speed for speed in speeds if speed.inside]
    return problem.repeats.over_worst_s(degree, inner if inner and degree <= _largest_node(problem) else speeds)


def _tables(
    problem: Problem,
    messages: Sequence[_Message],
    message_s: Floats,
    atoms: int,
    samples: int,
    degrees: Sequence[int],
) -> tuple[Floats, Floats, Floats, Floats]:
    """sent_s, returned_s, kept_bytes and sent_bytes of a `Line`.

    A message's weight is added to all (i, j) for which the stage [i, j) sends (receives) it: rectangles,
    noted at their corners and summed up once.
    """
    shape = (len(degrees), atoms + 2, atoms + 2)
    sent, returned, kept, out = (np.zeros(shape) for _ in range(4))
    counted = problem.stated_bytes is None
    for d, degree in enumerate(degrees):
        for m, seconds in zip(messages, message_s[d].tolist(), strict=True):
            nbytes = problem.graph.tensors[m.tensor].nbytes.at(samples / degree) if counted else 0.0
            if m.is_gradient:
                first = m.readers[0]
                _add(returned[d], 0, first, first + 1, m.makers[-1], seconds)
                continue
            maker = m.makers[0]
            _add(sent[d], 0, maker, maker + 1, m.readers[-1], seconds)
            _add(out[d], 0, maker, maker + 1, m.readers[-1], nbytes)
            before = maker
            for reader in m.readers:
                if reader > before:
                    _add(kept[d], before + 1, reader, reader + 1, atoms, nbytes)
                    before = reader
    return tuple(  # type: ignore[return-value]
        np.ascontiguousarray(np.cumsum(np.cumsum(table, axis=1), axis=2)[:, : atoms + 1, : atoms + 1])
        for table in (sent, returned, kept, out)
    )


def _add(table: Floats, top: int, bottom: int, left: int, right: int, amount: float) -> None:
    """Note ``amount`` for rows top..bottom and columns left..right."""
    if bottom < top or right < left:
        return
    table[top, left] += amount
    table[bottom + 1, left] -= amount
    table[top, right + 1] -= amount
    table[bottom + 1, right + 1] += amount
