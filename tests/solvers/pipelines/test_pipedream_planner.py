"""Branches are merged into blocks, and what is left is cut as a chain."""

from __future__ import annotations

import pytest

from solvers.formats.msr2020 import read_msr2020
from solvers.pipelines.planners.pipedream import PipeDream
from solvers.plan.result import Status
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from tests.solvers.msr_instances import as_problem, needs_workloads, published, random_file, references


def problem(edges: list[tuple[int, int]], ms: dict[int, float], cost: dict[int, float] | None = None) -> Problem:
    """A forward graph on two accelerators: milliseconds of every operator, transfers of 0.1 ms."""
    free = {"supportedOnFpga": 1, "cpuLatency": 100.0, "isBackwardNode": 0, "size": 1.0}
    return as_problem(
        read_msr2020(
            {
                "maxFPGAs": 2,
                "maxCPUs": 0,
                "maxSizePerFPGA": 100.0,
                "nodes": [{"id": i, "name": f"o{i}", "fpgaLatency": time, **free} for i, time in ms.items()],
                "edges": [{"sourceId": u, "destId": v, "cost": (cost or {}).get(u, 0.1)} for u, v in edges],
            },
            "small.json",
        )
    )


DIAMOND = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)]
"""o1 forks into o2 and o3, o4 joins them."""


def blocks(p: Problem, planner: PipeDream = PipeDream()) -> list[set[int]]:  # noqa: B008  (frozen)
    members: dict[int, set[int]] = {}
    for operator, block in enumerate(planner.blocks(p, lambda: None)):
        members.setdefault(block, set()).add(operator)
    return sorted(members.values(), key=min)


def test_a_fork_and_its_branches_are_one_block_and_the_join_another() -> None:
    assert blocks(problem(DIAMOND, dict.fromkeys(range(6), 1.0))) == [{0}, {1, 2, 3}, {4}, {5}]


def test_a_mask_read_by_every_layer_joins_nothing_by_default() -> None:
    chain = [(0, 1), (1, 2), (2, 3)]
    p = problem([*chain, (4, 1), (4, 2), (4, 3)], {0: 1, 1: 1, 2: 1, 3: 1, 4: 0}, {4: 0.001})
    assert blocks(p) == [{0}, {1}, {2}, {3}, {4}]
    assert blocks(p, PipeDream(negligible=None)) == [{0}, {1, 2, 4}, {3}]


def test_the_plan_cuts_between_blocks_only() -> None:
    p = problem(DIAMOND, {0: 1, 1: 1, 2: 4, 3: 4, 4: 1, 5: 1})
    result = solve(p, PipeDream())
    assert result.status is Status.FEASIBLE
    assert result.objective_s == pytest.approx(0.0102)  # {0, 1, 2, 3} and two outputs
    assert solve(p, "downset-dp").objective_s == pytest.approx(0.0062)  # {0, 1, 2}: 6 and the outputs of 1 and 2


@pytest.mark.parametrize("seed", range(40))
def test_it_never_beats_the_optimum_and_keeps_all_rules(seed: int) -> None:
    p = as_problem(read_msr2020(random_file(seed, seed % 3), "random.json"))
    best, result = solve(p, "downset-dp"), solve(p, PipeDream(backward_edges=bool(seed % 2)))
    assert result.objective_s >= best.objective_s * (1 - 1e-9)
    assert result.status is not Status.INFEASIBLE or best.status is Status.INFEASIBLE


@pytest.mark.parametrize("options", [{"negligible": -1.0}, {"negligible": float("nan")}, {"orders": 0}])
def test_options_that_make_no_sense_are_refused(options: dict) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        PipeDream(**options)


VARIANT = {
    # The published program ignores bert24's mask by its number, which is another one in training.
    "layer-bert24_training": PipeDream(negligible=None),
    "operator-bert_l-3_training": PipeDream(backward_edges=True),
    "operator-bert_l-6_training": PipeDream(backward_edges=True),
    "operator-bert_L-12_training": PipeDream(backward_edges=True, negligible=0.0),
    "operator-resnet50_training": PipeDream(backward_edges=True),
}
"""How the reference values were made, where the default was not."""


@needs_workloads
@pytest.mark.parametrize("name", references())
def test_published_values(name: str) -> None:
    result = solve(as_problem(published(name)), VARIANT.get(name, PipeDream()))
    assert result.objective_s * 1e3 == pytest.approx(references()[name]["baselines"]["pipedream"], rel=1e-6)


@needs_workloads
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layer-bert24_training", 41.7458125),
        ("operator-bert_l-3_training", 89.2408),
        ("operator-resnet50_training", 264.8071),
    ],
)
def test_without_backward_edges_training_graphs_keep_their_blocks(name: str, value: float) -> None:
    assert solve(as_problem(published(name)), "pipedream").objective_s * 1e3 == pytest.approx(value, rel=1e-5)
