"""Divisions that hold less and take longer: the Pareto front of seconds and bytes of one group.

Where memory is short, the fastest division may be no good: one that keeps matrices whole and divides tokens exchanges
less, and holds more, than one that divides them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.tracing.sharding.choices import Choices, Option
from explorer.tracing.sharding.program import Division, Held, Prices, cheapest
from solvers.errors import PlacementError

SAME = 1e-9
"""Relative: of two divisions that differ by less one is left out."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A division, and the bytes that a member holds with it (`held_bytes`)."""

    division: Division
    nbytes: float


def held_bytes(choices: Choices, copies: float) -> Mapping[int, tuple[float, ...]]:
    """By call: what a member holds with each of its options, B: parameters, by the first call that reads them, times
    ``copies`` (gradients and states count), and what is saved for the backward."""
    captured = choices.captured
    first: dict[str, int] = {}
    for at in choices.options:
        for _, name in captured.nodes[at].tensors:
            if (source := choices.source(name)) in captured.parameters:
                first.setdefault(source, at)
    saved: dict[int, list[tuple[str | None, int]]] = {}
    for entry in captured.saved:
        saved.setdefault(entry.node, []).append((entry.value, entry.nbytes))
    return {
        at: tuple(
            copies * _parameter_bytes(choices, at, option, first) + _saved_bytes(choices, at, option, saved.get(at, ()))
            for option in options
        )
        for at, options in choices.options.items()
    }


def _parameter_bytes(choices: Choices, at: int, option: Option, first: Mapping[str, int]) -> float:
    captured, held = choices.captured, dict[str, float]()
    for (_, name), state in zip(captured.nodes[at].tensors, option.inputs, strict=True):
        source = choices.source(name)
        if first.get(source) == at:
            divided = choices.of_source(name, state) >= 0
            held[source] = captured.values[source].nbytes / (choices.degree if divided else 1)
    return sum(held.values())


def _saved_bytes(choices: Choices, at: int, option: Option, saved: Sequence[tuple[str | None, int]]) -> float:
    captured, node = choices.captured, choices.captured.nodes[at]
    read = zip(node.tensors, option.inputs, strict=True)
    states = {captured.root(name): choices.of_source(name, state) for (_, name), state in read}
    states |= {captured.root(name): state for name, state in zip(node.outputs, option.outputs, strict=True)}
    total = 0.0
    for value, nbytes in saved:
        state = option.leaf if value is None else states.get(captured.root(value), -1)
        total += nbytes / (choices.degree if state >= 0 else 1)
    return total


def pareto_front(choices: Choices, prices: Prices, copies: float, points: int = 6) -> list[FrontPoint]:
    """Divisions of which none is both faster and smaller than another, the fastest first: the fastest of all, and the
    fastest within caps between its bytes and the least. copies: as in `held_bytes`."""
    nbytes = held_bytes(choices, copies)
    least = sum(map(min, nbytes.values()))
    fastest = cheapest(choices, prices)
    at_most = Held(nbytes, math.inf).of(choices, fastest.labels)
    front = [FrontPoint(fastest, at_most)]
    for number in range(1, points):
        cap = at_most + (least - at_most) * number / (points - 1)
        if cap >= front[-1].nbytes:
            continue
        held = Held(nbytes, cap * (1 + SAME))
        try:
            division = cheapest(choices, prices, held=held)
        except PlacementError:  # parameters that several calls read are divided alike: nothing is so small
            break
        front.append(FrontPoint(division, held.of(choices, division.labels)))
    return [one for one in front if not any(_dominates(other, one) for other in front if other is not one)]


def _dominates(one: FrontPoint, other: FrontPoint) -> bool:
    """Whether one is no slower and no larger than the other, and better in one of both."""
    seconds, nbytes = one.division.cost_s, one.nbytes
    no_worse = seconds <= other.division.cost_s * (1 + SAME) and nbytes <= other.nbytes * (1 + SAME)
    return no_worse and (seconds < other.division.cost_s * (1 - SAME) or nbytes < other.nbytes * (1 - SAME))
