"""Lower bounds on the max-load of placements without contiguity, proved in a child process.

For a target load, the accelerator sets within it must cover what the CPUs leave. If even
fractionally more accelerators are needed than there are, the target is impossible, and so the
optimum is above it: a destructive bound. The covering program is solved by column generation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from solvers.bounds.cover.diagram import diagram_of
from solvers.bounds.cover.model import CoverModel, model_from, sets_of
from solvers.bounds.cover.search import CoverSearch
from solvers.programs.background import Message, Receive, Send

FIRST_TARGETS = (0.998, 0.99, 0.98, 0.96, 0.93, 0.88, 0.8)
"""Shares of the upper value that are tried one after the other until one is refuted."""
CLOSE = 2e-4
"""Relative gap at which the bound is not worth improving."""
FIRST_SLICE_S = 5.0
"""Time for one target at first; doubled whenever all targets were tried."""
PROMISED = 1e-7
"""Relative part of a refuted target that is not claimed, for rounding in sums of loads."""


def average_bound_s(model: CoverModel) -> float:
    """Seconds below which the devices cannot do all work, with the CPUs taking what helps most."""

    def too_much(target_s: float) -> bool:
        rest_s = float(model.acc_s.sum()) - model.cpu_value(model.acc_s, target_s)
        return rest_s > model.accelerators * target_s

    low, high = 0.0, float(model.acc_s.sum())
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if too_much(middle) else (low, middle)
    return low


def largest_bound_s(model: CoverModel) -> float:
    """The largest group, where it is fastest."""
    acc = np.where(model.allowed, model.acc_s, np.inf) if model.accelerators else np.full(len(model), np.inf)
    cpu = model.cpu_s if model.cpus else np.full(len(model), np.inf)
    least = np.minimum(acc, cpu)
    return float(least[np.isfinite(least)].max(initial=0.0))


def first_bound_s(model: CoverModel) -> float:
    """What is proved of the model, in seconds per sample, before its child process."""
    return max(average_bound_s(model), largest_bound_s(model)) * (1 - PROMISED)


class CoverBounds:
    """Improves a proved bound step by step, for max-load (forward and backward on one device added up) without
    contiguity and replication, and for transfers that block the device or (overlapped) have a lane beside compute.

    upper_s: the load of the best placement known, in seconds per sample; the bound is never above it. placements: one
    device a super-operator, accelerators first, to start from.

    on_bound(bound_s) is called with every better bound. improvement() gives the last (upper_s, placement) found
    elsewhere since it was called before, or None. clock: seconds.
    """

    def __init__(
        self,
        model: CoverModel,
        upper_s: float,
        placements: Sequence[Sequence[int]],
        on_bound: Callable[[float], None],
        improvement: Callable[[], tuple[float, Sequence[int]] | None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.model, self.upper_s, self.bound_s = model, upper_s, 0.0
        self._on_bound, self._improvement, self._clock = on_bound, improvement, clock
        self._placements = list(placements)

    def run(self) -> None:
        """Until the bound is close to the upper value or the covering program proves no more."""
        model = self.model
        self._prove(max(average_bound_s(model), largest_bound_s(model)))
        if model.accelerators == 0 or len(model) == 0 or not np.isfinite(self.upper_s):
            return
        search = CoverSearch(model, diagram_of(model, self.upper_s))
        for placement in self._placements:
            self._add_sets(search, placement)
        slice_s = FIRST_SLICE_S
        hopeless_s = np.inf
        while not self._close(hopeless_s):
            failed_s = hopeless_s
            while not self._close(failed_s):
                target_s = self._target(failed_s, first=slice_s == FIRST_SLICE_S)
                until = self._clock() + slice_s
                outcome = search.refute(target_s, self._until(search, until))
                if outcome.refuted:
                    self._prove(target_s)
                    self._climb(search, outcome.prices, target_s, min(failed_s, self.upper_s))
                    continue
                failed_s = target_s
                if outcome.hopeless:
                    hopeless_s = min(hopeless_s, target_s)
                self._climb(search, outcome.prices, self.bound_s, target_s)
            if failed_s >= hopeless_s * (1 - CLOSE):
                if not search.tighten():
                    return
                hopeless_s = np.inf
            slice_s *= 2

    def _close(self, failed_s: float) -> bool:
        return min(self.upper_s, failed_s) - self.bound_s <= CLOSE * self.upper_s

    def _target(self, failed_s: float, *, first: bool) -> float:
        """The next one of the first targets below what failed; between bound and failure if there is none."""
        highest = min(failed_s * (1 - CLOSE), self.upper_s)
        if first:
            for share in FIRST_TARGETS:
                if self.bound_s * (1 + CLOSE) < share * self.upper_s < highest:
                    return share * self.upper_s
        return 0.5 * (self.bound_s + min(failed_s, self.upper_s))

    def _climb(self, search: CoverSearch, prices: Any, low_s: float, high_s: float, steps: int = 6) -> None:
        """Prices that refute one target, or almost, often refute another one: bisect for the highest."""
        for _ in range(steps):
            self._listen(search)
            if high_s - low_s <= 0.5 * CLOSE * high_s:
                return
            middle_s = 0.5 * (low_s + high_s)
            if search.proves(prices, middle_s):
                low_s = middle_s
                self._prove(middle_s)
            else:
                high_s = middle_s

    def _prove(self, target_s: float) -> None:
        bound_s = min(target_s, self.upper_s) * (1 - PROMISED)
        if bound_s > self.bound_s:
            self.bound_s = bound_s
            self._on_bound(bound_s)

    def _until(self, search: CoverSearch, end_s: float) -> Callable[[], bool]:
        def go_on() -> bool:
            self._listen(search)
            return self._clock() < end_s

        return go_on

    def _listen(self, search: CoverSearch) -> None:
        better = self._improvement()
        if better is not None:
            self.upper_s = min(self.upper_s, better[0])
            self._add_sets(search, better[1])

    def _add_sets(self, search: CoverSearch, placement: Sequence[int]) -> None:
        for inside in sets_of(placement, self.model.accelerators):
            search.add(inside)


def run(payload: Message, send: Send, receive: Receive) -> None:
    """The task "cover-bound": payload has "model", "upper_s", "placements"; messages in have "upper_s" and
    "placement"; messages out have "bound_s"."""

    def improvement() -> tuple[float, Sequence[int]] | None:
        messages = receive()
        return (messages[-1]["upper_s"], messages[-1]["placement"]) if messages else None

    CoverBounds(
        model_from(payload["model"]), payload["upper_s"], payload["placements"],
        lambda bound_s: send({"bound_s": bound_s}), improvement,
    ).run()  # fmt: skip
