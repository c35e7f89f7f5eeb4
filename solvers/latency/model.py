"""Single-sample latency as plain arrays: what the latency planners search on.

The model of Tarnawski et al. (NeurIPS 2020, section 6 and appendix): the operators of an accelerator
form one or more *pieces* ("subgraphs"); a piece is one call, which starts when all its inputs are
there, fetches them, computes, sends its outputs, and ends; the pieces of one accelerator run one
after the other. Operators on CPUs run as soon as their inputs are there, on unlimited cores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.coarsening.traffic import Rows
from solvers.kernels.arrays import Bools, Floats, Ints, members_of
from solvers.latency.latency_kernel import Calls
from solvers.problem.groups import group_of as groups_of
from solvers.problem.groups import together
from solvers.problem.problem import Execution, Objective, Problem, Transfers

ROUNDING = 1e-12
"""Relative slack of memory caps, for sums added in another order."""


def unsupported(problem: Problem) -> str | None:
    """What no latency planner can represent, or None."""
    if problem.objective is not Objective.MAKESPAN or problem.execution is not Execution.CALL:
        return "it plans the latency of one pass: objective makespan with execution call"
    if problem.transfers is not Transfers.BLOCKING:
        return f"transfers must be part of the calls (blocking), found {problem.transfers.value}"
    if problem.graph.trains:
        return "the graph has backward operators; latency is planned for inference"
    if any(len(message) > 1 for message in problem.graph.messages):
        return "the graph has partial sums that travel as one message"
    unlike = not problem.transfers_alike or not problem.cluster.is_complete
    if problem.transfer_s is None and len(problem.cluster) > 1 and unlike:
        return "every pair of devices must be linked, all links equally fast"
    return None


@dataclass(frozen=True, slots=True, eq=False)
class LatencyModel:
    """A problem's operators, messages and co-location groups, ready for the kernels.

    Places are 0..accelerators-1 for the accelerators and ``accelerators`` for the CPUs. calls: the
    kernels' view of operators and messages, in seconds for the problem's mini-batch. acc_s:
    [accelerators, operators], cpu_s: [operators]; inf where an operator cannot run. group_of:
    [operators]. members: operators of every group. group_bytes: [groups] static bytes. caps:
    [places] bytes. allowed: [groups, places] whether the group may be there (times and pins; memory
    of the group alone). cpu_of: [operators] the CPU device that takes it, -1 without one.
    """

    problem: Problem
    calls: Calls
    acc_s: Floats
    cpu_s: Floats
    group_of: Ints
    members: Rows
    group_bytes: Floats
    caps: Floats
    allowed: Bools
    cpu_of: Ints

    @staticmethod
    def of(problem: Problem, memory_share: float = 1.0) -> LatencyModel:
        """The model of a problem that `unsupported` has nothing against; caps times ``memory_share``."""
        graph, cluster = problem.graph, problem.cluster
        count, places = len(graph), len(cluster.accelerators) + 1
        acc_s = np.full((places - 1, count), np.inf)
        for place, device in enumerate(cluster.accelerators):
            acc_s[place] = problem.compute.at(cluster.devices[device].kind, problem.mini_batch)
        cpu_s = np.full(count, np.inf)
        if cluster.cpus:
            cpu_s = np.asarray(problem.compute.at(cluster.devices[cluster.cpus[0]].kind, problem.mini_batch))
        groups, group_of = together(graph), groups_of(graph)
        group_bytes = np.bincount(group_of, problem.static_bytes(), len(groups)).astype(np.float64)
        roomiest = max(cluster.cpus, key=lambda d: cluster.devices[d].memory_bytes, default=-1)
        devices = [*cluster.accelerators, *([roomiest] if cluster.cpus else [])]
        caps = np.zeros(places)
        caps[: len(devices)] = [cluster.devices[d].memory_bytes * memory_share * (1 + ROUNDING) for d in devices]
        seconds = np.vstack([acc_s, cpu_s])
        allowed = np.ones((len(groups), places), bool)
        np.logical_and.at(allowed, group_of, np.isfinite(seconds).T)
        allowed &= group_bytes[:, None] <= caps[None, :]
        cpu_of = np.full(count, roomiest)
        for operator, device in problem.pins.items():
            place = min(device, places - 1)
            allowed[group_of[operator], np.arange(places) != place] = False
            if place == places - 1:
                cpu_of[list(groups[group_of[operator]])] = device
        return LatencyModel(
            problem, _calls(problem, seconds), acc_s, cpu_s, group_of, Rows.of(groups), group_bytes, caps, allowed,
            cpu_of,
        )  # fmt: skip

    @property
    def accelerators(self) -> int:
        return len(self.acc_s)

    @property
    def groups(self) -> int:
        return len(self.group_bytes)

    @property
    def serial_s(self) -> float:
        """Seconds that no best plan exceeds: every operator where it is slowest, every message out and in."""
        copies = np.diff(self.calls.reader_start) + 1
        return float(self.calls.seconds.max(axis=0).sum() + (self.calls.message_s * copies).sum())

    def messages(self, unit_s: float = 1.0) -> list[tuple[int, list[int], float]]:
        """Maker, readers and time, in units of ``unit_s`` seconds, of every message."""
        at = self.calls
        return [
            (u, at.reader[at.reader_start[m] : at.reader_start[m + 1]].tolist(), float(at.message_s[m]) / unit_s)
            for u in range(len(self.group_of))
            for m in at.sent[at.sent_start[u] : at.sent_start[u + 1]].tolist()
        ]

    def group(self, number: int) -> list[int]:
        """The operators of a group."""
        members: list[int] = self.members.items[self.members.start[number] : self.members.start[number + 1]].tolist()
        return members


def _calls(problem: Problem, seconds: Floats) -> Calls:
    graph = problem.graph
    messages = [graph.tensors[message[0]] for message in graph.messages]
    first = [message[0] for message in graph.messages]
    if problem.transfer_s is not None:
        message_s = np.array([problem.transfer_s[t] * problem.mini_batch for t in first])
    else:
        link = problem.cluster.links[0] if problem.cluster.links else None
        nbytes = [tensor.nbytes.at(problem.mini_batch) for tensor in messages]
        message_s = np.array([link.transfer_s(b) if link is not None and b > 0 else 0.0 for b in nbytes])
    outgoing = Rows.of(members_of((tensor.producer for tensor in messages), len(graph)))
    readers, before = Rows.of([t.consumers for t in messages]), Rows.of(graph.predecessors)
    return Calls(
        np.where(np.isfinite(seconds), seconds, 0.0),
        np.array(graph.topological_order, np.int64),
        before.start, before.items, outgoing.start, outgoing.items, readers.start, readers.items,
        message_s.astype(np.float64),
    )  # fmt: skip
