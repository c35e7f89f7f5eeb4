"""What well-formed tasks and holds are: run between steps in tests, so that a fault shows where it is made."""

from __future__ import annotations

import numpy as np

from solvers.evaluation.lower import Lowered
from solvers.evaluation.tasks import SYNC, Holds


def check_tasks(lowered: Lowered) -> None:
    """Raises AssertionError unless columns fit together, compute rows come first, device by device in their order,
    and every wait, maker and reader names a task that is there."""
    tasks, units, rows = lowered.tasks, lowered.units, lowered.rows
    count, compute, devices = len(tasks.seconds), len(rows.unit), len(lowered.shared)
    for name in ("resource", "priority", "device", "to_device", "unit", "micro_batch", "stage", "kind", "maker",
                 "latencies", "nbytes", "waits"):  # fmt: skip
        assert len(getattr(tasks, name)) == count, name
    assert (tasks.unit[:compute] == rows.unit).all()
    assert (tasks.unit[compute:] == -1).all()
    assert (tasks.to_device[:compute] == -1).all()
    assert (tasks.to_device[compute:] >= 0).all()
    assert (np.diff(rows.device) >= 0).all()
    same = rows.device[1:] == rows.device[:-1]
    assert (np.diff(rows.position)[same] == 1).all()
    assert (np.sort(rows.of_slot) == np.arange(compute)).all()
    assert ((tasks.seconds >= 0) & np.isfinite(tasks.seconds)).all()
    assert (tasks.nbytes >= 0).all()
    assert (tasks.nbytes[:compute] == 0).all()
    assert ((tasks.device >= 0) & (tasks.device < devices)).all()
    assert (tasks.resource >= 0).all()
    assert (tasks.resource < 3 * devices + len(lowered.wires) + 2 * devices * (lowered.copies is not None)).all()
    assert (tasks.resource[:compute] == rows.device).all()
    moves = np.arange(count) >= compute
    reduces = moves & (tasks.kind == SYNC)
    assert ((tasks.maker >= 0) == (moves & ~reduces)).all()
    assert (tasks.maker < compute).all()
    for start, items in ((tasks.after_start, tasks.after), (tasks.reader_start, tasks.reader)):
        assert len(start) == count + 1
        assert start[0] == 0
        assert start[-1] == len(items)
        assert (np.diff(start) >= 0).all()
        assert ((items >= 0) & (items < count)).all()
    assert (np.bincount(tasks.after, minlength=count) == tasks.waits).all()
    read = np.diff(tasks.reader_start) > 0
    assert (read == (moves & ~reduces & (tasks.device != tasks.to_device))).all()
    assert (tasks.reader < compute).all()
    of = np.repeat(np.arange(count), np.diff(tasks.reader_start))
    assert (tasks.to_device[of] == tasks.device[tasks.reader]).all()
    assert (units.slot[-1] == compute).all()


def check_holds(lowered: Lowered, holds: Holds) -> None:
    """Raises AssertionError unless every hold is of some bytes on a device, since some task and until some task."""
    count, tasks = len(holds.device), len(lowered.tasks.seconds)
    assert ((holds.device >= 0) & (holds.device < len(lowered.shared))).all()
    assert (holds.nbytes >= 0).all()
    for start, items in ((holds.since_start, holds.since), (holds.until_start, holds.until)):
        assert len(start) == count + 1
        assert start[-1] == len(items)
        assert (np.diff(start) >= 1).all()
        assert ((items >= 0) & (items < tasks)).all()
