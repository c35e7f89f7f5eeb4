"""How much of the device's memory an optimizer's step goes through: what it reads and writes of every parameter.

Counted as a fused step needs it: whatever the algorithm must go through is read once in each of its passes, and what
it changes is written once. Eager steps without fusion (`foreach=False, fused=False`) go through memory more often.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.training import Optimizer, Precision, copies


class Passes(NamedTuple):
    """How often a step reads gradients and weights, and reads or writes each state."""

    gradients: int = 1
    weights: int = 1
    states: int = 2


ONCE = Passes()
"""Elementwise: everything is read once, and weights and states are written."""
ADAFACTOR = Passes(gradients=3, weights=2, states=4)
"""Three passes, each needing a number of the one before: sums of squared gradients (and the size of the weights), the
size of the update, the update (Shazeer and Stern, ICML 2018, algorithm 4; `torch.optim.Adafactor`). States are read in
each and written in the first."""


def accesses(optimizer: Optimizer, precision: Precision, factored: float = 0.0) -> float:
    """Bytes that a step reads and writes of a byte of trained parameters, in the dtype traced.

    Mixed precision reads and writes fp32 masters and states, and writes 16-bit weights. Without an optimizer's states,
    `Optimizer.NONE` too, a step adds the gradients. factored: the share of Adafactor's states that sums by row and by
    column leave out.
    """
    passes = ADAFACTOR if optimizer is Optimizer.ADAFACTOR else ONCE
    held = copies(optimizer, precision)
    changed = held.masters or 1.0
    return (
        passes.gradients * (held.gradients or 1.0)
        + (passes.weights + 1) * changed
        + (1.0 if held.masters else 0.0)
        + passes.states * held.states * (1.0 - factored if held.factored else 1.0)
    )


TRACED = accesses(Optimizer.ADAM, Precision.PURE)
"""Whose step the updates of a graph state."""


def over_traced(graph: OpGraph, optimizer: Optimizer, precision: Precision) -> Floats:
    """By how much more, or less, the step of each update moves than the graph states, [operators]; 1 for what is no
    update."""
    ratios = np.ones(len(graph))
    for position, operator in enumerate(graph.operators):
        if operator.phase is Phase.UPDATE:
            owner = None if operator.forward_of is None else graph.operators[operator.forward_of]
            factored = (
                owner.factorable_bytes / owner.trained_bytes if owner is not None and owner.trained_bytes else 0.0
            )
            ratios[position] = accesses(optimizer, precision, factored) / TRACED
    return ratios
