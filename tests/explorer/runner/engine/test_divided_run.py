"""Plans whose tensors are divided, really run on groups of processes: the whole model's gradients, and the exchanges
that were planned."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from explorer.costs.regions import Recompute
from explorer.question.loading import load
from explorer.question.nodes.groups import Members, divider
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.runner.bundles.result_json import read_outcome
from explorer.runner.scripts.executable import processes
from explorer.view.timeline.sent import within_groups
from solvers.evaluation.evaluate import evaluate
from solvers.plan.plan import Plan
from solvers.problem.collectives import Axis
from solvers.problem.problem import Pipeline, Problem
from tests.explorer.runner.engine.divided_plans import random_plan
from tests.explorer.runner.engine.test_ranks import EXACT, launch
from tests.explorer.runner.plans import placed, problem_of, text

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

GRIDS = ((2, 2), (2, 1), (4, 1))
"""(members of a group, groups)."""
Made = tuple[Problem, Plan]


@dataclass(frozen=True)
class Case:
    make: Callable[[], Made]
    model: str
    degree: int
    dtype: str = "float64"
    fault: str = ""
    measured: bool = False
    stages: bool = False
    """Whether it is also compared stage after stage."""


def halves(model: str, degree: int, **settings: Any) -> Callable[[], Made]:
    """As the integer program divides it, the first operators on one group, the others on another."""

    def make() -> Made:
        given = {"mini_batch": 16, "micro_batches": 4, **settings}
        devices = 2 * degree
        problem = problem_of(
            f"{model},tensor-parallel={degree}", devices=devices, devices_per_node=devices, **given
        )  # fmt: skip
        count = sum(operator.forward_of is None for operator in problem.graph.operators)
        return problem, placed(problem, [int(2 * k >= count) for k in range(count)], 4)

    return make


def tokens(model: str) -> Callable[[], Made]:
    """Tokens divided over 2, attention by heads, which slow links without a latency make the cheaper way."""

    def make() -> Made:
        divide = divider(2, None, None, Members(bandwidth_bytes_per_s=1e9, latency_s=0.0), Axis.CONTEXT)
        given = load(f"{model},context-parallel=2", training=True, divide=divide)
        settings = Settings(devices=4, devices_per_node=4, mini_batch=16, micro_batches=4)
        problem = make_problem(given, settings)
        count = sum(operator.forward_of is None for operator in problem.graph.operators)
        return problem, placed(problem, [int(2 * k >= count) for k in range(count)], 4)

    return make


def recomputed() -> Made:
    problem, plan = halves("gpt-small", 2, recompute=Recompute.STAGE)()
    return problem, replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages))


def by_chance(model: str, grid: tuple[int, int], seed: int) -> Callable[[], Made]:
    def make() -> Made:
        made = random_plan(model, *grid, seed)
        assert made is not None
        return made

    return make


DAG = "tests.explorer.runner.random_models:dag"
DEMOS = ("gpt-small", "bert-small", "gnmt-small", "candle_uno-small")
CASES = {
    "pipeline": Case(halves("gpt-small", 2), "gpt-small", 2, measured=True, stages=True),
    "pipeline, float32": Case(halves("llama-small", 2), "llama-small", 2, "float32", measured=True),
    "experts": Case(halves("moe-small", 2), "moe-small", 2, "float32"),
    "tokens together": Case(halves("gpt-small,sequence-parallel=0", 2), "gpt-small,sequence-parallel=0", 2),
    "tokens divided": Case(tokens("gpt-small"), "gpt-small,context-parallel=2", 2),
    "tokens divided, grouped queries": Case(tokens("llama-small"), "llama-small,context-parallel=2", 2, "float32"),
    "zero bubble": Case(halves("gpt-small", 2, pipeline=Pipeline.ZERO_BUBBLE), "gpt-small", 2, measured=True),
    "stages run again": Case(recomputed, "gpt-small", 2, measured=True),
    "layers run again": Case(halves("gpt-small", 2, recompute=Recompute.LAYERS), "gpt-small", 2, measured=True),
    "a sum forgotten": Case(halves("gpt-small", 2), "gpt-small", 2, fault="sums"),
    "a share mistaken": Case(halves("gpt-small", 2), "gpt-small", 2, fault="shares"),
    "parts of gradients apart": Case(by_chance("gpt-small", (2, 1), 1), "gpt-small", 2, fault="parts"),
    **{f"{model} by chance": Case(by_chance(model, (2, 2), 0), model, 2) for model in DEMOS},
    **{
        f"random DAG {seed}": Case(by_chance(f"{DAG}{seed}", GRIDS[seed % 2], seed), f"{DAG}{seed}", 2)
        for seed in range(10)
    },
    **{
        f"random DAG {seed} over 4": Case(by_chance(f"{DAG}{seed}", GRIDS[2], 2), f"{DAG}{seed}", 4)
        for seed in (0, 1, 5, 6)
    },
}


@pytest.fixture(scope="module")
def made() -> dict[str, Made]:
    return {name: case.make() for name, case in CASES.items()}


@pytest.fixture(scope="module")
def results(made: dict[str, Made], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("divided")
    cases = []
    for number, (name, case) in enumerate(CASES.items()):
        problem, plan = made[name]
        model, _, more = case.model.partition(",")
        name_of = f"{model},tensor-parallel={case.degree}{',' * bool(more)}{more}"
        name_of = case.model if "context-parallel" in case.model else name_of
        (folder / f"{number}.json").write_text(text(problem, plan, name_of))
        request = {
            "verify": True, "dtype": case.dtype, "learning_rate": 0.05, "allow_model": ":" in case.model,
            "steps": 2, "warmup": 0, "optimizer": "sgd", "operators": case.measured,
            "verify_by": "stages" if case.stages else None,
        }  # fmt: skip
        cases.append([name, processes(problem, plan), f"{number}.json", request, case.fault])
    (folder / "cases.json").write_text(json.dumps(cases))
    return launch(folder)


RIGHT = [name for name, case in CASES.items() if not case.fault]


@pytest.mark.parametrize("name", RIGHT)
def test_equals_the_whole_model(name: str, results: dict[str, Any]) -> None:
    errors, exact = results[name], EXACT[CASES[name].dtype]
    assert errors["compared"] > 0
    assert errors["loss"] <= exact
    assert errors["gradient"] <= exact, errors["worst"]
    assert errors["parameter"] <= exact


def test_equals_the_model_stage_after_stage(results: dict[str, Any]) -> None:
    errors = results["pipeline"]["stages"]
    assert errors["way"] == "stages"
    assert max(errors["loss"], errors["gradient"], errors["parameter"]) <= EXACT["float64"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.fault])
def test_a_fault_of_the_engine_is_detected(name: str, results: dict[str, Any]) -> None:
    assert results[name]["gradient"] > 1e-4


@pytest.mark.parametrize("name", RIGHT)
def test_a_member_holds_its_shares(name: str, results: dict[str, Any], made: dict[str, Made]) -> None:
    """What all ranks hold is what the plan counts, of every member."""
    problem, plan = made[name]
    item = {"float64": 2, "float32": 1}[CASES[name].dtype]
    operators = problem.graph.operators
    planned = sum(
        sum(operators[o].param_bytes for o in stage.operators if operators[o].forward_of is None) * len(stage.devices)
        for stage in plan.stages
    )
    assert sum(results[name]["bytes"]) <= item * planned * problem.graph.tensor_parallel + 1e-6
    assert sum(results[name]["bytes"]) > 0


@pytest.mark.parametrize("name", [name for name in RIGHT if not name.endswith("by chance") and "DAG" not in name])
def test_exchanges_are_those_of_the_plan(name: str, results: dict[str, Any], made: dict[str, Made]) -> None:
    """Of every group, by kind, to the byte; in fp64 each entry has twice the bytes that were planned. What runs again
    is planned to exchange all of it again, and stops where the last tensor is there that its backward needs."""
    problem, plan = made[name]
    item = {"float64": 2, "float32": 1}[CASES[name].dtype]
    planned = within_groups(problem, plan)
    for rank, exchanged in enumerate(results[name]["exchanged"]):
        device = plan.devices_used()[rank // problem.graph.tensor_parallel]
        expected = {kind: item * nbytes[device] for kind, nbytes in planned.items() if nbytes[device]}
        assert exchanged.keys() == expected.keys()
        for kind, nbytes in exchanged.items():
            if "again" in name:
                assert 0.9 * expected[kind] <= nbytes <= expected[kind]
            else:
                assert nbytes == pytest.approx(expected[kind])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.measured])
def test_memory_is_near_what_was_planned(name: str, results: dict[str, Any], made: dict[str, Made]) -> None:
    measured = read_outcome(results[name]["outcome"]).peak_bytes
    planned = evaluate(*made[name]).peak_memory_bytes
    item = {"float64": 2, "float32": 1}[CASES[name].dtype]
    for rank, device in enumerate(made[name][1].devices_used()):
        least = 0.8 if name.startswith("layers") else 0.9  # regions are counted as a whole where a cut goes through one
        # What was sent is freed once it has arrived: later where processes wait for cores.
        assert least < measured[rank] / (item * planned[device]) < 1.15
