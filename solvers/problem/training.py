"""What training holds of every parameter beside itself: by optimizer, precision and ZeRO stage.

Counted in multiples of the bytes of the trained parameters, in the dtype in which they were traced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, TypeVar

import numpy as np

from solvers.kernels.arrays import Floats

Bytes = TypeVar("Bytes", float, Floats)


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
ZERO_STATES, ZERO_GRADIENTS, ZERO_PARAMETERS = 1, 2, 3
"""The stages of ZeRO from which on each is divided."""
ZERO_STAGES = (0, 1, 2, 3)


class ByKind(NamedTuple):
    """Bytes held all the time, [operators] each."""

    weights: Floats
    gradients: Floats
    masters: Floats
    states: Floats
    buffers: Floats

    def total(self) -> Floats:
        return self.weights + self.gradients + self.masters + self.states + self.buffers


@dataclass(frozen=True, slots=True)
class Copies:
    """What is held of the trained parameters beside themselves, in multiples of their bytes.

    summed: the gradients as replicas add them up, held or not. factored: whether the states are Adafactor's, which
    leave out what `Operator.factorable_bytes` says. zero: what the replicas of a stage hold a share of each
    (Rajbhandari et al., SC 2020, section 5): from 1 on masters and states, from 2 on gradients, from 3 on parameters.
    """

    gradients: float = 0.0
    masters: float = 0.0
    states: float = 0.0
    summed: float = 1.0
    factored: bool = False
    zero: int = 0

    @property
    def streamed(self) -> float:
        """Masters and states together."""
        return self.masters + self.states

    def on_host(self) -> Copies:
        """What a device holds where masters and states are in its host's memory."""
        return replace(self, masters=0.0, states=0.0)

    def by_kind(
        self,
        trained: Floats,
        frozen: Floats,
        factorable: Floats,
        buffers: Floats,
        gradient_sums: Floats,
        replicas: Floats | int = 1,
    ) -> ByKind:
        """Of each of so many replicas. All arguments and results in B, [operators]. What is frozen is held once, as
        weights; buffers, and gradients added up apart, are held whole by every replica."""
        states = trained - factorable if self.factored else trained
        return ByKind(
            (trained + frozen) / (replicas if self.zero >= ZERO_PARAMETERS else 1),
            trained * self.gradients / (replicas if self.zero >= ZERO_GRADIENTS else 1) + gradient_sums,
            trained * self.masters / (replicas if self.zero >= ZERO_STATES else 1),
            states * self.states / (replicas if self.zero >= ZERO_STATES else 1),
            buffers,
        )

    def gathered(self, params: Floats, replicas: Floats | int) -> Floats:
        """B of what others hold of the parameters of each operator, which a device has while it uses them,
        [operators]; of the operators of a stage one is there at a time."""
        return params * (1 - 1 / np.asarray(replicas)) if self.zero >= ZERO_PARAMETERS else params * 0.0

    def exchanged(self, trained: Bytes, frozen: Bytes, micro_batches: Bytes) -> Bytes:
        """The part of `reduced` that is modelled as one exchange after the last backward of a mini-batch: all of it but
        the parameters that stage 3 gathers, for which micro-batches wait (`solvers.problem.gathering`)."""
        if self.zero < ZERO_PARAMETERS:
            return self.reduced(trained, frozen, micro_batches)
        return trained * self.summed * micro_batches / 2

    def reduced(self, trained: Bytes, frozen: Bytes, micro_batches: Bytes) -> Bytes:
        """B of gradients whose all-reduce among replicas, once a mini-batch, moves as much as what they tell each
        other (section 7). An all-reduce is a reduce-scatter and an all-gather; without ZeRO gradients go through both.
        With stage 1 gradients go through the first and updated parameters through the second; with stage 2 gradients
        of every micro-batch, since nobody keeps all of them; with stage 3 gradients of every micro-batch, and
        parameters before each of its forwards and backwards.
        """
        if self.zero < ZERO_STATES:
            return trained * self.summed
        if self.zero < ZERO_GRADIENTS:
            return (trained * self.summed + trained) / 2
        if self.zero < ZERO_PARAMETERS:
            return (trained * self.summed * micro_batches + trained) / 2
        return (trained * self.summed + 2 * (trained + frozen)) * micro_batches / 2


def copies(optimizer: Optimizer, precision: Precision, zero: int = 0) -> Copies:
    """What training holds. Gradients are there all the time: micro-batches add to them until the update."""
    summed = FP32_OVER_16_BITS if precision is Precision.MIXED_FP32_GRADIENTS else 1.0
    if optimizer is Optimizer.NONE:
        return Copies(summed=summed, zero=zero)
    mixed = precision is not Precision.PURE
    return Copies(
        gradients=summed,
        masters=FP32_OVER_16_BITS if mixed else 0.0,
        states=STATES[optimizer] * (FP32_OVER_16_BITS if mixed else 1.0),
        summed=summed,
        factored=optimizer is Optimizer.ADAFACTOR,
        zero=zero,
    )
