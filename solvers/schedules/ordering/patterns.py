"""The textbook orders of a device, one stage on its own or several stages of a chain in turn, and what orders hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from solvers.plan.plan import Action, Stage


@lru_cache(512)
def actions_of(stage: int, kind: str, micro_batches: int) -> tuple[Action, ...]:
    """The actions of a kind of a stage, one for each micro-batch: plans are tried by the thousand, of the same ones."""
    return tuple(Action(stage, kind, j) for j in range(micro_batches))


def alternate(stage: int, kinds: str, micro_batches: int, in_flight: int, block: int = 1, lag: int = 0) -> list[Action]:
    """``in_flight`` forwards, then ``block`` backwards and forwards in turn, then the remaining backwards.

    kinds: which of F and B, or F, I and W, the stage has; W comes ``lag`` micro-batches after I. in_flight =
    micro_batches is GPipe, block = 1 is 1F1B, any other kFkB (GraphPipe, ASPLOS 2025, section 5). Where every stage
    lags by what the first one has more in flight this is ZB-H1 (Qi et al., ICLR 2024, section 2.1): no stage holds more
    than the first of 1F1B. in_flight is at least block, unless all are in flight.
    """

    forwards, backwards, weights = (
        actions_of(stage, kind, micro_batches) if kind in kinds else ()
        for kind in ("F", "I" if "I" in kinds else "B", "W")
    )
    order = list(forwards[:in_flight])
    for j in range(0, micro_batches, block):
        order += backwards[j : j + block]
        order += weights[max(j - lag, 0) : max(j - lag + block, 0)]
        order += forwards[in_flight + j : in_flight + j + block]
    return [*order, *weights[max(micro_batches - lag, 0) :]]


def interleave(rank: int, devices: int, chunks: Sequence[int], micro_batches: int, trains: bool = True) -> list[Action]:
    """The order of one device of interleaved 1F1B (Narayanan et al., SC 2021, section 2.2; Megatron-LM's
    ``forward_backward_pipelining_with_interleaving``).

    Stage i of a chain runs on device i mod ``devices``; rank: this device's position; chunks: its stages, in
    their order along the chain. micro_batches must be a multiple of ``devices``: the forwards of that many
    micro-batches run on one chunk, then on the next; backwards on the last chunk first. Before its first
    backward a device runs 2 (devices - rank - 1) + (chunks - 1) devices forwards, then a forward and a
    backward in turn.
    """
    count = len(chunks)
    forwards, backwards = [], []
    for begin in range(0, micro_batches, devices):
        for chunk in chunks:
            forwards += [Action(chunk, "F", j) for j in range(begin, begin + devices)]
        for chunk in reversed(chunks):
            backwards += [Action(chunk, "B", j) for j in range(begin, begin + devices)]
    if not trains:
        return forwards
    warm_up = min(2 * (devices - rank - 1) + (count - 1) * devices, len(forwards))
    order = forwards[:warm_up]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        order += [forward, backward]
    return order + backwards[len(forwards) - warm_up :]


def breadth_first(chunks: Sequence[int], micro_batches: int, trains: bool = True) -> list[Action]:
    """The order of one device of looped breadth-first pipelines (Lamy-Poirier, MLSys 2023, section 4.1): all
    micro-batches on one of its stages, ``chunks``, then on the next; backwards likewise from the last stage on."""
    forwards = [action for chunk in chunks for action in actions_of(chunk, "F", micro_batches)]
    return forwards + [a for chunk in reversed(chunks) for a in actions_of(chunk, "B", micro_batches) if trains]


def last_parts(orders: Sequence[Sequence[Action]]) -> dict[int, str]:
    """Stage -> the kind that ends a micro-batch there: W, else I, else B; without a backward none."""
    kinds = {(action.stage, action.kind) for actions in orders for action in actions}
    ends: dict[int, str] = {}
    for part in "BIW":
        ends |= {stage: part for stage, kind in kinds if kind == part}
    return ends


def most_held(stages: Sequence[Stage], orders: Sequence[Sequence[Action]]) -> list[int]:
    """Most micro-batches of every stage that an order has between a forward and the last part of its
    backward, at least 1, [stages]."""
    ends = last_parts(orders)
    most, held = [1] * len(stages), [0] * len(stages)
    for device, actions in enumerate(orders):
        for action in actions:
            if action.stage in ends and stages[action.stage].devices[0] == device:
                held[action.stage] += (action.kind == "F") - (action.kind == ends[action.stage])
                most[action.stage] = max(most[action.stage], held[action.stage])
    return most
