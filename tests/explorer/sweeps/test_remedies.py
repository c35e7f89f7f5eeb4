"""Remedies where nothing fits: every one that is offered was solved, the cheapest first."""

from __future__ import annotations

import pytest

from explorer.costs.devices import DEVICES
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.sweeps.remedies import MOST, Remedy, remedies, ways_out
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import Optimizer
from tests.explorer.view.small import chain_workload

EQUAL = PLANNERS["equal"]()


def offers(settings: Settings) -> list[Remedy]:
    workload = chain_workload()
    problem = make_problem(workload, settings)
    assert solve(problem, EQUAL).plan is None
    return list(ways_out(workload, remedies(problem, settings, 16), EQUAL))


@pytest.fixture(scope="module")
def needed() -> float:
    """Bytes of the fullest of two devices under the equal split in 4 micro-batches."""
    from solvers.evaluation.evaluate import evaluate

    problem = make_problem(chain_workload(), Settings(devices=2, micro_batches=4))
    plan = solve(problem, EQUAL).plan
    assert plan is not None
    return max(evaluate(problem, plan).peak_memory_bytes)


def test_ways_out_are_solved_and_each_within_its_cap(needed: float) -> None:
    offered = offers(Settings(devices=2, micro_batches=4, memory_bytes=max(0.9 * needed, 2**20)))
    assert 0 < len(offered) <= MOST
    for one in offered:
        assert one.result.plan is not None
        caps = {device.memory_bytes for device in one.result.problem.cluster.devices}
        assert one.peak_bytes <= max(caps)
        assert one.change.flags


def test_no_way_out_is_a_cap_that_the_device_does_not_have() -> None:
    settings = Settings(devices=2, memory_bytes=2.0**21)
    problem = make_problem(chain_workload(), settings)
    for change in remedies(problem, settings, 16):
        assert change.controls.get("memory", 0) <= max(kind.memory_bytes for kind in DEVICES.values())
    own = next(change for change in remedies(problem, settings, 16) if "memory" in change.controls)
    assert own.controls["memory"] == DEVICES["H100-80GB"].memory_bytes


def test_what_contains_a_way_out_is_not_one_more(needed: float) -> None:
    offered = offers(Settings(devices=2, micro_batches=4, memory_bytes=max(0.9 * needed, 2**20)))
    for i, one in enumerate(offered):
        assert not any(other.change.controls.items() <= one.change.controls.items() for other in offered[:i])


def test_nothing_is_looked_for_once_it_is_to_stop() -> None:
    workload, settings = chain_workload(), Settings(devices=2, memory_bytes=2.0**21)
    options = remedies(make_problem(workload, settings), settings, 16)
    assert list(ways_out(workload, options, EQUAL, should_stop=lambda: True)) == []


def test_hosts_are_a_way_out_where_they_can_be() -> None:
    """Not where states are sharded (ZeRO), or there already."""
    for given, expected in (
        ({}, ["--offload", "--offload-optimizer"]),
        ({"offload": True}, ["--offload-optimizer"]),
        ({"offload_optimizer": True}, ["--offload"]),
        ({"optimizer": Optimizer.SGD}, ["--offload"]),
        ({"zero": 1, "max_replicas": 0}, ["--offload"]),
    ):
        settings = Settings(devices=2, memory_bytes=2.0**21, **given)  # type: ignore[arg-type]
        options = remedies(make_problem(chain_workload(), settings), settings, 16)
        assert [change.flags for change in options if "offload" in change.flags] == expected
