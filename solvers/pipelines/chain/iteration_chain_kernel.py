"""Chain dynamic programme for the iteration: the least critical path under a ceiling on stage times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit
from solvers.kernels.plain import NO, YES
from solvers.pipelines.chain.lines_kernel import BLOCKING, Line, Rules, stage_bytes

Ids = NDArray[np.int32]


class ChainTable(NamedTuple):
    """Best ways to run atoms i and all after them as stages, [atoms + 1, depths, devices + 1].

    The middle axis is the number of stages, or one entry for any number where memory does not ask.
    end_s: seconds from the first stage's start to the end of the last synchronisation, of one or all
    micro-batches; path_s: of one, to the first stage's end of its backward. until: where the first stage ends;
    degree: its position in line.degrees; again: whether it recomputes. counts: [states filled in,
    relaxations tried, 1 if memory turned a stage away].
    """

    end_s: Floats
    path_s: Floats
    until: Ids
    degree: Ids
    again: NDArray[np.bool_]
    counts: Ints


@njit(cache=True)
def shortest_path(
    line: Line, rules: Rules, ceiling_s: float, lockstep: bool, table: ChainTable, begin: int, end: int
) -> None:
    """Fill in rows from ``begin`` down to ``end``; those after are filled in.

    A stage takes at most ceiling_s per micro-batch. path_s of a chain is the sum of its stages' times
    and of the transfers between neighbours. In lockstep one micro-batch is looked at: the gradients of a
    stage are added up while the stages before it still run, so that end_s is the larger of path_s and what
    the last synchronisation ends at. Else all are: a stage works through all micro-batches, after the
    stages before it had the first forward and before they have the last backward, and end_s is what the
    longest of these sums comes to; stages with enough in flight come close to it.
    """
    end_s, path_s, until, chosen, repeats, counts = table
    atoms, devices, depths = end_s.shape[0] - 1, end_s.shape[2] - 1, end_s.shape[1]
    for i in range(begin, end - 1, -1):
        for d in range(len(line.degrees)):
            r = line.degrees[d]
            if r > devices:
                break
            workspace = 0.0
            for j in range(i + 1, atoms + 1):
                workspace = max(workspace, line.workspace_bytes[d, j - 1])
                forward = line.forward_s[d, j] - line.forward_s[d, i]
                backward = line.backward_s[d, j] - line.backward_s[d, i]
                if forward + backward > ceiling_s:
                    break
                sent, returned = line.sent_s[d, i, j], line.returned_s[d, i, j]
                if rules.transfers == BLOCKING:
                    if forward + backward + sent + returned > ceiling_s:
                        continue
                elif max(sent, returned) > ceiling_s:
                    continue
                params = line.param_bytes[j] - line.param_bytes[i]
                sync = line.sync_s[d] + line.sync_s_per_byte[d] * params if params > 0 else 0.0
                # So many stages follow at most, each on as many devices as the least degree has, or more.
                for depth in range(min(depths, atoms - j + 1)):
                    # Without an axis of depths every stage is taken to be the first of as many as there can be.
                    flight = depth + 1 if depths > 1 else min(devices, atoms)
                    flight = rules.micro_batches if rules.all_in_flight else min(flight, rules.micro_batches)
                    if not rules.keeps:
                        flight = 1
                    back, again = backward, False
                    if stage_bytes(line, i, j, d, flight, NO, workspace) > rules.memory_bytes:
                        counts[2] = 1
                        again = True
                        back = backward + forward
                        if not rules.recompute or forward + back > ceiling_s:
                            break
                        if stage_bytes(line, i, j, d, flight, YES, workspace) > rules.memory_bytes:
                            break
                    above = depth + 1 if depths > 1 else 0
                    if above == depths:
                        break
                    for a in range(depth * line.degrees[0], devices - r + 1):
                        rest = end_s[j, depth, a]
                        if rest == np.inf:
                            continue
                        counts[1] += 1
                        path = forward + sent + path_s[j, depth, a] + returned + back
                        if lockstep:
                            last = max(forward + sent + rest, path + sync)
                        else:
                            through = forward + sent + rest + returned + back
                            last = max(through, rules.micro_batches * (forward + back) + sync)
                        best = end_s[i, above, a + r]
                        if last < best or (last == best and path < path_s[i, above, a + r]):
                            if best == np.inf:
                                counts[0] += 1
                            end_s[i, above, a + r] = last
                            path_s[i, above, a + r] = path
                            until[i, above, a + r] = j
                            chosen[i, above, a + r] = d
                            repeats[i, above, a + r] = again
