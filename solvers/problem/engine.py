"""What the program that runs a plan takes of a device's own time, beside operators."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from solvers.errors import InvalidProblem


@dataclass(frozen=True, slots=True)
class Duty:
    """What a device does for one kind of action of one stage in an iteration, beside operators.

    runs: how often the action runs. sent, received: messages, one for every tensor or for several small ones;
    sent_bytes, received_bytes: what all of them hold.
    """

    runs: float = 0.0
    sent: float = 0.0
    received: float = 0.0
    sent_bytes: float = 0.0
    received_bytes: float = 0.0

    def __add__(self, other: Duty) -> Duty:
        return Duty(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class EngineCosts:
    """Seconds of a device's own time, all >= 0: of an iteration, of a step that computes (a forward, or a backward in
    one or two pieces), of a message that is sent or received, and of each of its bytes; and of each byte of gradient
    that a backward adds to what earlier micro-batches left, beyond writing it. Raises InvalidProblem.

    A device is busy that long beside its operators. Searches do not know it: it belongs to runs, not to plans, is
    reported beside a plan's objective, and weighed among the plans that were found.
    """

    iteration_s: float
    forward_s: float
    backward_s: float
    sent_s: float = 0.0
    received_s: float = 0.0
    sent_byte_s: float = 0.0
    received_byte_s: float = 0.0
    added_byte_s: float = 0.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidProblem(f"engine.{one.name} must be a finite number >= 0, found {value}")

    def step_s(self, kind: str) -> float:
        """Of a step of ``kind``: F, B, I or W; 0 for U, which updates alone fill."""
        return self.forward_s if kind == "F" else self.backward_s if kind in "BIW" else 0.0

    def adding_s(self, kind: str, runs: float, nbytes: float) -> float:
        """Of a step of ``kind`` that leaves ``nbytes`` of gradients, beyond what operators were measured to take. When
        they were measured, every second run wrote gradients and the others added; in an iteration only the first of
        ``runs`` writes."""
        return self.added_byte_s * nbytes * (0.5 - 1 / runs) if kind in "BW" and runs > 0 else 0.0

    def seconds(self, kind: str, duty: Duty) -> float:
        """Of all that a device does for a kind of action in an iteration, without what it takes in any case."""
        return (
            duty.runs * self.step_s(kind)
            + duty.sent * self.sent_s
            + duty.received * self.received_s
            + duty.sent_bytes * self.sent_byte_s
            + duty.received_bytes * self.received_byte_s
        )
