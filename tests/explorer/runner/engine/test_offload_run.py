"""Plans whose stages keep what they save in their hosts' memory, on 2 processes: the whole model's gradients, in less
memory as the devices' bytes are counted."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from explorer.costs.regions import Recompute
from explorer.runner.bundles.result_json import read_outcome
from solvers.evaluation.evaluate import evaluate
from solvers.pipelines.recomputation.fitted import fitted
from solvers.plan.plan import Plan
from solvers.plan.regions import with_regions
from solvers.problem.graph import Phase
from solvers.problem.problem import Optimizer, Pipeline, Problem
from tests.explorer.runner.engine.test_ranks import EXACT, launch
from tests.explorer.runner.plans import placed, problem_of, text

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


AT_ONCE = "100000GB/s"
"""A link to hosts as fast as copies look where a process makes its own."""
GIVEN: dict[str, Any] = {
    "mini_batch": 32, "micro_batches": 8, "pipeline": Pipeline.GPIPE, "optimizer": Optimizer.SGD, "offload": True,
}  # fmt: skip


def halves(host_link: str = AT_ONCE, **options: Any) -> tuple[Problem, Plan]:
    """8 micro-batches, forwards first."""
    problem = problem_of("gpt-small", devices=2, host_link=host_link, **{**GIVEN, **options})
    count = sum(operator.forward_of is None for operator in problem.graph.operators)
    return problem, placed(problem, [int(i >= count / 2) for i in range(count)], 8)


def stays() -> tuple[Problem, Plan]:
    return halves()


def goes() -> tuple[Problem, Plan]:
    problem, plan = halves()
    forward = {o for o, operator in enumerate(problem.graph.operators) if operator.phase is Phase.FORWARD}
    stages = (replace(stage, offload=tuple(o for o in stage.operators if o in forward)) for stage in plan.stages)
    return problem, replace(plan, stages=tuple(stages))


def some(share: float = 0.7, host_link: str = "5GB/s", **options: Any) -> tuple[Problem, Plan]:
    """What goes on devices that have this share of the memory that the halves take."""
    problem, plan = halves(host_link, **options)
    peaks = evaluate(problem, plan).peak_memory_bytes
    devices = tuple(
        replace(device, memory_bytes=share * peak) for device, peak in zip(problem.cluster.devices, peaks, strict=True)
    )
    problem = replace(problem, cluster=replace(problem.cluster, devices=devices))
    plan_that_fits = fitted(problem, plan).plan
    assert plan_that_fits is not None
    assert all(0 < len(stage.offload) < len(stage.operators) / 2 for stage in plan_that_fits.stages)
    return with_regions(problem, plan_that_fits), plan_that_fits


def both() -> tuple[Problem, Plan]:
    problem, plan = some(0.5, "3GB/s", recompute=Recompute.BUDGET)
    assert all(stage.again for stage in plan.stages)
    return problem, plan


def adam(on_hosts: bool) -> tuple[Problem, Plan]:
    return halves(optimizer=Optimizer.ADAM, offload=not on_hosts, offload_optimizer=on_hosts)


CASES = {
    "states": partial(adam, False),
    "states on hosts": partial(adam, True),
    "stays": stays,
    "goes": goes,
    "some goes": some,
    "some goes, some runs again": both,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("offload")
    cases = []
    for name, make in CASES.items():
        (folder / f"{name}.json").write_text(text(*make(), "gpt-small"))
        request = {
            "verify": True, "dtype": "float32", "optimizer": "adam" if "states" in name else "sgd",
            "learning_rate": 0.05, "operators": True,
            "steps": 1, "warmup": 0,
        }  # fmt: skip
        cases.append([name, 2, f"{name}.json", request, ""])
    (folder / "cases.json").write_text(json.dumps(cases))
    return launch(folder)


@pytest.mark.parametrize("name", CASES)
def test_equals_the_whole_model(name: str, results: dict[str, Any]) -> None:
    errors = results[name]
    assert errors["compared"] > 0
    assert max(errors["loss"], errors["gradient"], errors["parameter"]) <= EXACT["float32"], errors["worst"]


def test_about_as_much_is_held_as_was_planned(results: dict[str, Any]) -> None:
    """What a stage sent is free once it has arrived, unless it was saved."""
    measured = {name: read_outcome(results[name]["outcome"]).peak_bytes for name in CASES}
    planned = {name: evaluate(*make()).peak_memory_bytes for name, make in CASES.items()}
    for rank in (0, 1):
        assert measured["goes"][rank] < 0.7 * measured["stays"][rank]
        saved = planned["states"][rank] - planned["states on hosts"][rank]
        assert saved > 200_000
        assert measured["states"][rank] - measured["states on hosts"][rank] == pytest.approx(saved, rel=0.02)
        for name in CASES:
            assert measured[name][rank] == pytest.approx(planned[name][rank], rel=0.1), name
