"""Column generation that decides whether a target load is impossible (Farley's bound): a linear program, how many
accelerators cover all groups, and the search for sets that lower it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from solvers.bounds.cover.diagram import Diagram, diagram_of
from solvers.bounds.cover.model import CoverModel
from solvers.bounds.cover.pricing import Priced, Pricing, ProgramPricing
from solvers.kernels.arrays import Bools, Floats


class Master:
    """Fewest accelerators, fractionally, that cover what the CPUs leave, with the sets added so far.

    Every group is covered by accelerator sets, by the CPUs (one fractional knapsack of all their
    time; or, with ``whole_cpus``, by sets of which each CPU has one) or, as if by an
    accelerator of its own, at a cost that bounds its price: 1 where that is possible. Its prices are
    the dual values.
    """

    def __init__(self, model: CoverModel, target_s: float, *, whole_cpus: bool = False) -> None:
        import highspy

        self.model = model
        self._inf = highspy.kHighsInf
        self._lp = lp = highspy.Highs()
        lp.setOptionValue("output_flag", False)
        lp.setOptionValue("threads", 1)
        nothing, none = np.zeros(0, np.int32), np.zeros(0)
        groups = len(model)
        for _ in range(groups):
            lp.addRow(1.0, self._inf, 0, nothing, none)
        lp.addRow(-self._inf, float(model.cpus), 0, nothing, none)
        on_cpu = model.on_cpu(target_s)
        cost = np.where(model.fits_alone(target_s), 1.0, model.accelerators + 1.0)
        for group in range(groups):
            lp.addCol(cost[group], 0.0, self._inf, 1, np.array([group], np.int32), np.ones(1))
            if on_cpu[group] and not whole_cpus:
                share = np.array([1.0, model.cpu_s[group] / target_s])
                lp.addCol(0.0, 0.0, 1.0, 2, np.array([group, groups], np.int32), share)
        self._seen: set[bytes] = set()
        self.cpu_price = 0.0

    def add(self, inside: Bools, *, on_cpu: bool = False) -> bool:
        """Add a set of an accelerator or of a whole CPU; False if it was there or is empty."""
        key = np.packbits(inside).tobytes() + bytes([on_cpu])
        if key in self._seen or not inside.any():
            return False
        self._seen.add(key)
        rows = np.flatnonzero(inside).astype(np.int32)
        if on_cpu:
            rows = np.append(rows, np.int32(len(self.model)))
        self._lp.addCol(0.0 if on_cpu else 1.0, 0.0, self._inf, len(rows), rows, np.ones(len(rows)))
        return True

    def solve(self) -> tuple[float, Floats]:
        """(number of accelerators, price of every group); (inf, zeros) if the program was not solved."""
        import highspy

        self._lp.run()
        if self._lp.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return np.inf, np.zeros(len(self.model))
        prices = np.array(self._lp.getSolution().row_dual[: len(self.model)])
        self.cpu_price = max(0.0, -float(self._lp.getSolution().row_dual[len(self.model)]))
        return float(self._lp.getInfo().objective_function_value), np.maximum(prices, 0.0)


MARGIN = 1e-4
"""How many accelerators more than there are must be needed: far above the tolerance of linear programs."""
SMOOTHING = 0.5
"""Weight of the prices that gave the best bound, in the prices that are tried."""
LABELS = 300_000, 6_000_000
"""Labels of one pricing at first, and at most: a million take 0.1 s."""
PROOF_S = 5.0
"""For the program that looks whether prices at hand refute another target."""
USEFUL = 1.0 + 1e-7


@dataclass(frozen=True, slots=True)
class Refutation:
    """What was learnt about a target. refuted: no placement reaches it. hopeless: more time would not
    refute it (mostly because the linear program allows it). prices: those that came closest."""

    refuted: bool
    hopeless: bool
    prices: Floats


class CoverSearch:
    """Known sets and what they prove, for targets up to that of the diagram. Where that had to forget
    hyperedges, its paths are no sets of their load, and an integer program finds the best sets."""

    def __init__(self, model: CoverModel, diagram: Diagram) -> None:
        self.model, self.diagram = model, diagram
        self._sets: dict[bytes, tuple[Bools, float]] = {}
        self._centre: Floats | None = None
        self._whole: tuple[CoverModel, Diagram] | None = None

    def tighten(self) -> bool:
        """From now on count what fits on each CPU, not what fits on all together in fractions.

        Closer where groups are large, but slower. False if it was so already or there is no CPU.
        """
        model = self.model
        if self._whole is not None or model.cpus == 0:
            return False
        able = np.isfinite(model.cpu_s)
        cpu = replace(
            model, acc_s=np.where(able, model.cpu_s, 0.0), allowed=able, nets=(), net_s=np.zeros(0),
            accelerators=model.cpus, acc_bytes=model.cpu_bytes, overlapped=False,
        )  # fmt: skip
        self._whole = cpu, diagram_of(cpu, float(cpu.acc_s.sum()) + 1.0, tries=0)
        return True

    def _cpus(self, prices: Floats, pricing: Pricing | None, target_s: float) -> tuple[float, list[Bools]]:
        """(a bound on the prices that the CPUs can collect, valuable sets for one CPU)."""
        together = self.model.cpu_value(prices, target_s)
        if pricing is None or together <= 0:
            return together, []
        priced = pricing.best(prices, 0.0, 0.0)
        return min(together, self.model.cpus * priced.bound), priced.sets

    def _cpu_pricing(self, target_s: float) -> Pricing | None:
        return None if self._whole is None else Pricing(*self._whole, target_s)

    def add(self, inside: Bools) -> None:
        """Remember a set, for this and other targets."""
        if inside.any() and self.model.allowed[inside].all() and self.model.fits_memory(inside):
            self._sets.setdefault(np.packbits(inside).tobytes(), (inside, self.model.load_s(inside)))

    def refute(self, target_s: float, go_on: Callable[[], bool]) -> Refutation:
        """Try to prove that no placement has a largest load of at most ``target_s``, while ``go_on()``."""
        model, accelerators = self.model, self.model.accelerators
        master = Master(model, target_s, whole_cpus=self._whole is not None)
        cpu_pricing = self._cpu_pricing(target_s)
        pricing = Pricing(model, self.diagram, target_s)
        for inside, load_s in list(self._sets.values()):
            if load_s <= target_s:
                master.add(inside)
            elif load_s <= 1.2 * target_s:
                part = pricing.subset(inside)
                if part is not None and model.fits(part, target_s):
                    master.add(part)
        program = None if self.diagram.exact else ProgramPricing(model, target_s)
        centre, nearest, labels, rounds = self._centre, 0.0, LABELS[0], 0
        prices = np.zeros(len(model))

        def adds(inside: Bools) -> bool:
            return bool(prices[inside].sum() > USEFUL) and model.fits(inside, target_s)

        while go_on():
            needed, prices = master.solve()
            if needed <= accelerators + MARGIN or not np.isfinite(needed):
                return Refutation(False, True, prices if centre is None else centre)
            added, exact = 0, True
            for tried in [prices] if centre is None else [SMOOTHING * centre + (1 - SMOOTHING) * prices, prices]:
                on_cpus, cpu_sets = self._cpus(tried, cpu_pricing, target_s)
                worth = float(tried.sum()) - on_cpus
                threshold = worth / (accelerators + MARGIN)
                priced = pricing.best(tried, threshold, USEFUL, most=labels)
                if program is not None and not any(map(adds, priced.sets)):
                    priced = _better(priced, program.best(tried, threshold, USEFUL, go_on))
                exact = exact and priced.exact
                if centre is None or worth > nearest * priced.bound:
                    nearest, centre = worth / max(priced.bound, 1e-12), tried
                    self._centre = centre
                if priced.bound * (accelerators + MARGIN) <= worth * (1 + 1e-12):
                    return Refutation(True, False, tried)
                sets = priced.sets if rounds % 3 else [*priced.sets, *pricing.partition(prices, accelerators)]
                for inside in sets:
                    if adds(inside) and master.add(inside):
                        self.add(inside)
                        added += 1
                if cpu_pricing is not None:
                    for inside in cpu_sets:
                        if prices[inside].sum() > master.cpu_price + USEFUL - 1 and cpu_pricing.model.fits(
                            inside, target_s
                        ):
                            added += master.add(inside, on_cpu=True)
                if added:
                    break
            rounds += 1
            if not added:
                if exact or labels >= LABELS[1]:
                    return Refutation(False, True, prices if centre is None else centre)
                labels *= 3
        return Refutation(False, False, np.zeros(len(model)) if centre is None else centre)

    def proves(self, prices: Floats, target_s: float) -> bool:
        """Whether these prices alone refute a target."""
        worth = float(prices.sum()) - self._cpus(prices, self._cpu_pricing(target_s), target_s)[0]
        if worth <= 0:
            return False
        threshold = worth / (self.model.accelerators + MARGIN)
        priced = Pricing(self.model, self.diagram, target_s).best(prices, threshold, many=0, most=LABELS[0] * 3)
        if not self.diagram.exact and priced.bound > threshold:
            end_s = time.monotonic() + PROOF_S
            priced = ProgramPricing(self.model, target_s).best(
                prices, threshold, math.inf, lambda: time.monotonic() < end_s
            )
        return priced.bound <= threshold * (1 + 1e-12)


def _better(first: Priced, second: Priced) -> Priced:
    """The conclusion of two searches for the same, the second of which leaves nothing out."""
    return Priced(min(first.bound, second.bound), [*second.sets, *first.sets], second.exact)
