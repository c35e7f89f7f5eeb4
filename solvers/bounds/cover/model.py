"""What one accelerator can hold within a target load, as the cover bound sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from solvers.coarsening.contracted import Contracted
from solvers.kernels.arrays import Bools, Floats

ROUNDING = 1e-9
"""Relative slack of memory caps, for sums added in another order."""


@dataclass(frozen=True, eq=False)
class CoverModel:
    """Groups of operators to be covered by the sets of ``accelerators`` and ``cpus`` equal devices.

    acc_s: seconds per sample on an accelerator; allowed: whether one can run it; cpu_s: seconds on a
    CPU, inf if it cannot; nbytes: what a group holds wherever it is; [groups]. nets: pins (groups) of
    every hyperedge, net_s: seconds a device pays if its set splits it. overlapped: the load is
    max(compute, communication), otherwise the sum. CPUs pay nothing for splitting.
    """

    acc_s: Floats
    cpu_s: Floats
    allowed: Bools
    nbytes: Floats
    nets: tuple[tuple[int, ...], ...]
    net_s: Floats
    accelerators: int
    cpus: int
    acc_bytes: float
    cpu_bytes: float
    overlapped: bool

    def __len__(self) -> int:
        return len(self.acc_s)

    def load_s(self, inside: Bools) -> float:
        """Seconds per sample that an accelerator with this set is busy."""
        compute = float(self.acc_s[inside].sum())
        moved = 0.0
        for pins, seconds in zip(self.nets, self.net_s, strict=True):
            held = sum(bool(inside[pin]) for pin in pins)
            if 0 < held < len(pins):
                moved += float(seconds)
        return max(compute, moved) if self.overlapped else compute + moved

    def fits(self, inside: Bools, target_s: float) -> bool:
        """Whether one accelerator may hold this set with a load of at most ``target_s``."""
        if not self.allowed[inside].all() or not self.fits_memory(inside):
            return False
        return self.load_s(inside) <= target_s

    def fits_alone(self, target_s: float) -> Bools:
        """Whether an accelerator may hold just one group within the target, [groups]."""
        moved = np.zeros(len(self))
        for pins, seconds in zip(self.nets, self.net_s, strict=True):
            moved[list(pins)] += seconds
        load_s = np.maximum(self.acc_s, moved) if self.overlapped else self.acc_s + moved
        return np.asarray(self.allowed & (self.nbytes <= self.acc_bytes * (1 + ROUNDING)) & (load_s <= target_s))

    def fits_memory(self, inside: Bools) -> bool:
        return bool(self.nbytes[inside].sum() <= self.acc_bytes * (1 + ROUNDING))

    def on_cpu(self, target_s: float) -> Bools:
        """Which groups a CPU may hold within the target, [groups]."""
        if self.cpus == 0:
            return np.zeros(len(self), bool)
        return np.asarray((self.cpu_s <= target_s) & (self.nbytes <= self.cpu_bytes * (1 + ROUNDING)))

    def cpu_value(self, prices: Floats, target_s: float) -> float:
        """A bound on the prices that all CPUs together can collect: one knapsack, filled fractionally."""
        chosen = np.flatnonzero(self.on_cpu(target_s) & (prices > 0))
        free = chosen[self.cpu_s[chosen] <= 0]
        busy = chosen[self.cpu_s[chosen] > 0]
        busy = busy[np.argsort(-prices[busy] / self.cpu_s[busy], kind="stable")]
        before = np.concatenate(([0.0], np.cumsum(self.cpu_s[busy])))[:-1]
        share = np.clip((self.cpus * target_s - before) / self.cpu_s[busy], 0.0, 1.0)
        return float(prices[free].sum() + (share * prices[busy]).sum())

    def payload(self) -> dict[str, Any]:
        """The model as JSON can carry it (with infinities)."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: each.tolist() if isinstance(each, np.ndarray) else each for name, each in values.items()}


def model_of(
    contracted: Contracted, accelerators: int, cpus: int, acc_bytes: float, cpu_bytes: float, overlapped: bool
) -> CoverModel:
    """The cover model of contracted super-operators.

    Memory is what stays with a super-operator wherever its trivial neighbours go, so that no set the
    judge accepts is turned away. Hyperedges stand for their messages: a device that splits one pays
    at least its seconds.
    """
    nets = [(tuple(pins), float(s)) for pins, s in zip(contracted.shape.nets, contracted.net_s, strict=True) if s > 0]
    return CoverModel(
        np.asarray(contracted.acc_s, np.float64), np.asarray(contracted.cpu_s, np.float64),
        np.asarray(contracted.supported, bool), np.asarray(contracted.core_bytes, np.float64),
        tuple(pins for pins, _ in nets), np.array([s for _, s in nets], np.float64),
        accelerators, cpus, acc_bytes, cpu_bytes, overlapped,
    )  # fmt: skip


def model_from(payload: dict[str, Any]) -> CoverModel:
    """The model that `CoverModel.payload` gave."""
    arrays = {name: np.array(payload[name], np.float64) for name in ("acc_s", "cpu_s", "nbytes", "net_s")}
    allowed, nets = np.array(payload["allowed"], bool), tuple(map(tuple, payload["nets"]))
    return CoverModel(**{**payload, **arrays, "allowed": allowed, "nets": nets})


def sets_of(placement: Sequence[int], accelerators: int) -> list[Bools]:
    """The sets of the accelerators (devices 0 .. accelerators - 1) in a placement, empty ones left out."""
    device = np.asarray(placement)
    sets = (device == number for number in range(accelerators))
    return [inside for inside in sets if inside.any()]
