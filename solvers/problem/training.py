"""What training holds of every parameter beside itself: by optimizer, precision and ZeRO stage.

Counted in multiples of the bytes of the trained parameters, in the dtype in which they were traced.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from solvers.kernels.arrays import Floats


class Optimizer(StrEnum):
    """Which states are kept per parameter. NONE: not even a gradient. SGD: none beside the gradient. MOMENTUM:
    SGD with a velocity. ADAM, ADAMW: two moments (Kingma and Ba, ICLR 2015; Loshchilov and Hutter, ICLR 2019).
    ADAFACTOR: the second moment alone, of matrices as sums by row and by column (Shazeer and Stern, ICML 2018).
    """

    NONE = "none"
    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"
    ADAMW = "adamw"
    ADAFACTOR = "adafactor"


class Precision(StrEnum):
    """In which precision parameters are trained.

    PURE: weights, gradients and states are all of the dtype that was traced. MIXED: weights and gradients of 16
    bits, beside them fp32 copies of the weights (masters) and fp32 states: 2 + 2 + 4 + 8 = 16 bytes a parameter
    with Adam (Rajbhandari et al., SC 2020, section 3.1). MIXED_FP32_GRADIENTS: gradients are added up, and
    reduced among replicas, in fp32: 2 + 4 + 4 + 8 = 18 bytes (Megatron-LM, "Distributed Optimizer").
    """

    PURE = "pure"
    MIXED = "mixed"
    MIXED_FP32_GRADIENTS = "mixed-fp32-gradients"


STATES = {
    Optimizer.NONE: 0.0,
    Optimizer.SGD: 0.0,
    Optimizer.MOMENTUM: 1.0,
    Optimizer.ADAM: 2.0,
    Optimizer.ADAMW: 2.0,
    Optimizer.ADAFACTOR: 1.0,
}
"""States as large as the parameters that each optimizer keeps; Adafactor's is less where it can be factored."""
FP32_OVER_16_BITS = 2.0


class ByKind(NamedTuple):
    """Bytes held all the time, [operators] each."""

    weights: Floats
    gradients: Floats
    masters: Floats
    states: Floats

    def total(self) -> Floats:
        return self.weights + self.gradients + self.masters + self.states


@dataclass(frozen=True, slots=True)
class Copies:
    """What is held of the trained parameters beside themselves, in multiples of their bytes.

    factored: whether the states are Adafactor's, which leave out what `Operator.factorable_bytes` says.
    """

    gradients: float = 0.0
    masters: float = 0.0
    states: float = 0.0
    factored: bool = False

    def by_kind(self, trained: Floats, frozen: Floats, factorable: Floats) -> ByKind:
        """All arguments and results in B, [operators]. What is frozen is held once, as weights."""
        states = trained - factorable if self.factored else trained
        return ByKind(trained + frozen, trained * self.gradients, trained * self.masters, states * self.states)


def copies(optimizer: Optimizer, precision: Precision) -> Copies:
    """What training holds. Gradients are there all the time: micro-batches add to them until the update."""
    if optimizer is Optimizer.NONE:
        return Copies()
    mixed = precision is not Precision.PURE
    return Copies(
        gradients=FP32_OVER_16_BITS if precision is Precision.MIXED_FP32_GRADIENTS else 1.0,
        masters=FP32_OVER_16_BITS if mixed else 0.0,
        states=STATES[optimizer] * (FP32_OVER_16_BITS if mixed else 1.0),
        factored=optimizer is Optimizer.ADAFACTOR,
    )
