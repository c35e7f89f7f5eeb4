"""One walk over pairs of downsets, for every objective that cuts a graph into a chain of parts.

All programs here are the same push dynamic program (Tarnawski et al., NeurIPS 2020, section 5.1). A row of the
table is a downset J, a column a state: the devices used so far. From each J, smaller ones first, the lattice is
climbed depth-first to the larger downsets I; the set I minus J is one more part, and a table entry of J and the part's
cost give one of I. Elements are added in descending order: the numbering is topological, so each step is a downset
and every I is met once, and the path from J to I is a stack.

What differs is an objective's own: what a part costs and how that changes when one element joins it, which of these
only grow (and so end a branch), which states of J are worth going on from, and what an entry of the table is.

    load      the largest of the loads, by pass and direction, with replicas and classes of devices: `load_kernel`
    latency   the sum of calls, operators on CPUs one by one: `solvers.latency.planners.sum_kernel`
    Piper     the least sum of degrees whose stages all stay within a target: `solvers.pipelines.piper.stage_kernel`

`climber` makes the walk of an objective from three functions. They share the objective (a named tuple of arrays, which
`climber` does not look at) and a `Stack`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from solvers.contiguous.lattice_kernel import DONE, PAUSED, Lattice
from solvers.kernels.arrays import Ints
from solvers.kernels.uncounted import closed

SOURCE, DEPTH, LIVE, PAIRS, STATES, RELAXATIONS, SHORT = 0, 1, 2, 3, 4, 5, 6
"""Entries of a stack's cursor: downset J; elements of the set on top, -1 before J is opened; how many states of J are
live; and, since the start, pairs of downsets looked at, states gone on from, relaxations where they are counted, and
whether a cap on memory turned a part away."""
CURSOR = 7
ABOVE = 1 << 62
"""More than any element."""


class Stack(NamedTuple):
    """Where a walk is, between two calls too.

    cursor: [CURSOR], see SOURCE. live: [states] the states of J worth going on from, the first cursor[LIVE] are in use.
    downset, relation, element: [depth] the downset reached, the cover relation to try next from it, and the element
    that was added last.
    """

    cursor: Ints
    live: Ints
    downset: Ints
    relation: Ints
    element: Ints


def new_stack(elements: int, states: int) -> Stack:
    """Before the first step."""
    cursor = np.zeros(CURSOR, np.int64)
    cursor[DEPTH] = -1
    depths = elements + 2
    return Stack(
        cursor,
        live=np.zeros(states, np.int64),
        downset=np.zeros(depths, np.int64),
        relation=np.zeros(depths, np.int64),
        element=np.zeros(depths, np.int64),
    )


Open = Callable[[int, Lattice, Stack, Any], int]
Add = Callable[[int, Stack, Any], bool]
Remove = Callable[[int, Any], None]
Climb = Callable[[Lattice, Stack, Any, int], int]


def climber(open_source: Open, add: Add, remove: Remove) -> Climb:
    """The walk of one objective; call it from an `uncounted` kernel. All three are `inlined`.

    open_source(source, lattice, stack, objective): write the states of J worth going on from to stack.live and return
    their number; with any, also make the empty set the one at depth 0.
    add(depth, stack, objective): make the set at ``depth`` from the one below it and stack.element[depth], and relax
    the states of stack.downset[depth]; False, and nothing else changed, if neither it nor a larger set can be a part.
    remove(element, objective): undo what the last `add` did but for what is kept by depth.
    """

    @closed
    def climb(lattice: Lattice, stack: Stack, objective: Any, quota: int) -> int:
        """Go on for about ``quota`` pairs, or states of downsets that are not worth opening; DONE or PAUSED."""
        cursor = stack.cursor
        full = len(lattice.words) - 1
        pairs = looks = 0
        source, depth = cursor[SOURCE], cursor[DEPTH]
        while source < full and looks < quota:
            if depth < 0:
                looks += len(stack.live)
                cursor[SOURCE] = source
                cursor[LIVE] = open_source(source, lattice, stack, objective)
                cursor[STATES] += cursor[LIVE]
                if cursor[LIVE] == 0:
                    source += 1
                    continue
                depth = 0
                stack.downset[0] = source
                stack.relation[0] = lattice.up_start[source]
                stack.element[0] = ABOVE
            while depth >= 0:
                e = stack.relation[depth]
                last = stack.element[depth]
                # Relations ascend by element: past the last one added all others come in another order.
                if e >= lattice.up_start[stack.downset[depth] + 1] or lattice.up_element[e] > last:
                    if depth > 0:
                        remove(last, objective)
                    depth -= 1
                    continue
                stack.relation[depth] = e + 1
                target = lattice.up_to[e]
                stack.downset[depth + 1] = target
                stack.relation[depth + 1] = lattice.up_start[target]
                stack.element[depth + 1] = lattice.up_element[e]
                if not add(depth + 1, stack, objective):
                    continue
                depth += 1
                pairs += 1
                if pairs >= quota:
                    cursor[SOURCE], cursor[DEPTH] = source, depth
                    cursor[PAIRS] += pairs
                    return PAUSED
            source += 1
        cursor[SOURCE], cursor[DEPTH] = source, -1
        cursor[PAIRS] += pairs
        return DONE if source >= full else PAUSED

    return climb
