"""Column generation that tells whether a target load is impossible (Farley's bound)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.planners.cover_diagram import Diagram
from solvers.planners.cover_master import Master
from solvers.planners.cover_model import CoverModel, Flags, Floats
from solvers.planners.cover_pricing import Pricing

MARGIN = 1e-4
"""How many accelerators more than there are must be needed: far above the tolerance of linear programs."""
SMOOTHING = 0.5
"""Weight of the prices that gave the best bound, in the prices that are tried."""
LABELS = 300_000, 6_000_000
"""Labels of one pricing at first, and at most: a million take 0.1 s."""
USEFUL = 1.0 + 1e-7


@dataclass(frozen=True, slots=True)
class Refutation:
    """What was learnt about a target. refuted: no placement reaches it. hopeless: the linear program
    allows it, so no prices refute it. prices: those that came closest."""

    refuted: bool
    hopeless: bool
    prices: Floats


class CoverSearch:
    """Sets found so far and what they prove, for targets up to that of the diagram."""

    def __init__(self, model: CoverModel, diagram: Diagram) -> None:
        self.model, self.diagram = model, diagram
        self._sets: dict[bytes, tuple[Flags, float]] = {}

    def keep(self, inside: Flags) -> None:
        """Remember a set, for this and other targets."""
        if inside.any() and self.model.allowed[inside].all() and self.model.fits_memory(inside):
            self._sets.setdefault(np.packbits(inside).tobytes(), (inside, self.model.load_s(inside)))

    def refute(self, target_s: float, go_on: Callable[[], bool]) -> Refutation:
        """Try to prove that no placement has a largest load of at most ``target_s``, while ``go_on()``."""
        model, accelerators = self.model, self.model.accelerators
        master = Master(model, target_s)
        pricing = Pricing(model, self.diagram, target_s)
        for inside, load_s in list(self._sets.values()):
            if load_s <= target_s:
                master.add(inside)
            elif load_s <= 1.2 * target_s:
                part = pricing.subset(inside)
                if part is not None and model.fits(part, target_s):
                    master.add(part)
        centre: Floats | None = None
        nearest, labels, rounds = 0.0, LABELS[0], 0
        while go_on():
            needed, prices = master.solve()
            if needed <= accelerators + MARGIN:
                return Refutation(False, True, prices if centre is None else centre)
            if not np.isfinite(needed):
                break
            found, exact = 0, True
            for tried in [prices] if centre is None else [SMOOTHING * centre + (1 - SMOOTHING) * prices, prices]:
                worth = float(tried.sum()) - model.cpu_value(tried, target_s)
                priced = pricing.best(tried, worth / (accelerators + MARGIN), USEFUL, most=labels)
                exact = exact and priced.exact
                if centre is None or worth > nearest * priced.bound:
                    nearest, centre = worth / max(priced.bound, 1e-12), tried
                if priced.bound * (accelerators + MARGIN) <= worth * (1 + 1e-12):
                    return Refutation(True, False, tried)
                sets = priced.sets if rounds % 3 else [*priced.sets, *pricing.partition(prices, accelerators)]
                for inside in sets:
                    if prices[inside].sum() > USEFUL and model.fits(inside, target_s) and master.add(inside):
                        self.keep(inside)
                        found += 1
                if found:
                    break
            rounds += 1
            if not found:
                if exact or labels >= LABELS[1]:
                    break
                labels *= 3
        return Refutation(False, False, np.zeros(len(model)) if centre is None else centre)

    def proves(self, prices: Floats, target_s: float) -> bool:
        """Whether these prices alone refute a target."""
        worth = float(prices.sum()) - self.model.cpu_value(prices, target_s)
        if worth <= 0:
            return False
        threshold = worth / (self.model.accelerators + MARGIN)
        priced = Pricing(self.model, self.diagram, target_s).best(prices, threshold, many=0, most=LABELS[0] * 3)
        return priced.bound <= threshold * (1 + 1e-12)
