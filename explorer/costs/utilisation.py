"""How much of what the devices could compute goes into the model: model-FLOPs utilisation (MFU).

Chowdhery et al., PaLM (2022), appendix B: the products that the model's forward and backward need, over what the
devices could do in the same time at their peak. What is computed again for want of memory does not count, nor do
elementwise operators and updates. Attention's backward counts as twice its forward, though it computes its scores a
second time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from explorer.costs.devices import DEVICES
from explorer.costs.efficiency import WorkClass
from explorer.costs.roofline import stated_dtype
from explorer.costs.shapes import shapes
from solvers.kernels.arrays import Floats
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem

ATTENTION_BACKWARD = 2.0 / 2.5
"""Of the FLOPs of attention's backward, those that are not its forward's once more (see `tracing.backward`)."""
PRODUCTS = (WorkClass.PRODUCTS, WorkClass.CONVOLUTIONS, WorkClass.ATTENTION, WorkClass.ATTENTION_BACKWARD)
"""Classes whose arithmetic counts."""


def utilisation(problem: Problem, plan: Plan, seconds: float) -> float | None:
    """MFU of ``seconds`` for a mini-batch, over the devices that the plan uses; in fp32, convolutions at TF32's peak,
    as they run. None where the peak of a device is not known, or the graph has no product."""
    dtype = stated_dtype(problem.graph)
    devices = [problem.cluster.devices[device] for device in plan.devices_used()]
    if dtype is None or not seconds > 0 or any(device.kind not in DEVICES for device in devices):
        return None
    work = shapes(problem.graph).work
    tf32 = (work == WorkClass.CONVOLUTIONS) & (dtype == "fp32")
    at_peak_s = 0.0
    for stage in plan.stages:
        operators = np.array(stage.operators)
        flops = _flops(problem, work, stage.micro_batch_size)[operators]
        flops *= problem.mini_batch / stage.micro_batch_size / len(stage.devices)
        for device in stage.devices:
            peaks = DEVICES[problem.cluster.devices[device].kind].peak_flops_per_s
            at_peak_s += float((flops / np.where(tf32[operators], peaks["tf32"], peaks[dtype])).sum())
    return at_peak_s / (seconds * len(devices)) if at_peak_s > 0 else None


def _flops(problem: Problem, work: NDArray[np.str_], samples: int) -> Floats:
    """Of every operator, for so many samples: those of products."""
    flops = np.array([operator.flops.at(samples) for operator in problem.graph.operators])
    flops[work == WorkClass.ATTENTION_BACKWARD] *= ATTENTION_BACKWARD
    return np.where(np.isin(work, PRODUCTS), flops, 0.0)
