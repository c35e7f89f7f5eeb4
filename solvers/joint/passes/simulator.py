"""Time placements of one pass of operators in microseconds, and turn the best into plans."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from solvers.joint.passes.arrays_kernel import TASKS, state_for
from solvers.joint.passes.memory_kernel import least_room_bytes, peak_bytes
from solvers.joint.passes.model import PassModel
from solvers.joint.passes.pass_kernel import run_pass
from solvers.joint.passes.plans import Sent, in_time, plan_of, stating
from solvers.joint.passes.ranks_kernel import tails_s
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.plan.plan import Plan

Sequences = list[list[int]]
_run_pass, _tails_s = until_worth_it(run_pass), until_worth_it(tails_s)


class Simulator:
    """Simulations of one model, one after the other in the same arrays.

    place is the device of every group, [groups]; of ready operators of one device the one with the lowest rank goes
    first, [operators]. The times are those of `solvers.evaluation.simulation` for `plan_of` the same.
    """

    def __init__(self, model: PassModel) -> None:
        self.model = model
        self.order = np.array(model.order, np.int64)
        self.state = state_for(model.arrays)
        self._free = np.full(model.operators, -1, np.int64)
        self.least_tail_s = np.zeros(model.operators)
        """Seconds that the pass lasts at least from the start of each operator on, wherever it runs."""
        nothing = np.zeros(len(model.messages))
        _tails_s(
            model.arrays, self.order, model.seconds.min(axis=1), nothing, self._free, False, self.least_tail_s
        )  # fmt: skip

    def placed_rank(self, place: Ints) -> Floats:
        """Priorities by the longest path to the end with this placement's own times, negated."""
        tail = np.zeros(self.model.operators)
        nothing = np.zeros(0)
        _tails_s(self.model.arrays, self.order, nothing, nothing, place, True, tail)
        return -tail

    def by_rank_s(self, place: Ints, rank: Floats, limit_s: float = math.inf) -> float:
        """Seconds of a placement, list-scheduled; inf beyond the limit or without a link that it needs."""
        return _run_pass(self.model.arrays, self.state, place, rank, self._free, self.least_tail_s, limit_s)

    def in_order_s(self, place: Ints, sequences: Sequence[Sequence[int]], limit_s: float = math.inf) -> float:
        """Seconds of a placement with a fixed sequence of operators per device; inf too if these deadlock."""
        rank, follow = np.zeros(self.model.operators), self._free.copy()
        for sequence in sequences:
            rank[list(sequence)] = np.arange(len(sequence))
            follow[list(sequence[:-1])] = sequence[1:]
        return _run_pass(self.model.arrays, self.state, place, rank, follow, self.least_tail_s, limit_s)

    def sequences(self) -> Sequences:
        """Operators per device in the order in which the last simulation began them, updates where they came."""
        sequences: Sequences = [[] for _ in range(self.model.devices)]
        for operator in np.argsort(self.state.sequence, kind="stable").tolist():
            sequences[int(self.state.device[operator])].append(operator)
        return sequences

    def peak_bytes(self) -> Floats:
        """Most memory held per device in the last simulation, [devices]."""
        return peak_bytes(self.model.arrays, self.state)

    def fits(self) -> bool:
        """Whether the last simulation stays within the memory of every device."""
        if least_room_bytes(self.model.arrays, self.state) >= 0:
            return True
        memory = self.model.memory_bytes
        return bool((self.peak_bytes() <= memory * (1 + 1e-9)).all())

    def sent_s(self) -> dict[Sent, float]:
        """When every transfer started in the last simulation, and every sending half, as one to the sender itself."""
        state, operators, tasks = self.state, self.model.operators, int(self.state.counts[TASKS])
        columns = (state.message, state.device, state.target, state.start_s)
        rows = zip(*(column[operators:tasks].tolist() for column in columns), strict=True)
        return {(message, src, dst): start for message, src, dst, start in rows}

    def planned(self, place: Ints) -> Plan:
        """The last simulation, which must have come to its end, as a plan: operators and messages in its order."""
        sequences = self.sequences()
        starts = self.state.start_s[: self.model.operators].tolist()
        served = in_time(self.model, place, sequences, starts, self.sent_s())
        return stating(self.model, plan_of(self.model, place, sequences), served)

    def plan_in_order(self, place: Ints, sequences: Sequence[Sequence[int]]) -> Plan | None:
        """The plan that runs a placement with a fixed sequence per device; None if it cannot run."""
        if math.isinf(self.in_order_s(place, sequences)):
            return None
        return self.planned(place)
