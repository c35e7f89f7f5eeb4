"""The covering bound is never above the optimum of placements without contiguity, and close to it."""

from __future__ import annotations

import itertools
import math
import random
import time
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds.cover import bound as bound_module
from solvers.bounds.cover.bound import CoverBounds, average_bound_s, first_bound_s, largest_bound_s
from solvers.bounds.cover.diagram import diagram_of
from solvers.bounds.cover.model import CoverModel, model_from, model_of
from solvers.bounds.cover.pricing import Pricing, ProgramPricing
from solvers.coarsening.coarsen import contract
from solvers.formats.msr2020 import read_msr2020
from solvers.problem.problem import Contiguity, Problem
from solvers.programs.background import Background
from tests.solvers.msr_instances import (
    as_problem,
    best_max_load_ms,
    needs_workloads,
    published,
    random_file,
    references,
)


def model_for(problem: Problem) -> CoverModel:
    accelerators, cpus = problem.cluster.accelerators, problem.cluster.cpus
    acc_bytes = problem.cluster.devices[accelerators[0]].memory_bytes
    return model_of(contract(problem, 1), len(accelerators), len(cpus), acc_bytes, math.inf, False)


def random_model(seed: int, overlapped: bool = False) -> CoverModel:
    rng = random.Random(seed)
    groups = rng.randint(3, 8)
    nets = {tuple(sorted(rng.sample(range(groups), rng.choice([2, 2, 2, 3])))) for _ in range(groups + 2)}
    accelerators, cpus = rng.randint(1, 3), rng.choice([0, 1, 2])
    nbytes = np.array([rng.randint(0, 4) for _ in range(groups)], float)
    return CoverModel(
        acc_s=np.array([rng.choice([0, 1, 3, 5, 8]) for _ in range(groups)], float),
        cpu_s=np.array([rng.choice([4, 9, 20, math.inf]) for _ in range(groups)], float),
        allowed=np.array([cpus == 0 or rng.random() > 0.1 for _ in range(groups)]),
        nbytes=nbytes,
        nets=tuple(sorted(nets)),
        net_s=np.array([rng.choice([0.5, 1, 2, 6]) for _ in nets]),
        accelerators=accelerators,
        cpus=cpus,
        acc_bytes=float(rng.choice([100, nbytes.max() + nbytes.sum() // accelerators])),
        cpu_bytes=math.inf,
        overlapped=overlapped,
    )


def all_sets(model: CoverModel) -> list[np.ndarray]:
    return [np.array(bits, bool) for bits in itertools.product([False, True], repeat=len(model))]


def optimum(model: CoverModel) -> tuple[float, list[int]]:
    """The least largest load over all placements and one that has it; inf and [] if none is feasible."""
    best, cover = math.inf, []
    devices = model.accelerators + model.cpus
    part_s: dict[int, tuple[float, float]] = {}
    for inside in all_sets(model):
        key = int(np.packbits(inside, bitorder="little")[0]) if len(model) <= 8 else 0
        part_s[key] = (model.load_s(inside) if model.fits(inside, math.inf) else math.inf, model.cpu_s[inside].sum())
    full = (1 << len(model)) - 1

    def share_out(rest: int, device: int, sets: list[int], worst: float) -> None:
        nonlocal best, cover
        if worst >= best:
            return
        if device == devices:
            if rest == 0:
                best = worst
                cover = [next(d for d, s in enumerate(sets) if s >> g & 1) for g in range(len(model))]
            return
        part = rest
        while True:
            share_out(rest & ~part, device + 1, [*sets, part], max(worst, part_s[part][device >= model.accelerators]))
            if part == 0:
                return
            part = (part - 1) & rest

    share_out(full, 0, [], 0.0)
    return best, cover


def proved_s(model: CoverModel, upper_s: float, placements=()) -> float:
    """What the bound comes to, with a clock that ticks at every look so that nothing depends on time."""
    ticks = itertools.count(0, 0.05)
    shown = [0.0]
    CoverBounds(model, upper_s, placements, shown.append, lambda: None, lambda: next(ticks)).run()
    return shown[-1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [200_000, 12])
def test_pricing_bounds_every_set_and_a_diagram_that_forgets_nothing_finds_the_best(seed, most):
    model = random_model(seed)
    target_s = 9.0 + seed
    pricing = Pricing(model, diagram_of(model, target_s, most=most), target_s)
    prices = np.random.default_rng(seed).random(len(model))
    best = max(prices[inside].sum() for inside in all_sets(model) if model.fits(inside, target_s))
    for labels in (300_000, 1):
        priced = pricing.best(prices, 0.0, 0.0, most=labels)
        assert priced.bound >= best - 1e-9
        if pricing.diagram.exact and priced.exact and labels > 1:
            assert priced.bound == pytest.approx(best)
            assert any(prices[s].sum() == pytest.approx(best) and model.fits(s, target_s) for s in priced.sets)


@pytest.mark.parametrize("overlapped", [False, True])
def test_an_integer_program_finds_the_most_valuable_set(overlapped):
    for seed in range(30):
        model = random_model(seed, overlapped)
        rng = np.random.default_rng(seed)
        prices, target_s = rng.random(len(model)), float(rng.choice([3.0, 6.0, 10.0, 15.0]))
        best = max((float(prices[s].sum()) for s in all_sets(model) if model.fits(s, target_s)), default=0.0)
        program = ProgramPricing(model, target_s)
        for threshold in (0.0, 0.5 * best, 2.0 * best + 1.0, 0.0):
            priced = program.best(prices, threshold, 0.0, lambda: True)
            assert priced.exact
            assert max(threshold, best) - 1e-12 <= priced.bound
            if threshold < best:
                assert priced.bound == pytest.approx(best, rel=1e-5), f"seed {seed}"
                assert any(prices[s].sum() == pytest.approx(best) and model.fits(s, target_s) for s in priced.sets)
        stopped = program.best(prices, 0.0, 0.0, lambda: False)
        assert stopped.bound >= best - 1e-12


@pytest.mark.slow
def test_where_the_diagram_forgets_programs_prove_as_much(monkeypatch):
    """All hyperedges are forgotten here: a path is the set with the compute of its load."""

    def forgetful(model, target_s):
        full = diagram_of(model, target_s)
        layers = full.layers._replace(moved=np.zeros_like(full.layers.moved))
        return replace(full, layers=layers, exact=False)

    monkeypatch.setattr(bound_module, "diagram_of", forgetful)
    close = count = 0
    for seed in range(20):
        model = random_model(100 + seed)
        best_s, placement = optimum(model)
        if not math.isfinite(best_s) or best_s == 0:
            continue
        count += 1
        bound_s = proved_s(model, best_s, [placement])
        assert bound_s <= best_s, f"seed {seed}"
        close += bound_s >= 0.99 * best_s
    assert count >= 15
    assert close >= 0.9 * count


@pytest.mark.first(1)
@pytest.mark.parametrize("overlapped", [False, True])
def test_the_bound_is_never_above_the_optimum_and_mostly_within_a_hundredth(overlapped):
    close = count = 0
    for seed in range(40):
        model = random_model(100 + seed, overlapped)
        best_s, placement = optimum(model)
        if not math.isfinite(best_s) or best_s == 0:
            continue
        count += 1
        bound_s = proved_s(model, best_s, [placement])
        assert bound_s <= best_s, f"seed {seed}"
        close += bound_s >= 0.99 * best_s
        if seed % 4 == 0:
            loose_s = proved_s(model, best_s * 1.7)
            assert loose_s <= best_s, f"seed {seed}, from a loose upper value"
    assert count >= 30
    # Where compute and communication overlap, pricing lets sets in that hold a little too much.
    assert close >= (0.5 if overlapped else 0.9) * count


@pytest.mark.parametrize("cpus", [0, 1, 2])
def test_the_bound_of_a_contracted_file_holds_for_the_file(cpus):
    compared = 0
    for seed in range(10):
        file = random_file(seed, cpus)
        best_ms = best_max_load_ms(file, contiguous=False)
        if not 0 < best_ms < math.inf:
            continue
        problem = as_problem(read_msr2020(file, "random"), contiguity=Contiguity.NONE)
        assert proved_s(model_for(problem), best_ms / 1e3) <= best_ms / 1e3 * (1 + 1e-12), f"seed {seed}"
        compared += 1
    assert compared >= 4


def test_two_equal_groups_on_one_accelerator_each_are_proved_optimal_with_their_transfer():
    model = CoverModel(
        acc_s=np.array([3.0, 3.0]), cpu_s=np.array([np.inf, np.inf]), allowed=np.array([True, True]),
        nbytes=np.array([1.0, 1.0]), nets=((0, 1),), net_s=np.array([0.5]),
        accelerators=2, cpus=0, acc_bytes=1.0, cpu_bytes=0.0, overlapped=False,
    )  # fmt: skip
    assert average_bound_s(model) == pytest.approx(3.0)
    assert largest_bound_s(model) == 3.0
    assert proved_s(model, 3.5, [[0, 1]]) == pytest.approx(3.5, rel=1e-3)


def test_a_model_survives_json():
    model = random_model(3)
    again = model_from(model.payload())
    assert again.payload() == model.payload()


def test_the_child_tells_its_bound_and_takes_better_placements():
    file = random_file(4, 1)
    problem = as_problem(read_msr2020(file, "random"), contiguity=Contiguity.NONE)
    contracted = contract(problem, 1)
    best_s = best_max_load_ms(file, contiguous=False) / 1e3
    cap = problem.cluster.devices[0].memory_bytes
    accelerators = len(problem.cluster.accelerators)
    model = model_of(contracted, accelerators, 1, cap, math.inf, False)
    bounds = [first_bound_s(model)]
    with Background("cover-bound", {"model": model.payload(), "upper_s": 2 * best_s, "placements": []}) as child:
        child.send({"upper_s": best_s, "placement": np.full(len(contracted), accelerators)})
        ends = time.monotonic() + 240
        while not child.done and time.monotonic() < ends:
            bounds += [message["bound_s"] for message in child.poll()]
            time.sleep(0.02)
        assert child.done
        assert child.error is None
    assert 0 < max(bounds) <= best_s * (1 + 1e-12)


@needs_workloads
@pytest.mark.parametrize("name", ["layer-bert24_inference", "layer-gnmt_inference", "operator-resnet50_inference"])
def test_published_workloads_are_bounded_within_a_hundredth(name):
    model = model_for(as_problem(published(name), contiguity=Contiguity.NONE))
    best_s = references()[name]["noncontiguous"]["best_known"] / 1e3
    bound_s = proved_s(model, best_s * 1.001)
    assert 0.99 * best_s <= bound_s <= best_s * (1 + 1e-5)
