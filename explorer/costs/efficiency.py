"""Classes of operators, and the share of a data sheet's rates that each is assumed to reach where no kernels of it were
measured (`curves`), with who published which share of which device.

One share a class serves all devices: none is fitted to a model, a machine or a target.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class WorkClass(StrEnum):
    """Classes of operators. PRODUCTS: of matrices. ATTENTION is the fused kernel. ELEMENTWISE, NORM and EMBEDDING are
    bounded by a device's memory, as all the rest is (MEMORY)."""

    PRODUCTS = "products"
    CONVOLUTIONS = "convolutions"
    ATTENTION = "attention"
    ATTENTION_BACKWARD = "attention backward"
    ELEMENTWISE = "elementwise"
    NORM = "norm"
    EMBEDDING = "embedding"
    MEMORY = "memory"


SHARES = {
    WorkClass.PRODUCTS: 0.8,
    WorkClass.CONVOLUTIONS: 0.8,
    WorkClass.ATTENTION: 0.6,
    WorkClass.ATTENTION_BACKWARD: 0.5,
    WorkClass.ELEMENTWISE: 0.83,
    WorkClass.NORM: 0.83,
    WorkClass.EMBEDDING: 0.83,
    WorkClass.MEMORY: 0.83,
}
"""Of the dense peak of the dtype, and of the stated bandwidth for what memory bounds. Convolutions are taken to be as
products, which they are made into (implicit GEMM)."""


class Published(NamedTuple):
    """low and high: what the source found, as a share of the same rate; alike where it says "up to"."""

    low: float
    high: float
    source: str


_FLASH_2 = "Dao, FlashAttention-2 (2023)"
_FLASH_3 = "Shah et al., FlashAttention-3 (2024)"
_V100 = ("V100-16GB", "V100-32GB")
_A100 = ("A100-40GB", "A100-80GB")
_PUBLISHED = (
    (WorkClass.PRODUCTS, _V100, Published(0.66, 0.66, "Markidis et al., IPDPSW 2018: up to 83 of 125 TFLOP/s")),
    (WorkClass.PRODUCTS, _A100, Published(0.80, 0.90, f"{_FLASH_2}, section 1: GEMM up to 80 to 90 %")),
    (WorkClass.PRODUCTS, ("H100-80GB",), Published(0.80, 0.90, f"{_FLASH_3}, section 1: GEMM 80 to 90 %")),
    (WorkClass.ATTENTION, _A100, Published(0.50, 0.73, f"{_FLASH_2}, abstract and section 4.1: 50 to 73 %")),
    (WorkClass.ATTENTION_BACKWARD, _A100, Published(0.63, 0.63, f"{_FLASH_2}, section 4.1: up to 63 % backward")),
    (
        WorkClass.ATTENTION,
        ("H100-80GB",),
        Published(0.35, 0.75, f"{_FLASH_3}, section 1: 35 % with FlashAttention-2's kernel, up to 75 % with its own"),
    ),
    (WorkClass.MEMORY, _V100, Published(0.83, 0.83, "Jia et al. (2018), section 3.7: 750 of 900 GB/s")),
)


def published(work: WorkClass, kind: str) -> Published | None:
    """What was measured of a class on a device kind of the catalogue; None where the share is assumed."""
    return next((source for of, kinds, source in _PUBLISHED if of is work and kind in kinds), None)
