"""The compute tasks of a plan's order, on plain arrays."""

from __future__ import annotations

import numpy as np
from numba import njit

from solvers.evaluation.tasks import Bools, Ints, Rows, Units


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
) -> tuple[bool, Rows]:
    """(whether an order has every task once, on its devices, and nothing else; its rows).

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
    whole, count = True, 0
    for d in range(devices):
        begin = count
        for a in range(order_start[d], order_start[d + 1]):
            s, k, j = action_stage[a], action_kind[a], action_micro_batch[a]
            if single and j != 0:
                continue
            for u in range(first_unit[s, k], first_unit[s, k + 1]):
                at = _slot(units, u, j, d)
                if at < 0 or of_slot[at] >= 0:
                    whole = False
                    continue
                of_slot[at] = count
                unit[count], micro_batch[count], device[count], position[count] = u, j, d, count - begin
                count += 1
    whole &= count == len(of_slot)
    rows = Rows(unit[:count], micro_batch[:count], device[:count], position[:count], of_slot, ordered)
    return whole, rows


@njit(cache=True)
def _slot(units: Units, u: int, j: int, device: int) -> int:
    """Where micro-batch j of unit u on a device stands in the slots; -1 if it does not belong there."""
    group = units.group[u]
    begin, end = units.group_start[group], units.group_start[group + 1]
    if 0 <= j < units.micro_batches[u]:
        for q in range(begin, end):
            if units.group_device[q] == device:
                return int(units.slot[u] + j * (end - begin) + q - begin)
    return -1
