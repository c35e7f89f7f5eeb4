"""What a span of a schedule is: which stage does what for which micro-batch."""

from __future__ import annotations

import re
from functools import lru_cache

from solvers.plan.schedule import Span

TRANSFER = "T"
REPEATED = "S"
"""Of a bar, never of a span: what a device does again and again in its steady state."""
EXCHANGE = "X"
"""Of a bar, never of a span: the part of an action in which members of a tensor-parallel group exchange."""
BACKWARD = "BIW"
KIND_WORDS = {
    "F": "forward",
    "B": "backward",
    "I": "backward, inputs",
    "W": "backward, weights",
    "U": "update",
    "R": "forward again",
    TRANSFER: "transfer",
    EXCHANGE: "exchange in the group",
    REPEATED: "forward and backward in turn",
}
_ACTION = re.compile(r"^(\d+)([FBIWU])(\d*)")


@lru_cache(maxsize=65536)
def parsed(action: str) -> tuple[int, str, int]:
    """(stage, kind, micro-batch) of a span's action, of the sender's for a transfer; -1 where it says
    nothing, and "F" for one that is no action of a stage."""
    match = _ACTION.match(action)
    if match is None:
        return -1, "F", -1
    return int(match[1]), match[2], int(match[3]) if match[3] else -1


def action_parts(span: Span) -> tuple[int, str, int]:
    """`parsed`, with the kind TRANSFER for a transfer."""
    stage, kind, micro_batch = parsed(span.action)
    return stage, TRANSFER if span.is_transfer else kind, micro_batch
