"""Whether memory has room for the micro-batches that stages keep in flight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.evaluation.unit_bytes import saved_bytes, workspace_bytes
from solvers.kernels.arrays import Floats
from solvers.plan.plan import Action, Stage
from solvers.problem.problem import Problem
from solvers.schedules.ordering.patterns import last_parts

AMPLE = 2.0
"""Times the bytes needed that make simulating what devices hold a waste of time."""


class Room:
    """Bytes that stages hold for each micro-batch in flight, and what their devices have left for them.

    held_bytes: saved activations (none if the stage recomputes), what it receives and what waits for the gradients of
    its parameters, on each of its devices, [stages]. left_bytes: without static bytes, the largest workspace, what a
    recomputing stage saves while its backward runs, and one micro-batch that arrives early at each stage, [devices].
    What waits for a slow link, before and after it, is left out; a received gradient counts as long as an activation.
    """

    def __init__(
        self, problem: Problem, stages: Sequence[Stage], received_bytes: Floats, waiting_bytes: Floats
    ) -> None:
        self.stages = stages
        self.held_bytes = np.zeros(len(stages))
        self.left_bytes = np.array([device.memory_bytes for device in problem.cluster.devices], np.float64)
        shared = {len(stage.devices) for stage in stages}
        held = {r: (problem.static_bytes(r), problem.gathered_bytes(r)) for r in shared}
        counts = problem.stated_bytes is None
        working = np.zeros(len(self.left_bytes))
        for index, stage in enumerate(stages):
            operators, devices = list(stage.operators), list(stage.devices)
            static, gathered = held[len(devices)]
            self.left_bytes[devices] -= float(static[operators].sum() + gathered[operators].max(initial=0.0))
            if not counts:
                continue
            samples = stage.micro_batch_size / len(devices)
            saved = saved_bytes(problem, operators, samples) if problem.has_backward() else 0.0
            again = saved if stage.recompute else 0.0
            self.held_bytes[index] = received_bytes[index] + waiting_bytes[index] + saved - again
            self.left_bytes[devices] -= float(received_bytes[index])
            working[devices] = np.maximum(working[devices], workspace_bytes(problem, operators, samples) + again)
        self.left_bytes -= working

    def needed_bytes(self, in_flight: Sequence[int]) -> Floats:
        """What the stages of every device hold with so many micro-batches in flight, [devices]."""
        total = np.zeros(len(self.left_bytes))
        for index, stage in enumerate(self.stages):
            total[list(stage.devices)] += in_flight[index] * self.held_bytes[index]
        return total

    def most_bytes(self, orders: Sequence[Sequence[Action]]) -> Floats:
        """The most that micro-batches in flight hold at once on every device in these orders, [devices]."""
        ends = last_parts(orders)
        most = np.zeros(len(self.left_bytes))
        for device, actions in enumerate(orders):
            level = peak = 0.0
            for action in actions:
                if action.kind == "F" and action.stage in ends:
                    level += self.held_bytes[action.stage]
                    peak = max(peak, level)
                elif ends.get(action.stage) == action.kind:
                    level -= self.held_bytes[action.stage]
            most[device] = peak
        return most

    def is_ample(self, most_bytes: Floats) -> bool:
        """Whether there is room for so much on every device without looking closer."""
        return bool((AMPLE * most_bytes <= self.left_bytes).all())

    def between(self, least: Sequence[int], wanted: Sequence[int]) -> list[int]:
        """Micro-batches in flight from ``least`` to ``wanted``, [stages], for which there is room; where there
        is not even room for the least, that. The stages of a device give up the same share of the difference.
        """
        share = np.ones(len(self.stages))
        low, high = self.needed_bytes(least), self.needed_bytes(wanted)
        for index, stage in enumerate(self.stages):
            for device in stage.devices:
                extra = high[device] - low[device]
                if high[device] > self.left_bytes[device]:
                    fits = (self.left_bytes[device] - low[device]) / extra if extra > 0 else 0.0
                    share[index] = max(0.0, min(share[index], fits))
        return [a + int((b - a) * part + 1e-9) for a, b, part in zip(least, wanted, share.tolist(), strict=True)]
