"""Layers as the stages of a pipeline take them: costs at any size of a micro-batch, from the columns of the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.evaluation.columns import PHASES, graph_columns
from solvers.joint.lists.layers import LayerCosts
from solvers.kernels.arrays import Floats, Ints
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem


class StageLayers:
    """The layers ``members`` (operators, each in one, co-located ones in the same) of a problem."""

    def __init__(self, problem: Problem, members: Sequence[Sequence[int]]) -> None:
        self.problem, self.count = problem, len(members)
        self.columns = graph_columns(problem.graph)
        self.layer_of = np.empty(len(problem.graph), np.int64)
        for number, operators in enumerate(members):
            self.layer_of[list(operators)] = number
        columns = self.columns
        self._first, self._last = self._reach(columns.maker_start, columns.maker)
        first, last = self._reach(columns.reader_start, columns.reader)
        np.minimum(self._first, first, out=self._first)
        np.maximum(self._last, last, out=self._last)
        links = [(link.latency_s, 1 / link.bandwidth_bytes_per_s) for link in problem.cluster.speeds]
        means: list[float] = np.mean(links, axis=0).tolist() if links else [0.0, 0.0]
        self._latency_s, self._per_byte_s = means

    def at(self, samples: int) -> LayerCosts:
        """For micro-batches of ``samples``."""
        problem, devices = self.problem, self.problem.cluster.devices
        of_kind = {kind: problem.compute.at(kind, samples) for kind in sorted({d.kind for d in devices})}
        work = {kind: self._sums(seconds) for kind, seconds in of_kind.items()}
        allowed = np.stack([np.isfinite(work[device.kind]) for device in devices], axis=1)
        for operator, device in problem.pins.items():
            allowed[self.layer_of[operator], np.arange(len(devices)) != device] = False
        forward = self.columns.phase == PHASES.index(Phase.FORWARD)
        again = {kind: self._sums(np.where(forward, seconds, 0.0)) for kind, seconds in of_kind.items()}
        saved = np.zeros(self.count)
        if problem.stated_bytes is None and problem.has_backward():
            amount = self.columns.saved_bytes[:, 0] + self.columns.saved_bytes[:, 1] * samples
            saved = self._sums(np.where(forward, amount, 0.0))
        static = self._sums(problem.static_bytes())
        work_s, forward_s = (np.stack([of[device.kind] for device in devices], axis=1) for of in (work, again))
        return LayerCosts(work_s, forward_s, static, saved, allowed)

    def _sums(self, each: Floats) -> Floats:
        return np.asarray(np.bincount(self.layer_of, each, self.count), np.float64)

    def crossing_s(self, samples: int, row: Ints) -> Floats:
        """Seconds, at the mean speed of links, of all messages for ``samples`` that cross a cut before each layer of
        ``row``, and after the last, [rows + 1]."""
        tensor = self.columns.message_tensor
        if self.problem.transfer_s is not None:
            seconds = np.array(self.problem.transfer_s)[tensor] * samples
        else:
            nbytes = self.columns.tensor_bytes[tensor, 0] + self.columns.tensor_bytes[tensor, 1] * samples
            seconds = np.where(nbytes > 0, self._latency_s + nbytes * self._per_byte_s, 0.0)
        if len(row) < self.count:  # a message reaches from its first layer in the row to its last
            return self._crossing_in(row, seconds)
        change = np.bincount(self._first + 1, seconds, self.count + 2) - np.bincount(
            self._last + 1, seconds, self.count + 2
        )
        return np.maximum(np.cumsum(change)[: self.count + 1], 0.0)

    def _crossing_in(self, row: Ints, seconds: Floats) -> Floats:
        position = np.full(self.count, -1)
        position[row] = np.arange(len(row))
        columns, change = self.columns, np.zeros(len(row) + 2)
        for message, taken in enumerate(seconds.tolist()):
            makers = columns.maker[columns.maker_start[message] : columns.maker_start[message + 1]]
            readers = columns.reader[columns.reader_start[message] : columns.reader_start[message + 1]]
            ends = position[self.layer_of[np.concatenate([makers, readers])]]
            ends = ends[ends >= 0]
            if len(ends):
                change[ends.min() + 1] += taken
                change[ends.max() + 1] -= taken
        return np.maximum(np.cumsum(change)[: len(row) + 1], 0.0)

    def _reach(self, start: Ints, operator: Ints) -> tuple[Ints, Ints]:
        """The first and the last layer among the operators of each message."""
        message = np.repeat(np.arange(len(start) - 1), np.diff(start))
        first, last = np.full(len(start) - 1, self.count), np.full(len(start) - 1, -1)
        np.minimum.at(first, message, self.layer_of[operator])
        np.maximum.at(last, message, self.layer_of[operator])
        return first, last
