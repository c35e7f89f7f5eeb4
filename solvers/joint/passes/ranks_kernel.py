"""How long a pass lasts at least from each operator on: ranks for list scheduling, on plain arrays."""

from __future__ import annotations

from solvers.joint.passes.arrays_kernel import PassArrays, transfer_s
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.uncounted import uncounted


@uncounted
def tails_s(
    a: PassArrays, order: Ints, seconds: Floats, between_s: Floats, place: Ints, placed: bool, tail: Floats
) -> None:
    """Longest path from the start of every operator to the end of the pass, written to ``tail``, [operators].

    order: topological, mirrors after their forward operator. Not placed: an operator takes ``seconds``,
    a message ``between_s`` on every way (means give the upward rank of HEFT, Topcuoglu et al. 2002,
    section 4; least times and zeros give a bound). Placed: seconds on their device, and transfers between
    the devices of ``place`` (of every group); the other two are not read.
    """
    for k in range(len(order) - 1, -1, -1):
        i = order[k]
        longest = 0.0
        here = place[a.group_of[i]] if placed else 0
        for e in range(a.mirror_start[i], a.mirror_start[i + 1]):
            longest = max(longest, tail[a.mirror[e]])
        for e in range(a.made_start[i], a.made_start[i + 1]):
            m = a.made[e]
            for f in range(a.reader_start[m], a.reader_start[m + 1]):
                reader = a.reader[f]
                way = tail[reader]
                if not placed:
                    way += between_s[m]
                elif place[a.group_of[reader]] != here:
                    way += transfer_s(a.wiring, m, here, place[a.group_of[reader]])
                longest = max(longest, way)
        tail[i] = longest + (a.seconds[i, here] if placed else seconds[i])
