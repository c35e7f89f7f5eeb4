"""The compute tasks of a plan's order, on plain arrays."""

from __future__ import annotations

import numpy as np
from numba import njit

from solvers.evaluation.tasks import Bools, Ints, Rows, Units

COMPLETE, TWICE, FOREIGN, MISSING = range(4)
"""What is found of an order: all there, an action twice, one that does not belong there, one missing."""


@njit(cache=True)
def rows_of_order(
    units: Units,
    first_unit: Ints,
    order_start: Ints,
    action_stage: Ints,
    action_kind: Ints,
    action_micro_batch: Ints,
    single: bool,
    ordered: Bools,
) -> tuple[int, int, int, int, Rows]:
    """(what is found, device, unit, micro-batch, rows) of an order; the three tell where.

    first_unit: [stages, kinds + 1], units of a stage and kind are first_unit[s, k]:first_unit[s, k + 1]. single:
    only the actions of micro-batch 0 run.
    """
    devices, actions = len(order_start) - 1, len(action_stage)
    most = 0
    for a in range(actions):
        s, k = action_stage[a], action_kind[a]
        most += first_unit[s, k + 1] - first_unit[s, k]
    unit, micro_batch = np.empty(most, np.int64), np.empty(most, np.int64)
    device, position = np.empty(most, np.int64), np.empty(most, np.int64)
    of_slot = np.full(units.slot[-1], -1, np.int64)
    found, where, which, batch = COMPLETE, -1, -1, -1
    count = 0
    for d in range(devices):
        begin = count
        for a in range(order_start[d], order_start[d + 1]):
            s, k, j = action_stage[a], action_kind[a], action_micro_batch[a]
            if single and j != 0:
                continue
            for u in range(first_unit[s, k], first_unit[s, k + 1]):
                at = _slot(units, u, j, d)
                if at < 0 or of_slot[at] >= 0:
                    if found == COMPLETE:
                        found, where, which, batch = (FOREIGN if at < 0 else TWICE), d, u, j
                    continue
                of_slot[at] = count
                unit[count], micro_batch[count], device[count], position[count] = u, j, d, count - begin
                count += 1
    if found == COMPLETE:
        for u in range(len(units.stage)):
            begin = units.group_start[units.group[u]]
            replicas = units.group_start[units.group[u] + 1] - begin
            for at in range(units.slot[u], units.slot[u + 1]):
                if of_slot[at] < 0 and found == COMPLETE:
                    j, q = divmod(at - units.slot[u], replicas)
                    found, where, which, batch = MISSING, units.group_device[begin + q], u, j
    rows = Rows(unit[:count], micro_batch[:count], device[:count], position[:count], of_slot, ordered)
    return found, where, which, batch, rows


@njit(cache=True)
def _slot(units: Units, u: int, j: int, device: int) -> int:
    """Where micro-batch j of unit u on a device stands in the slots; -1 if it does not belong there."""
    group = units.group[u]
    begin, end = units.group_start[group], units.group_start[group + 1]
    if 0 <= j < units.count[u]:
        for q in range(begin, end):
            if units.group_device[q] == device:
                return int(units.slot[u] + j * (end - begin) + q - begin)
    return -1
