"""m-TOPO: fill one device after the other in topological order."""

from __future__ import annotations

import numpy as np

from solvers.joint.lists.earliest_first import Scheduled
from solvers.joint.lists.jobs import Jobs
from solvers.kernels.arrays import Floats


def m_topo(jobs: Jobs, caps: Floats) -> Scheduled | None:
    """Jeon et al., SoCC 2020, section 3; None where a unit fits nowhere.

    Each device is filled up to its share of all bytes plus the largest unit's, or to its cap if that is less
    (bytes, [devices]); then the next. Ours: a unit that may not run on the device being filled goes to the
    next that takes it, and what is left when the last is full to any that still has room.
    """
    a = jobs.arrays
    level = np.minimum(caps, a.unit_bytes.sum() / len(caps) + a.unit_bytes.max())
    device = np.full(len(a.allowed), -1)
    held = np.zeros(len(caps))
    filling = 0
    for unit in dict.fromkeys(a.unit_of.tolist()):
        nbytes = a.unit_bytes[unit]
        able = a.allowed[unit]
        while filling < len(caps) - 1 and able[filling] and held[filling] + nbytes > level[filling]:
            filling += 1
        takes = able & (held + nbytes <= level)
        takes[:filling] = False
        if not takes.any():
            takes = able & (held + nbytes <= caps)
        if not takes.any():
            return None
        device[unit] = int(np.argmax(takes))
        held[device[unit]] += nbytes
    on = device[a.unit_of]
    sequences = jobs.sequences(on, np.zeros(len(jobs)), np.arange(len(jobs)))
    return Scheduled(jobs.place(device), sequences)
