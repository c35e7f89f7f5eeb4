"""Bytes that drafts hold beside what their operators save, where super-operators do not tell them."""

from __future__ import annotations

import numpy as np

from solvers.evaluation.unit_bytes import workspace_bytes
from solvers.kernels.arrays import Floats, Ints
from solvers.pipelines.timing.draft_kernel import AGAIN, HOST, REPLICAS, SIZE
from solvers.plan.drafts import WHOLE
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem


class ReadHere:
    """What stages that recompute read of stages on the same devices: they keep it for every micro-batch."""

    def __init__(self, problem: Problem, node: Ints) -> None:
        """node: the super-operator of every operator."""
        tensors, operators = problem.graph.tensors, problem.graph.operators
        rows = [
            (number, node[tensor.producer], node[reader])
            for number, tensor in enumerate(tensors)
            for reader in tensor.consumers
            if operators[reader].phase is Phase.FORWARD
        ]
        table = np.array(rows, np.int64).reshape(-1, 3)
        self._tensor, self._maker, self._reader = table[table[:, 1] != table[:, 2]].T.copy()
        sizes = np.array([(t.nbytes.fixed, t.nbytes.per_sample) for t in tensors], np.float64)
        self._fixed, self._per_sample = sizes.reshape(-1, 2).T

    def of(self, stage_of: Ints, table: Ints) -> Floats:
        """Bytes of a micro-batch, [stages]; see `solvers.pipelines.timing.draft_kernel.run_draft`."""
        count = len(table)
        again, host = table[:, AGAIN] == WHOLE, table[:, HOST]
        if not again.any() or (host == np.arange(count)).all():
            return np.zeros(count)
        maker_stage, reader_stage = stage_of[self._maker], stage_of[self._reader]
        here = again[reader_stage] & (maker_stage != reader_stage) & (host[maker_stage] == host[reader_stage])
        tensor, reader = np.unique(np.array([self._tensor[here], reader_stage[here]]), axis=1)
        samples = table[:, SIZE] / table[:, REPLICAS]
        nbytes = self._fixed[tensor] + self._per_sample[tensor] * samples[reader]
        return np.bincount(reader, nbytes, count).astype(np.float64)


class Working:
    """Workspace of stages where nothing is saved: what later operators still read counts. Sets met before
    are remembered."""

    def __init__(self, problem: Problem, node: Ints) -> None:
        """node: the super-operator of every operator."""
        self._problem = problem
        self._order: Ints = np.array(problem.graph.topological_order, np.int64)
        self._node = node[self._order]
        self._known: dict[tuple[bytes, float], float] = {}

    def of(self, stage_of: Ints, table: Ints) -> Floats:
        """Bytes while the forward runs, [stages]; see `solvers.pipelines.timing.draft_kernel.run_draft`."""
        where = stage_of[self._node]
        nbytes = np.zeros(len(table))
        for stage, (size, replicas) in enumerate(table[:, (SIZE, REPLICAS)].tolist()):
            operators = self._order[where == stage]
            key = (operators.tobytes(), size / replicas)
            if key not in self._known:
                self._known[key] = workspace_bytes(self._problem, operators.tolist(), size / replicas)
            nbytes[stage] = self._known[key]
        return nbytes
