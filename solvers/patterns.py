"""The textbook orders of one stage on a device of its own."""

from __future__ import annotations

from solvers.plan import Action


def alternate(stage: int, kinds: str, micro_batches: int, in_flight: int, block: int = 1) -> list[Action]:
    """``in_flight`` forwards, then ``block`` backwards and forwards in turn, then the remaining backwards.

    kinds: which of F and B the stage has. in_flight = micro_batches is GPipe, block = 1 is 1F1B, any
    other kFkB (GraphPipe, ASPLOS 2025, section 5). in_flight is at least block, unless all are in flight.
    """
    forwards = [Action(stage, "F", j) for j in range(micro_batches)] if "F" in kinds else []
    backwards = [Action(stage, "B", j) for j in range(micro_batches)] if "B" in kinds else []
    if not forwards or not backwards:
        return forwards + backwards
    order = forwards[:in_flight]
    for j in range(0, micro_batches, block):
        order += backwards[j : j + block]
        order += forwards[in_flight + j : in_flight + j + block]
    return order
