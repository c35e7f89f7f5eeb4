"""From operators to super-operators: the preprocessing of the contiguous max-load planners.

Tarnawski et al., NeurIPS 2020, section 5.1 and appendix: operators that share a device become one
super-operator; order is that of the forward graph; communication is a cut of hyperedges.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from solvers.coarsening.contracted import Contracted, Shape
from solvers.coarsening.traffic import traffic_of
from solvers.coarsening.trivial_merges import TRIVIAL_S, TRIVIAL_SHARE, merge_leaves
from solvers.errors import InvalidProblem
from solvers.evaluation.columns import FORWARD, UPDATE, graph_columns
from solvers.kernels.arrays import Bools, Floats, Ints, members_of
from solvers.plan.contiguity import forward_edges
from solvers.plan.successors import components
from solvers.problem.graph import Phase, topological_order
from solvers.problem.groups import group_of, together
from solvers.problem.problem import Contiguity, Problem, Transfers

Key = TypeVar("Key", bound=Hashable)
Speed = tuple[float, float]
"""Of a link: its latency in seconds and its bandwidth in bytes per second."""


def contract(problem: Problem, samples_per_micro_batch: int, *, merge_trivial: bool = True) -> Contracted:
    """The super-operators of ``problem`` at one micro-batch size; see `Condensed` for several."""
    return Condensed(problem).at(samples_per_micro_batch, merge_trivial=merge_trivial)


class Condensed:
    """A problem's co-location groups, ready to be costed at several micro-batch sizes.

    Groups on a cycle of the forward graph (possible once co-location joins operators) are fused,
    unless contiguity is NONE; with ``ordered`` even then, for planners that cut an order. Raises
    InvalidProblem if a backward or update operator feeds a forward one.
    """

    def __init__(self, problem: Problem, *, ordered: bool = False) -> None:
        self.problem = problem
        graph = problem.graph
        _refuse_backward_to_forward(problem)
        groups, number = together(graph), group_of(graph)
        edges = {(int(number[u]), int(number[v])) for u, v in forward_edges(graph)}
        unconstrained = problem.contiguity is Contiguity.NONE and not ordered
        component = np.arange(len(groups)) if unconstrained else _components(len(groups), edges)
        self.node_of: Ints = component[number]
        self.count = int(component.max()) + 1
        self.edges = {(int(component[u]), int(component[v])) for u, v in edges if component[u] != component[v]}
        columns = graph_columns(graph)
        self._messages = columns.message_tensor
        self._update, self._forward = columns.phase == UPDATE, columns.phase == FORWARD
        self._ends = self._message_ends()
        pins = [tuple(sorted({*makers, *readers})) for makers, readers, _ in self._ends]
        # Message -> hyperedge (the last, extra one: inside a super-operator), and the hyperedges' pins.
        self._net_of_message, self.nets = _numbered(key if len(key) > 1 else None for key in pins)
        self._feeds_backward = self._feeding_backward()
        self._contracted: dict[tuple[int, bool, int, str, Speed | None], Contracted] = {}
        self._into: dict[int, Ints] = {}
        self._shapes: dict[tuple[int, ...], tuple[Shape, Ints, Ints, Ints]] = {}
        self._link_kinds = {(link.latency_s, link.bandwidth_bytes_per_s) for link in problem.cluster.speeds}
        self._fixed, self._per_sample = columns.tensor_bytes[self._messages].T
        self._saved, self._workspace = columns.saved_bytes.T, columns.workspace_bytes.T

    def at(
        self,
        samples: int,
        *,
        merge_trivial: bool = True,
        replicas: int = 1,
        kind: str = "",
        speed: Speed | None = None,
    ) -> Contracted:
        """The super-operators when micro-batches have ``samples`` samples.

        replicas: the costs of one of so many devices that share every micro-batch equally; seconds
        stay per sample of the whole, and the shape is that of one replica. kind: of the accelerators,
        the first by name if it is not given. speed: of the links, the slowest if it is not given. Neither
        changes the shape.
        """
        key = (samples, merge_trivial, replicas, kind, speed)
        if key not in self._contracted:
            self._contracted[key] = self._costed(*key)
        return self._contracted[key]

    def _costed(self, samples: int, merge_trivial: bool, replicas: int, kind: str, speed: Speed | None) -> Contracted:
        problem = self.problem
        acc, cpu = (self._seconds(samples, replicas, cpu=on_cpu, kind=kind) for on_cpu in (False, True))
        each_s = self._message_s(samples, replicas, speed)
        net_s = _sums(self._net_of_message, each_s, len(self.nets))
        into = self._merged(samples) if merge_trivial else np.arange(self.count)
        shape, position, net_to, message_to = self._shape(into)
        final = position[into[self.node_of]]

        def total(values: Floats) -> Floats:
            return _sums(final, values, len(shape))

        def by_pass(values: Floats) -> Floats:
            return np.array([total(np.where(row, values, 0.0)) for row in (self._forward, ~self._forward)])

        static = problem.static_bytes(replicas)
        stays = into[self.node_of] == self.node_of
        supported = np.isfinite(total(acc))
        counted = problem.stated_bytes is None
        saved, workspace = np.zeros(len(problem.graph)), np.zeros(len(shape))
        if counted:
            if problem.has_backward():
                saved = self._saved[0] + self._saved[1] * (samples / replicas)
            np.maximum.at(workspace, final, self._workspace[0] + self._workspace[1] * (samples / replicas))
            if replicas > 1 and problem.zero:
                gathered = np.zeros(len(shape))
                np.maximum.at(gathered, final, problem.gathered_bytes(replicas))
                workspace += gathered
        return Contracted(
            shape,
            samples,
            np.where(supported, total(acc), 0.0),
            total(cpu),
            supported,
            total(static),
            total(np.where(stays, static, 0.0)),
            total(saved),
            workspace,
            _sums(net_to, net_s, len(shape.nets)),
            _sums(message_to, each_s, len(shape.traffic)),
            _sums(message_to, self._fixed + self._per_sample * (samples / replicas), len(shape.traffic)),
            _sums(message_to, (self._fixed + self._per_sample > 0).astype(float), len(shape.traffic)).astype(np.int64),
            np.where(supported, by_pass(acc), 0.0),
            by_pass(cpu),
            total(problem.reduced_bytes(samples) * self._forward),
            self.count - len(shape),
        )

    def _sum(self, values: Floats) -> Floats:
        return _sums(self.node_of, values, self.count)

    def _kinds(self, *, cpu: bool) -> list[str]:
        return sorted({d.kind for d in self.problem.cluster.devices if d.is_cpu == cpu})

    def _seconds(self, samples: int, replicas: int = 1, *, cpu: bool, kind: str = "") -> Floats:
        """Seconds per sample of every operator on an accelerator (of ``kind``) or a CPU; inf without such a device."""
        problem = self.problem
        kinds = self._kinds(cpu=cpu)
        if not kinds:
            return np.full(len(problem.graph), np.inf)
        kind, mini_batch = kind if kind in kinds else kinds[0], problem.mini_batch
        each = problem.compute.at(kind, samples / replicas) / samples
        return np.where(self._update, problem.compute.at(kind, mini_batch / replicas) / mini_batch, each)

    def _message_s(self, samples: int, replicas: int = 1, speed: Speed | None = None) -> Floats:
        """Seconds per sample of every message; over the slowest link if links differ and no speed is given.

        Without links more than all the work together, so that no plan that sends is better than one
        device; inf could not be subtracted again.
        """
        problem = self.problem
        if len(problem.cluster) < 2:
            return np.zeros(len(self._messages))
        if problem.transfer_s is not None:
            return np.asarray(problem.transfer_s, np.float64)[self._messages] / replicas
        if not problem.cluster.links:
            work = np.concatenate([self._seconds(samples, cpu=on_cpu) for on_cpu in (False, True)])
            return np.full(len(self._messages), 1.0 + 2.0 * float(work[np.isfinite(work)].sum()))
        nbytes = self._fixed + self._per_sample * (samples / replicas)
        speeds = self._link_kinds if speed is None else {speed}
        each = np.max([latency + nbytes / bandwidth for latency, bandwidth in speeds], axis=0)
        return np.where(nbytes > 0, each, 0.0) / samples

    def _merged(self, samples: int) -> Ints:
        """Node -> the node it is merged into, because it is trivial at this micro-batch size."""
        if samples in self._into:
            return self._into[samples]
        kinds = self._kinds(cpu=False) or [""]
        anywhere = [np.isfinite(self._sum(self._seconds(samples, cpu=False, kind=kind))) for kind in kinds]
        takes_time = self._message_s(samples) > 0
        messages = {
            (tuple(makers), tuple(readers))
            for (makers, readers, _), slow in zip(self._ends, takes_time.tolist(), strict=True)
            if slow and len({*makers, *readers}) > 1
        }
        directed = self.problem.transfers is Transfers.DUPLEX
        trivial = self._trivial(samples)
        self._into[samples] = merge_leaves(
            self.edges, sorted(messages), trivial, np.any(anywhere, axis=0), np.all(anywhere, axis=0), directed=directed
        )
        return self._into[samples]

    def _message_ends(self) -> list[tuple[list[int], list[int], bool]]:
        """Super-operators that make and that read every message, and whether it is of the backward pass."""
        graph, node_of = self.problem.graph, self.node_of.tolist()
        tensors, forward = graph.tensors, self._forward.tolist()
        return [
            (
                [node_of[tensors[t].producer] for t in message],
                [node_of[consumer] for consumer in tensors[message[0]].consumers],
                not forward[tensors[message[0]].producer],
            )
            for message in graph.messages
        ]

    def _feeding_backward(self) -> Bools:
        feeds = np.zeros(self.count, bool)
        operators = self.problem.graph.operators
        for tensor in self.problem.graph.tensors:
            if operators[tensor.producer].phase is Phase.FORWARD and any(
                operators[consumer].phase is not Phase.FORWARD for consumer in tensor.consumers
            ):
                feeds[self.node_of[tensor.producer]] = True
        return feeds

    def _trivial(self, samples: int) -> Bools:
        """Super-operators without work on any kind of device, with any number of replicas, without
        parameters that replicas would have to synchronise, and without an edge into the backward pass. Pinned
        ones are not: their neighbour need not come along."""
        problem = self.problem
        work = np.zeros(self.count)
        total = 0.0
        for replicas in range(1, problem.max_replicas + 1):
            for cpu, kind in [(on_cpu, kind) for on_cpu in (False, True) for kind in self._kinds(cpu=on_cpu)]:
                seconds = self._seconds(samples, replicas, cpu=cpu, kind=kind)
                if not np.isinf(seconds).all():
                    work = np.maximum(work, self._sum(seconds))
                    total = max(total, float(seconds[np.isfinite(seconds)].sum()))
        idle = work <= min(TRIVIAL_S, TRIVIAL_SHARE * total)
        if problem.max_replicas > 1:
            idle &= self._sum(np.array([o.param_bytes for o in problem.graph.operators])) == 0
        idle[self.node_of[list(problem.pins)]] = False
        return np.asarray(idle & ~self._feeds_backward)

    def _shape(self, into: Ints) -> tuple[Shape, Ints, Ints, Ints]:
        """The shape after merging node i into ``into[i]``; node -> super-operator; net -> net of the
        shape; message -> message of its traffic."""
        key = tuple(into.tolist())
        if key not in self._shapes:
            remaining = [node for node in range(self.count) if key[node] == node]
            after: dict[int, set[int]] = {node: set() for node in remaining}
            for u, v in self.edges:
                if key[u] != key[v]:
                    after[key[u]].add(key[v])
            dense = {node: i for i, node in enumerate(remaining)}
            order = _order([sorted(dense[v] for v in after[node]) for node in remaining])
            position = np.zeros(self.count, np.int64)
            for rank, i in enumerate(order):
                position[remaining[i]] = rank
            final = position[into]
            members = members_of(final[self.node_of].tolist(), len(remaining))
            edges = sorted((int(position[u]), int(position[v])) for u in remaining for v in after[u])
            now_at: list[int] = final.tolist()

            def now(nodes: Iterable[int]) -> tuple[int, ...]:
                return tuple(sorted({now_at[node] for node in nodes}))

            pins = map(now, self.nets)
            net_to, nets = _numbered(key if len(key) > 1 else None for key in pins)
            ends = [(now(makers), now(readers), backward) for makers, readers, backward in self._ends]
            to_traffic, sent = _numbered(end if len({*end[0], *end[1]}) > 1 else None for end in ends)
            shape = Shape(tuple(map(tuple, members)), tuple(edges), tuple(nets), traffic_of(sent, len(remaining)))
            self._shapes[key] = (shape, position, net_to, to_traffic)
        return self._shapes[key]


def _refuse_backward_to_forward(problem: Problem) -> None:
    operators = problem.graph.operators
    for tensor in problem.graph.tensors:
        if operators[tensor.producer].phase is Phase.FORWARD:
            continue
        for consumer in tensor.consumers:
            if operators[consumer].phase is Phase.FORWARD:
                raise InvalidProblem(
                    f"backward operator {operators[tensor.producer].name!r} feeds forward operator"
                    f" {operators[consumer].name!r}; a backward operator may only feed backward ones"
                )


def _sums(label: Ints, values: Floats, count: int) -> Floats:
    """The sum of the values with label i, for i < count."""
    return np.bincount(label, values, count + 1)[:count].astype(np.float64)


def _numbered(keys: Iterable[Key | None]) -> tuple[Ints, list[Key]]:
    """The number of every key in the order of first ones, and the keys; None has the number after all of them."""
    number: dict[Key, int] = {}
    labels = [-1 if key is None else number.setdefault(key, len(number)) for key in keys]
    return np.array([len(number) if label < 0 else label for label in labels], np.int64), list(number)


def _components(count: int, edges: Iterable[tuple[int, int]]) -> Ints:
    """Node -> number of its strongly connected component, in the order of their first nodes."""
    _, first, number = np.unique(components(count, edges), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]


def _order(after: Sequence[Sequence[int]]) -> list[int]:
    """A topological order; where there are cycles, their nodes follow in the order of their numbers."""
    order = list(topological_order(after))
    if len(order) < len(after):
        seen = set(order)
        order += [node for node in range(len(after)) if node not in seen]
    return order
