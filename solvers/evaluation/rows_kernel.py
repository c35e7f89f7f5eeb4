"""The compute tasks of a plan's order, and which of them a stage does in turn, on plain arrays."""

from __future__ import annotations

import numpy as np

from solvers.evaluation.tasks import F, I, Rows, U, Units, W
from solvers.kernels.arrays import Bools, Ints
from solvers.kernels.lazy import njit


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
    slot, group_of, micro_batches, group_start, group_device = (
        units.slot, units.group, units.micro_batches, units.group_start, units.group_device,
    )  # fmt: skip
    of_slot = np.full(slot[-1], -1, np.int64)
    whole, count = True, 0
    for d in range(devices):
        begin = count
        for a in range(order_start[d], order_start[d + 1]):
            s, k, j = action_stage[a], action_kind[a], action_micro_batch[a]
            if single and j != 0:
                continue
            for u in range(first_unit[s, k], first_unit[s, k + 1]):
                group, at = group_of[u], -1  # where micro-batch j stands in the slots, if it belongs on the device
                begins, ends = group_start[group], group_start[group + 1]
                for q in range(begins, ends if 0 <= j < micro_batches[u] else begins):
                    if group_device[q] == d:
                        at = slot[u] + j * (ends - begins) + q - begins
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
def pairs_inside_stages(units: Units) -> Ints:
    """Pairs of units of a stage that run as a whole, of which the second waits for the first, [pairs, 2]: forward
    before backward before update, gradients of inputs before those of parameters."""
    count = len(units.stage)
    pairs, n = np.empty((10 * count, 2), np.int64), 0
    for a in range(count):
        b = a + 1  # the units of a stage follow one another, kind by kind
        while b < count and units.stage[b] == units.stage[a] and units.operator[a] < 0:
            first, second = units.kind[a], units.kind[b]
            if units.operator[b] < 0 and (first == F or second == U or (first == I and second == W)):
                pairs[n, 0], pairs[n, 1] = a, b
                n += 1
            b += 1
    return pairs[:n]
