"""Cutting a series of items into stages under a bottleneck: the tables of the graph pipeline's programme.

Tables are [devices used, stages to the sink]. Without ``ramp`` their values are the least time one micro-batch
takes from there to the sink and back, W(i) = min over stages s from i to j of t_s + c_s + W(j), with ``ramp``
the least time of all M micro-batches of a pipeline that begins there, with as many in flight as are needed:
W(i) = min of max(M t_s + sync_s, t_s + c_s + W(j)), t_s being a stage's forward and backward and c_s its
transfers. An entry that another with no more devices and no more stages is as good as is left out
(inf), for whatever comes before could use that one. A step is what the best way to an entry began with:
(kind, x, y, z), see the constants.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit

Steps = NDArray[np.int32]
Cells = NDArray[np.int16]

NOTHING, STAGE, BRANCHES, GLUE = 0, 1, 2, 3
"""Kinds of steps. STAGE: items up to x, degree y, z = 1 if it recomputes. BRANCHES: x devices inside,
stages to the sink after them y. GLUE: items up to x take no device."""


class Line(NamedTuple):
    """Sums over the first i items of a series, and what crosses before item i; rows are degrees.

    forward_s, backward_s, saved_bytes, static_bytes: [degrees, items + 1]; param_bytes: [items + 1];
    workspace_bytes: [degrees, items]. cut_forward_s, cut_backward_s: seconds on a link; cut_bytes: what a
    receiver keeps; [degrees, items + 1]. branches: item -> which of the inner tables, -1 none.
    """

    forward_s: Floats
    backward_s: Floats
    saved_bytes: Floats
    static_bytes: Floats
    param_bytes: Floats
    workspace_bytes: Floats
    cut_forward_s: Floats
    cut_backward_s: Floats
    cut_bytes: Floats
    branches: Ints


class Rules(NamedTuple):
    """degrees: numbers of replicas; sync_s, sync_s_per_byte: all-reduce of gradients; [degrees].
    in_flight: micro-batches kept by stages to the sink, [depths + 1]. devices; micro_batches;
    memory_bytes of a device; blocking: 1 if transfers keep a device busy; recompute: 1 if allowed;
    glue_s: what takes no longer (forward and backward) needs no device. ramp: see above."""

    degrees: Ints
    sync_s: Floats
    sync_s_per_byte: Floats
    in_flight: Ints
    devices: int
    micro_batches: int
    memory_bytes: float
    blocking: int
    recompute: int
    glue_s: float
    ramp: int


@njit(cache=True)
def cut_series(
    line: Line, rules: Rules, inner: Floats, depth_out: int, start_s: float, most_s: float, table: Floats,
    steps: Steps, cells: Cells, begin: int, end: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill rows ``end`` - 1 down to ``begin`` of ``table``: [items + 1, devices + 1, depths + 1].

    inner: if item ``begin`` is a branching (then it is the only one), its tables, one for each entry of the
    row after it, [entries, devices + 1, depths + 1]. depth_out, start_s: stages to the sink after the series,
    and the value there. A stage takes at most ``most_s`` per micro-batch.
    cells: [items + 1, entries, 2], the entries of every row that are left; entry 0 holds how many follow.
    Returns (states filled, relaxations, how often memory was in the way).
    """
    items = len(line.param_bytes) - 1
    if end == items:
        table[items, 0, depth_out] = start_s
        _thin(table[items], cells[items])
    states, relaxations, tight = 0, 0, 0
    last = table.shape[2] - 1
    own = np.empty(((rules.devices + 1) * (last + 1) + 1, 2), np.int16)
    for i in range(end - 1, begin - 1, -1):
        here = table[i]
        k = line.branches[i]
        if k >= 0:
            for c in range(1, cells[i + 1, 0, 0] + 1):
                used, after = cells[i + 1, c]
                _thin(inner[c - 1], own)
                for e in range(1, own[0, 0] + 1):
                    more, depth = own[e]
                    if used + more > rules.devices:
                        continue
                    relaxations += 1
                    value = inner[c - 1, more, depth]
                    if value < here[used + more, depth]:
                        here[used + more, depth] = value
                        _step(steps, i, used + more, depth, BRANCHES, more, after, 0)
        near = k < 0 and (i > 0 and line.branches[i - 1] >= 0)
        workspace = np.zeros(len(rules.degrees))
        glue = True
        for j in range(i + 1, items + 1):
            fits = False  # with the replicas that hold least
            for d in range(len(rules.degrees)):
                fits = fits or line.static_bytes[d, j] - line.static_bytes[d, i] <= rules.memory_bytes
            if not fits:
                tight += 1
                break
            params = line.param_bytes[j] - line.param_bytes[i]
            glue = glue and line.branches[j - 1] < 0
            possible = False
            for d in range(len(rules.degrees)):
                r = rules.degrees[d]
                workspace[d] = max(workspace[d], line.workspace_bytes[d, j - 1])
                if r > rules.devices:
                    continue
                forward = line.forward_s[d, j] - line.forward_s[d, i]
                backward = line.backward_s[d, j] - line.backward_s[d, i]
                coming = line.cut_forward_s[d, i] + line.cut_backward_s[d, i]
                going = line.cut_forward_s[d, j] + line.cut_backward_s[d, j]
                if d == 0 and glue and forward + backward <= rules.glue_s:
                    starts = i == 0 and j < items and line.branches[j] >= 0
                    if near or starts:
                        _join(table, steps, cells[j], i, j, forward + backward)
                sync = rules.sync_s[d] + rules.sync_s_per_byte[d] * params if params > 0 else 0.0
                busy = forward + backward + sync / rules.micro_batches
                if busy > most_s:
                    continue
                possible = True
                if rules.blocking == 1:
                    busy += coming + going
                if busy > most_s or max(line.cut_forward_s[d, j], line.cut_backward_s[d, j]) > most_s:
                    continue
                saved = line.saved_bytes[d, j] - line.saved_bytes[d, i]
                for c in range(1, cells[j, 0, 0] + 1):
                    used, depth = cells[j, c]
                    if used + r > rules.devices or depth == last:
                        continue
                    relaxations += 1
                    kept = rules.in_flight[depth + 1]
                    static = line.static_bytes[d, j] - line.static_bytes[d, i]
                    least = static + workspace[d] + line.cut_bytes[d, i] * kept + line.cut_bytes[d, j]
                    again = 0
                    if least + saved * kept > rules.memory_bytes:
                        tight += 1
                        if rules.recompute == 0 or least + saved > rules.memory_bytes or busy + forward > most_s:
                            continue
                        again = 1
                    takes = forward + backward + again * forward
                    value = table[j, used, depth] + takes + going
                    if rules.ramp == 1:
                        value = max(value, rules.micro_batches * takes + sync)
                    if value < here[used + r, depth + 1]:
                        here[used + r, depth + 1] = value
                        _step(steps, i, used + r, depth + 1, STAGE, j, d, again)
            if not possible and not (glue and line.forward_s[0, j] - line.forward_s[0, i] <= rules.glue_s):
                break
        states += _thin(here, cells[i])
    return states, relaxations, tight


@njit(cache=True)
def _thin(table: Floats, cells: Cells) -> int:
    """Drop entries that another is as good as, list the others in ``cells``, and count them.

    Sums of the same times in another order differ by rounding, which is no reason to keep an entry.
    """
    devices, depths = table.shape
    found = 0
    best = np.full(depths, np.inf)  # by at most so many stages, with no more devices
    for used in range(devices):
        reach = np.inf
        for depth in range(depths):
            reach = min(reach, best[depth])
            value = table[used, depth]
            if value == np.inf:
                continue
            if value >= reach * (1 - 1e-12):
                table[used, depth] = np.inf
                continue
            best[depth] = reach = value
            found += 1
            cells[found, 0] = used
            cells[found, 1] = depth
    cells[0, 0] = found
    return found


@njit(cache=True)
def _step(steps: Steps, i: int, used: int, depth: int, kind: int, x: int, y: int, z: int) -> None:
    steps[i, used, depth, 0] = kind
    steps[i, used, depth, 1] = x
    steps[i, used, depth, 2] = y
    steps[i, used, depth, 3] = z


@njit(cache=True)
def _join(table: Floats, steps: Steps, cells: Cells, i: int, j: int, takes: float) -> None:
    """Items i to j beside a branching run on a device of a neighbouring stage."""
    for c in range(1, cells[0, 0] + 1):
        used, depth = cells[c]
        if table[j, used, depth] + takes < table[i, used, depth]:
            table[i, used, depth] = table[j, used, depth] + takes
            _step(steps, i, used, depth, GLUE, j, 0, 0)


class Group(NamedTuple):
    """Sums over the first m branches: as in `Line`, for runs of branches that become one stage."""

    forward_s: Floats
    backward_s: Floats
    saved_bytes: Floats
    static_bytes: Floats
    param_bytes: Floats
    workspace_bytes: Floats
    coming_s: Floats
    going_s: Floats
    coming_bytes: Floats


@njit(cache=True)
def place_branches(
    group: Group, rules: Rules, branch: Floats, depth_out: int, start_s: float, most_s: float, table: Floats,
    steps: Steps, cells: Cells,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill ``table``: [branches + 1, devices + 1, depths + 1], branches m and on with so many stages to the
    sink. branch: [branches, devices + 1, depths + 1], the tables of each by itself. depth_out, start_s: stages
    to the sink after the branches, and the value there. A STAGE step groups
    branches up to x into one stage of degree y, with z // 2 stages to the sink after it, recomputing if z is
    odd; a BRANCHES step gives a branch x devices and y depths, and z depths to the branches after it.
    cells: [branches + 1, entries, 2]. Returns as `cut_series`."""
    count, last = branch.shape[0], branch.shape[2] - 1
    table[count, 0, depth_out] = 0.0
    _thin(table[count], cells[count])
    states, relaxations, tight = 0, 0, 0
    own = np.empty(((rules.devices + 1) * (last + 1) + 1, 2), np.int16)
    for m in range(count - 1, -1, -1):
        here = table[m]
        alone = branch[m].copy()
        _thin(alone, own)
        for c in range(1, cells[m + 1, 0, 0] + 1):
            used, depth = cells[m + 1, c]
            for e in range(1, own[0, 0] + 1):
                more, deep = own[e]
                if used + more > rules.devices:
                    continue
                relaxations += 1
                deeper = max(depth, deep)
                value = max(table[m + 1, used, depth], alone[more, deep])
                if value < here[used + more, deeper]:
                    here[used + more, deeper] = value
                    _step(steps, m, used + more, deeper, BRANCHES, more, deep, depth)
        workspace = np.zeros(len(rules.degrees))
        for to in range(m + 1, count + 1):
            params = group.param_bytes[to] - group.param_bytes[m]
            for d in range(len(rules.degrees)):
                r = rules.degrees[d]
                workspace[d] = max(workspace[d], group.workspace_bytes[d, to - 1])
                if to == m + 1 or r > rules.devices or depth_out == last:
                    continue
                forward = group.forward_s[d, to] - group.forward_s[d, m]
                backward = group.backward_s[d, to] - group.backward_s[d, m]
                coming = group.coming_s[d, to] - group.coming_s[d, m]
                going = group.going_s[d, to] - group.going_s[d, m]
                sync = rules.sync_s[d] + rules.sync_s_per_byte[d] * params if params > 0 else 0.0
                busy = forward + backward + sync / rules.micro_batches + (coming + going) * rules.blocking
                if busy > most_s:
                    continue
                kept = rules.in_flight[depth_out + 1]
                static = group.static_bytes[d, to] - group.static_bytes[d, m]
                saved = group.saved_bytes[d, to] - group.saved_bytes[d, m]
                least = static + workspace[d] + kept * (group.coming_bytes[d, to] - group.coming_bytes[d, m])
                again = 0
                if least + saved * kept > rules.memory_bytes:
                    tight += 1
                    if rules.recompute == 0 or least + saved > rules.memory_bytes or busy + forward > most_s:
                        continue
                    again = 1
                busy = forward + backward + again * forward
                takes = start_s + busy + going
                if rules.ramp == 1:
                    takes = max(takes, rules.micro_batches * busy + sync)
                for c in range(1, cells[to, 0, 0] + 1):
                    used, depth = cells[to, c]
                    if used + r > rules.devices:
                        continue
                    relaxations += 1
                    deeper = max(depth, depth_out + 1)
                    value = max(table[to, used, depth], takes)
                    if value < here[used + r, deeper]:
                        here[used + r, deeper] = value
                        _step(steps, m, used + r, deeper, STAGE, to, d, 2 * depth + again)
        states += _thin(here, cells[m])
    return states, relaxations, tight
