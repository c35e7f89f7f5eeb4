"""Cutting a series of items into stages under a bottleneck: the tables of the graph pipeline's program.

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
from solvers.plan.drafts import FIRST_LEVEL, NOTHING, WHOLE

Steps = NDArray[np.int32]
Cells = NDArray[np.int16]

NO_STEP, STAGE, BRANCHES, GLUE = 0, 1, 2, 3
"""Kinds of steps. STAGE: items up to x, degree y, z what it runs again (as in drafts). BRANCHES: x devices inside,
stages to the sink after them y. ``GLUE``: auxiliary operators, items up to x, take no device."""


class Sums(NamedTuple):
    """Sums over the first i items of a series, or branches; rows are degrees."""

    forward_s: Floats
    """[degrees, items + 1]"""
    backward_s: Floats
    saved_bytes: Floats
    static_bytes: Floats
    param_bytes: Floats
    """[items + 1]"""
    workspace_bytes: Floats
    """[degrees, items] of each item"""
    again_s: Floats
    """[levels, degrees, items + 1] how much longer the backward takes where a level runs again"""
    lean_bytes: Floats
    """[levels, degrees, items + 1] saved then"""
    lean_workspace_bytes: Floats
    """[levels, degrees, items] of each item then"""


class Line(NamedTuple):
    """A series: sums over its items, and what crosses before each of them and at the end, [degrees, items + 1]."""

    sums: Sums
    cut_forward_s: Floats
    """s on a link"""
    cut_backward_s: Floats
    cut_bytes: Floats
    """what a receiver keeps"""
    branches: Ints
    """[items] which of the inner tables, -1 none"""


class Group(NamedTuple):
    """Branches: sums over them, of which runs may become one stage, and of what they receive and send, [degrees,
    branches + 1]."""

    sums: Sums
    coming_s: Floats
    going_s: Floats
    coming_bytes: Floats


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


class Behind(NamedTuple):
    """What follows: stages to the sink, and the value there."""

    depth: int
    value_s: float


class Tables(NamedTuple):
    """Of a series, or of branches: a row for each item and those after it."""

    value: Floats
    """[items + 1, devices + 1, depths + 1]"""
    steps: Steps
    """[items + 1, devices + 1, depths + 1, 4]"""
    cells: Cells
    """[items + 1, entries, 2] the entries of every row that are left; entry 0 holds how many follow"""


class Stage(NamedTuple):
    """What items i to j take as a stage."""

    forward_s: float
    backward_s: float
    sync_s: float
    static_bytes: float
    saved_bytes: float


@njit(cache=True)
def _stage(sums: Sums, rules: Rules, d: int, i: int, j: int) -> Stage:
    params = sums.param_bytes[j] - sums.param_bytes[i]
    return Stage(
        sums.forward_s[d, j] - sums.forward_s[d, i],
        sums.backward_s[d, j] - sums.backward_s[d, i],
        rules.sync_s[d] + rules.sync_s_per_byte[d] * params if params > 0 else 0.0,
        sums.static_bytes[d, j] - sums.static_bytes[d, i],
        sums.saved_bytes[d, j] - sums.saved_bytes[d, i],
    )


@njit(cache=True)
def _runs_again(
    stage: Stage, sums: Sums, rules: Rules, where: tuple[int, int, int], workspace: Floats, in_flight: int,
    moved_bytes: float, spare_s: float,
) -> tuple[int, float]:  # fmt: skip
    """What a stage must run again to fit, as drafts number it, and for how many seconds; -1 if it cannot.

    where: its first item, the one after it, and its degree. workspace: [1 + levels] B, the largest of the items,
    without and with a level that runs again. moved_bytes: what it received and keeps, and sends. spare_s: how much
    longer it may take.
    """
    room = rules.memory_bytes - stage.static_bytes - moved_bytes
    if workspace[0] + stage.saved_bytes * in_flight <= room:
        return NOTHING, 0.0
    i, j, d = where
    again, least_s = -1, spare_s
    if rules.recompute == 1 and workspace[0] + stage.saved_bytes <= room and stage.forward_s <= least_s:
        again, least_s = WHOLE, stage.forward_s
    for level in range(len(sums.again_s)):
        again_s = sums.again_s[level, d, j] - sums.again_s[level, d, i]
        if again_s < least_s or (again < 0 and again_s <= least_s):
            lean_bytes = sums.lean_bytes[level, d, j] - sums.lean_bytes[level, d, i]
            if workspace[1 + level] + lean_bytes * in_flight <= room:
                again, least_s = FIRST_LEVEL + level, again_s
    return again, least_s


@njit(cache=True)
def _depth_and(depth: int, again: int, levels: int) -> int:
    """A depth and what a stage runs again in one number."""
    return (FIRST_LEVEL + levels) * depth + again


@njit(cache=True)
def _enlarge(workspace: Floats, sums: Sums, d: int, item: int) -> None:
    """Take an item into the largest workspace, [1 + levels]."""
    workspace[0] = max(workspace[0], sums.workspace_bytes[d, item])
    for level in range(len(sums.again_s)):
        workspace[1 + level] = max(workspace[1 + level], sums.lean_workspace_bytes[level, d, item])


@njit(cache=True)
def _value_s(stage: Stage, rules: Rules, again_s: float, going_s: float, behind_s: float) -> float:
    """The value of a pipeline that begins with a stage. again_s: that it runs again. behind_s: the value of what
    follows."""
    takes = stage.forward_s + stage.backward_s + again_s
    value = behind_s + takes + going_s
    return max(value, rules.micro_batches * takes + stage.sync_s) if rules.ramp == 1 else value


@njit(cache=True)
def _note(tables: Tables, row: int, used: int, depth: int, value: float, step: tuple[int, int, int, int]) -> None:
    """Enter a value if it is less than what is there."""
    if value < tables.value[row, used, depth]:
        tables.value[row, used, depth] = value
        kind, x, y, z = step
        entry = tables.steps[row, used, depth]
        entry[0], entry[1], entry[2], entry[3] = kind, x, y, z


@njit(cache=True)
def _thin(table: Floats, cells: Cells) -> int:
    """Drop entries that another is as good as, list the others in ``cells``, and count them.

    Sums of the same times in another order differ by rounding, which is no reason to keep an entry.
    """
    devices, depths = table.shape
    entries = 0
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
            entries += 1
            cells[entries, 0] = used
            cells[entries, 1] = depth
    cells[0, 0] = entries
    return entries


@njit(cache=True)
def _room(rules: Rules, depths: int) -> Cells:
    """Cells of one row."""
    return np.empty(((rules.devices + 1) * depths + 1, 2), np.int16)


@njit(cache=True)
def cut_series(
    line: Line, rules: Rules, inner: Floats, behind: Behind, most_s: float, tables: Tables, begin: int, end: int
) -> tuple[int, int]:
    """Fill rows ``end`` - 1 down to ``begin`` of the tables of a series; (states filled, relaxations).

    inner: if item ``begin`` is a branching (then it is the only one), its tables, one for each entry of the row after
    it, [entries, devices + 1, depths + 1]. A stage takes at most ``most_s`` per micro-batch.
    """
    items = len(line.branches)
    if end == items:
        tables.value[items, 0, behind.depth] = behind.value_s
        _thin(tables.value[items], tables.cells[items])
    states, relaxations = 0, 0
    for i in range(end - 1, begin - 1, -1):
        if line.branches[i] >= 0:
            relaxations += _branch_off(rules, inner, tables, i)
        relaxations += _cut_stages(line, rules, most_s, tables, i)
        states += _thin(tables.value[i], tables.cells[i])
    return states, relaxations


@njit(cache=True)
def _branch_off(rules: Rules, inner: Floats, tables: Tables, i: int) -> int:
    """Enter what item i, a branching, gives by itself; the number of relaxations."""
    own, cells, relaxations = _room(rules, inner.shape[2]), tables.cells[i + 1], 0
    for c in range(1, cells[0, 0] + 1):
        used, after = cells[c]
        _thin(inner[c - 1], own)
        for e in range(1, own[0, 0] + 1):
            more, depth = own[e]
            if used + more <= rules.devices:
                relaxations += 1
                _note(tables, i, used + more, depth, inner[c - 1, more, depth], (BRANCHES, more, after, 0))
    return relaxations


@njit(cache=True)
def _cut_stages(line: Line, rules: Rules, most_s: float, tables: Tables, i: int) -> int:
    """Enter what stages that begin with item i give; the number of relaxations."""
    sums, items, relaxations = line.sums, len(line.branches), 0
    after_branching = line.branches[i] < 0 and i > 0 and line.branches[i - 1] >= 0
    workspace, glue = np.zeros((len(rules.degrees), 1 + len(sums.again_s))), True
    for j in range(i + 1, items + 1):
        if (sums.static_bytes[:, j] - sums.static_bytes[:, i]).min() > rules.memory_bytes:
            break  # even with the replicas that hold least
        glue = glue and line.branches[j - 1] < 0
        beside_branching = after_branching or (i == 0 and j < items and line.branches[j] >= 0)
        possible = False
        for d in range(len(rules.degrees)):
            _enlarge(workspace[d], sums, d, j - 1)
            if rules.degrees[d] > rules.devices:
                continue
            stage = _stage(sums, rules, d, i, j)
            takes = stage.forward_s + stage.backward_s
            if d == 0 and glue and beside_branching and takes <= rules.glue_s:
                _join(tables, i, j, takes)
            busy = takes + stage.sync_s / rules.micro_batches
            if busy > most_s:
                continue
            possible = True
            if rules.blocking == 1:
                coming = line.cut_forward_s[d, i] + line.cut_backward_s[d, i]
                busy += coming + line.cut_forward_s[d, j] + line.cut_backward_s[d, j]
            if busy <= most_s and max(line.cut_forward_s[d, j], line.cut_backward_s[d, j]) <= most_s:
                relaxations += _put_first(line, rules, stage, workspace[d], (i, j, d), most_s - busy, tables)
        if not possible and not (glue and sums.forward_s[0, j] - sums.forward_s[0, i] <= rules.glue_s):
            break
    return relaxations


@njit(cache=True)
def _put_first(
    line: Line, rules: Rules, stage: Stage, workspace: Floats, where: tuple[int, int, int], spare_s: float,
    tables: Tables,
) -> int:  # fmt: skip
    """Enter what a stage gives before every entry of the row after it; the number of relaxations. workspace: see
    `_runs_again`. where: its first item, the one after it, and its degree. spare_s: how much longer it may take."""
    i, j, d = where
    going_s, relaxations = line.cut_forward_s[d, j] + line.cut_backward_s[d, j], 0
    cells, replicas, depths = tables.cells[j], rules.degrees[d], tables.value.shape[2]
    for c in range(1, cells[0, 0] + 1):
        used, depth = cells[c]
        if used + replicas > rules.devices or depth + 1 == depths:
            continue
        relaxations += 1
        in_flight = rules.in_flight[depth + 1]
        moved = line.cut_bytes[d, i] * in_flight + line.cut_bytes[d, j]
        again, again_s = _runs_again(stage, line.sums, rules, where, workspace, in_flight, moved, spare_s)
        if again >= 0:
            value = _value_s(stage, rules, again_s, going_s, tables.value[j, used, depth])
            _note(tables, i, used + replicas, depth + 1, value, (STAGE, j, d, again))
    return relaxations


@njit(cache=True)
def _join(tables: Tables, i: int, j: int, takes: float) -> None:
    """Items i to j beside a branching run on a device of a neighbouring stage."""
    cells = tables.cells[j]
    for c in range(1, cells[0, 0] + 1):
        used, depth = cells[c]
        _note(tables, i, used, depth, tables.value[j, used, depth] + takes, (GLUE, j, 0, 0))


@njit(cache=True)
def place_branches(
    group: Group, rules: Rules, branch: Floats, behind: Behind, most_s: float, tables: Tables
) -> tuple[int, int]:
    """Fill the tables of branches m and on, with so many stages to the sink; (states filled, relaxations).

    branch: [branches, devices + 1, depths + 1], the tables of each by itself. A STAGE step groups branches up to x into
    one stage of degree y, z being `_depth_and` of the stages to the sink after it and what it runs again; a BRANCHES
    step gives a branch x devices and y depths, and z depths to the branches after it.
    """
    count, depths = branch.shape[0], branch.shape[2]
    tables.value[count, 0, behind.depth] = 0.0
    _thin(tables.value[count], tables.cells[count])
    states, relaxations, own = 0, 0, _room(rules, depths)
    for m in range(count - 1, -1, -1):
        alone, cells = branch[m].copy(), tables.cells[m + 1]
        _thin(alone, own)
        for c in range(1, cells[0, 0] + 1):
            used, depth = cells[c]
            for e in range(1, own[0, 0] + 1):
                more, deep = own[e]
                if used + more <= rules.devices:
                    relaxations += 1
                    value = max(tables.value[m + 1, used, depth], alone[more, deep])
                    _note(tables, m, used + more, max(depth, deep), value, (BRANCHES, more, deep, depth))
        if behind.depth + 1 < depths:
            relaxations += _grouped(group, rules, behind, most_s, tables, m)
        states += _thin(tables.value[m], tables.cells[m])
    return states, relaxations


@njit(cache=True)
def _grouped(group: Group, rules: Rules, behind: Behind, most_s: float, tables: Tables, m: int) -> int:
    """Enter what branch m gives in one stage with those after it; the number of relaxations."""
    sums, deep, relaxations, levels = group.sums, behind.depth + 1, 0, len(group.sums.again_s)
    in_flight, workspace = rules.in_flight[deep], np.zeros((len(rules.degrees), 1 + len(sums.again_s)))
    for to in range(m + 1, len(tables.value)):
        for d in range(len(rules.degrees)):
            _enlarge(workspace[d], sums, d, to - 1)
            replicas = rules.degrees[d]
            if to == m + 1 or replicas > rules.devices:
                continue
            stage = _stage(sums, rules, d, m, to)
            coming = group.coming_s[d, to] - group.coming_s[d, m]
            going = group.going_s[d, to] - group.going_s[d, m]
            busy = stage.forward_s + stage.backward_s + stage.sync_s / rules.micro_batches
            busy += (coming + going) * rules.blocking
            received = in_flight * (group.coming_bytes[d, to] - group.coming_bytes[d, m])
            if busy > most_s:
                continue
            again, again_s = _runs_again(
                stage, sums, rules, (m, to, d), workspace[d], in_flight, received, most_s - busy
            )
            if again < 0:
                continue
            takes, cells = _value_s(stage, rules, again_s, going, behind.value_s), tables.cells[to]
            for c in range(1, cells[0, 0] + 1):
                used, depth = cells[c]
                if used + replicas <= rules.devices:
                    relaxations += 1
                    value = max(tables.value[to, used, depth], takes)
                    _note(
                        tables,
                        m,
                        used + replicas,
                        max(depth, deep),
                        value,
                        (STAGE, to, d, _depth_and(depth, again, levels)),
                    )
    return relaxations
