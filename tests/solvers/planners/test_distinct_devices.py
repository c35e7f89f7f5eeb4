"""`auto` where pins, caps or kinds tell devices apart: what that costs, and that no member is ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solvers.evaluation.evaluate import evaluate
from solvers.pipelines.ladder import levelled, on_some_kinds
from solvers.plan.result import Result
from solvers.planners.auto import Auto
from solvers.planners.carry import relabelled
from solvers.planners.check import check
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.groups import together
from solvers.problem.pinned import with_pins_together
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.search.effort import Effort
from solvers.search.monitor import Monitor
from tests.instances import problem, training_graph

LAYERS = 12
MEMBERS = ("equal", "layer-split", "single", "linear-dp", "graph-pipeline", "interleaved", "annealing", "local-search")


def chain(devices: int = 4, **options: Any) -> Problem:
    """Layers of unequal work, one after the other."""
    edges = [(i, i + 1) for i in range(LAYERS - 1)]
    seconds = [1.0, 2.0, 1.0, 3.0, 1.0, 2.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0]
    options.setdefault("objective", Objective.ITERATION)
    return problem(
        training_graph(edges, LAYERS, nbytes=0.01, param_bytes=10.0, saved=1.0), [*seconds, *(2 * s for s in seconds)],
        devices, mini_batch=8, micro_batches=8, **options,
    )  # fmt: skip


def with_kinds(p: Problem, slower: float, slow: int) -> Problem:
    """The last devices so many times slower."""
    specs = p.cluster.devices
    kinds = [spec.kind if i < len(specs) - slow else "slow" for i, spec in enumerate(specs)]
    devices = tuple(replace(spec, kind=kind) for spec, kind in zip(specs, kinds, strict=True))
    table = replace(p.compute, seconds={**p.compute.seconds, "slow": p.compute.seconds["gpu"] * slower})
    return replace(p, cluster=replace(p.cluster, devices=devices), compute=table)


def with_caps(p: Problem, *caps: float) -> Problem:
    devices = tuple(replace(spec, memory_bytes=cap) for spec, cap in zip(p.cluster.devices, caps, strict=True))
    return replace(p, cluster=replace(p.cluster, devices=devices))


def quick(p: Problem, planner: str = "auto") -> Result:
    return solve(p, planner, effort=Effort.QUICK)


def assert_no_member_is_ahead(p: Problem) -> None:
    result = quick(p)
    assert result.plan is not None
    assert not check(p, result.plan)
    for name in MEMBERS:
        if PLANNERS[name]().unsupported(p) is None:
            assert result.objective_s <= quick(p, name).objective_s * 1.001, name


@pytest.mark.parametrize(("operator", "device"), [(0, 1), (5, 0), (LAYERS - 1, 2)])
def test_one_pin_costs_nothing_among_equal_devices(operator: int, device: int) -> None:
    free, pinned = chain(), chain(pins={operator: device})
    assert quick(pinned).objective_s <= quick(free).objective_s


def test_a_pin_that_holds_already_changes_nothing() -> None:
    free = quick(chain())
    assert free.plan is not None
    where = free.plan.placement()
    result = quick(chain(pins={operator: where[operator][0] for operator in (0, 4, LAYERS - 1)}))
    assert result.plan == free.plan
    assert result.objective_s == free.objective_s
    assert result.bound_s >= free.bound_s


@pytest.mark.parametrize(
    "pins",
    [{0: 1, 1: 2}, {3: 0, 4: 1, 5: 2, 6: 3}, {0: 3, LAYERS - 1: 0}, {2: 1, 5: 1, 6: 0}, {0: 0, 9: 0, 10: 3}],
    ids=str,
)
def test_no_member_is_ahead_under_several_pins(pins: dict[int, int]) -> None:
    assert_no_member_is_ahead(chain(pins=pins))


@pytest.mark.parametrize("objective", list(Objective))
def test_no_member_is_ahead_under_pins_whatever_is_minimised(objective: Objective) -> None:
    assert_no_member_is_ahead(chain(3, objective=objective, pins={1: 2, 2: 0}))


def test_caps_that_exchanging_devices_meets_cost_nothing() -> None:
    free = quick(chain())
    assert free.plan is not None
    peaks = sorted(evaluate(chain(), free.plan).peak_memory_bytes)
    assert peaks[0] < peaks[-1]
    for caps in (peaks, peaks[::-1], [peaks[2], peaks[0], peaks[3], peaks[1]]):
        assert quick(with_caps(chain(), *caps)).objective_s <= free.objective_s


@pytest.mark.parametrize("caps", [(300, 300, 300, 70), (60, 600, 200, 200), (60, 60, 400, 400)], ids=str)
def test_no_member_is_ahead_under_caps(caps: tuple[float, ...]) -> None:
    assert_no_member_is_ahead(with_caps(chain(), *caps))


def test_a_slow_device_beside_others_does_no_harm() -> None:
    three = quick(chain(3)).objective_s
    mixed = with_kinds(chain(), 20.0, 1)
    assert quick(mixed).objective_s <= three
    assert_no_member_is_ahead(mixed)


def test_a_slow_device_takes_a_share_where_that_helps() -> None:
    assert quick(with_kinds(chain(), 2.0, 1)).objective_s < quick(chain(3)).objective_s * 0.999


def test_no_member_is_ahead_on_several_kinds_under_pins() -> None:
    assert_no_member_is_ahead(replace(with_kinds(chain(), 3.0, 2), pins={0: 3, 4: 1}))


def test_interleaved_gets_its_turn_before_what_takes_long() -> None:
    p = chain(pipeline=Pipeline.INTERLEAVED)
    result = quick(p)
    turns = list(dict.fromkeys(step.member for step in result.trace))
    assert turns.index("interleaved") < turns.index("graph-pipeline")
    assert result.objective_s <= quick(p, "interleaved").objective_s


def test_no_member_is_ahead_where_stages_take_turns_under_pins() -> None:
    assert_no_member_is_ahead(chain(3, pipeline=Pipeline.INTERLEAVED, pins={0: 1, 1: 1, 6: 2}))


@pytest.mark.parametrize("pins", [{1: 2}, {1: 2, 2: 0, 7: 3}], ids=str)
def test_the_first_plan_under_pins_is_there_before_the_search(pins: dict[int, int]) -> None:
    p = chain(pins=pins)
    monitor = Monitor(p)
    Auto().begin(p, monitor)
    assert monitor.best is not None
    assert not check(p, monitor.best)


def test_a_pinned_question_and_the_relaxed_one_have_the_same_operators_and_devices() -> None:
    p = with_caps(chain(pins={0: 1, 3: 1, 5: 2}), 100, 200, 300, 400)
    free = levelled(p)
    assert free is not None
    assert not free.pins
    assert {device.memory_bytes for device in free.cluster.devices} == {400}
    assert levelled(free) is None
    assert list(on_some_kinds(free)) == []
    plan = solve(free, "equal").plan
    assert plan is not None
    moved = relabelled(p, plan)
    assert moved.placement()[0] == (1,)
    assert sorted(map(len, moved.order)) == sorted(map(len, plan.order))


def test_what_is_pinned_to_one_device_is_one_group() -> None:
    joined = with_pins_together(chain(pins={0: 1, 3: 1, 5: 2}))
    assert any({0, 3} <= set(group) and 5 not in group for group in together(joined.graph))
    alone = chain(pins={0: 1, 5: 2})
    assert with_pins_together(alone) is alone
