"""Plans whose attention goes round a ring, really run on groups of processes: the whole model's losses, gradients and
parameters, what was planned sent, and faults noticed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

from explorer.costs.regions import Recompute
from explorer.question.models.example import join_example
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.tracing.build import build
from explorer.tracing.sharding.choices import Choices, Option
from explorer.tracing.sharding.local import member_of
from explorer.tracing.sharding.rules import analyse
from solvers.problem.collectives import RING, Axis
from solvers.problem.problem import Pipeline
from tests.explorer.runner.engine.divided_plans import both
from tests.explorer.runner.engine.test_ranks import EXACT
from tests.explorer.runner.plans import placed, problem_of
from tests.explorer.runner.training.compared import Made, compared, planned_by_rank, trained
from tests.explorer.runner.training.divided_trainings import SAMPLES, STEPS
from tests.explorer.runner.training.test_divided_training import close

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MODULE = "tests.explorer.runner.model.attending:"


@dataclass(frozen=True)
class Case:
    """members: of each group. stages, data: replicas of each. chance: a seed of ways by chance, else all rings."""

    model: str
    members: int
    stages: int = 1
    data: int = 1
    dtype: str = "float64"
    pipeline: Pipeline = Pipeline.ONE_F_ONE_B
    again: bool = False
    chance: int | None = None
    fault: str = ""
    mini_batch: int = 16

    @property
    def wanted(self) -> str | None:
        """The type that a run is asked for; None: the model's own."""
        return None if self.dtype == "bfloat16" else self.dtype

    def chosen(self, options: tuple[Option, ...], draw: random.Random) -> Option:
        if self.chance is not None:
            return draw.choice(options)
        return next((option for option in options if option.ring), options[0])

    def make(self) -> Made:
        small, large = both(self.model)
        choices = Choices(analyse(small), large, self.members, axis=Axis.CONTEXT)
        draw = random.Random(self.chance)
        labels = {at: self.chosen(options, draw) for at, options in choices.options.items()}
        assert self.chance is not None or any(option.ring for option in labels.values())
        reference = join_example(self.model, context_parallel=self.members)
        parts = (member_of(choices, labels, of) for of in (small, large))
        workload = build(*parts, reference=reference, training=True, tensor_parallel=self.members)
        devices = self.members * self.stages * self.data
        recompute = {"recompute": Recompute.STAGE} if self.again else {}
        settings = Settings(
            devices=devices, devices_per_node=devices, mini_batch=self.mini_batch, micro_batches=4,
            max_replicas=self.data, pipeline=self.pipeline, **recompute,
        )  # fmt: skip
        problem = make_problem(workload, settings)
        count = sum(operator.forward_of is None for operator in problem.graph.operators)
        halves = [int(self.stages > 1 and 2 * k >= count) for k in range(count)]
        places = [tuple(half * self.data + replica for replica in range(self.data)) for half in halves]
        plan = placed(problem, places, 4)
        if self.again:
            plan = replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages))
        return reference, problem, plan


CASES = {
    "gpt-small over 2": Case("gpt-small", 2),
    "gpt-small over 4": Case("gpt-small", 4),
    "gpt-small over 4, float32": Case("gpt-small", 4, dtype="float32"),
    "in bfloat16, over 4": Case(f"{MODULE}narrow", 4, dtype="bfloat16"),
    "gpt-small over 2, 2 stages": Case("gpt-small", 2, stages=2),
    "gpt-small over 2, zero bubble": Case("gpt-small", 2, stages=2, pipeline=Pipeline.ZERO_BUBBLE),
    "gpt-small over 2, stages run again": Case("gpt-small", 2, stages=2, again=True),
    "gpt-small over 2, 2 replicas": Case("gpt-small", 2, data=2),
    "gpt-small over 2, 2 stages of 2 replicas": Case("gpt-small", 2, stages=2, data=2),
    "llama-small over 4": Case("llama-small", 4, dtype="float32"),
    "bert-small over 4": Case("bert-small", 4),
    "transformer-small over 2": Case("transformer-small", 2),
    "in one chunk each, over 4": Case(f"{MODULE}odd", 4),
    "not causal, over 2": Case(f"{MODULE}everywhere", 2),
    "grouped queries over 2": Case(f"{MODULE}grouped", 2),
    "grouped queries over 4, 2 stages": Case(f"{MODULE}grouped", 4, stages=2),
    "one head of keys over 4": Case(f"{MODULE}one_head", 4),
    "padded, over 4": Case(f"{MODULE}padded", 4),
    "windowed, over 4": Case(f"{MODULE}windowed", 4),
    **{f"gpt-small by chance {seed}": Case("gpt-small", 2, 1 + seed % 2, chance=seed) for seed in range(4)},
    **{f"bert-small by chance {seed}": Case("bert-small", 4, chance=seed) for seed in range(2)},
    "a block skipped": Case("gpt-small", 4, fault="skipped"),
    "gradients of keys kept": Case("gpt-small", 2, fault="unreturned"),
    "two chunks taken for one": Case("gpt-small", 2, fault="unmirrored"),
}


@pytest.fixture(scope="module")
def made() -> dict[str, Made]:
    return {name: case.make() for name, case in CASES.items()}


@pytest.fixture(scope="module")
def results(made: dict[str, Made], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return compared(tmp_path_factory.mktemp("rings"), made, CASES)


RIGHT = [name for name, case in CASES.items() if not case.fault]
NEAR = {"float64": 1e-12, "float32": EXACT["float32"], "bfloat16": 0.05}


@pytest.mark.parametrize("name", RIGHT)
def test_equals_the_whole_model(name: str, results: dict[str, Any]) -> None:
    errors = results[name]
    assert errors["compared"] > 0
    print(f"{name}: loss {errors['loss']:.1e}, gradient {errors['gradient']:.1e}, parameter {errors['parameter']:.1e}")
    assert max(errors["loss"], errors["gradient"], errors["parameter"]) <= NEAR[CASES[name].dtype], errors["worst"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.fault])
def test_a_fault_is_detected(name: str, results: dict[str, Any]) -> None:
    print(f"{name}: gradient {results[name]['gradient']:.1e}")
    assert results[name]["gradient"] > 1e-4


@pytest.mark.parametrize("name", RIGHT)
def test_exchanges_are_those_of_the_plan(name: str, results: dict[str, Any], made: dict[str, Made]) -> None:
    """By kind and to the byte, in the entries of the run."""
    times = {"float64": 2.0, "float32": 1.0, "bfloat16": 1.0}[CASES[name].dtype]
    exchanged = results[name]["exchanged"]
    planned = planned_by_rank(made[name], len(exchanged), times)
    assert CASES[name].chance is not None or all(RING in kinds for kinds in planned)
    least = 0.9 if CASES[name].again else 1.0
    for own, expected in zip(exchanged, planned, strict=True):
        assert own.keys() == expected.keys()
        for kind, nbytes in own.items():
            assert least * expected[kind] * (1 - 1e-9) <= nbytes <= expected[kind] * (1 + 1e-9), kind


GRIDS = {
    "over 4": Case(f"{MODULE}grouped", 4, mini_batch=SAMPLES),
    "over 2, 2 stages": Case(f"{MODULE}grouped", 2, stages=2, mini_batch=SAMPLES),
    "over 2, 2 replicas": Case(f"{MODULE}grouped", 2, data=2, mini_batch=SAMPLES),
}
CHANGES = (("over 4", "over 2, 2 stages"), ("over 2, 2 replicas", "whole"), ("whole", "over 4"))


def whole() -> Made:
    problem = problem_of(f"{MODULE}grouped", devices=1, mini_batch=SAMPLES, micro_batches=4)
    count = sum(operator.forward_of is None for operator in problem.graph.operators)
    return f"{MODULE}grouped", problem, placed(problem, [0] * count, 4)


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    every = {"whole": whole(), **{name: case.make() for name, case in GRIDS.items()}}
    return trained(tmp_path_factory.mktemp("trained"), f"{MODULE}grouped", every, CHANGES)


@pytest.mark.parametrize("grid", GRIDS)
def test_every_grid_gives_the_curve_of_one_process(grid: str, trainings: dict[str, Any]) -> None:
    assert len(trainings["whole"]["curve"]) == STEPS
    assert close(trainings[grid]["curve"], trainings["whole"]["curve"])
    assert trainings[grid]["weights"] == pytest.approx(trainings["whole"]["weights"], rel=1e-4)


@pytest.mark.parametrize(("first", "second"), CHANGES)
def test_a_training_goes_on_under_another_grid(first: str, second: str, trainings: dict[str, Any]) -> None:
    """Tables of which members have two chunks are put together, and divided again."""
    before, after = (trainings[f"{first} to {second}{end}"] for end in ("", ", then"))
    assert close(before["curve"] + after["curve"], trainings["whole"]["curve"])
    assert after["weights"] == pytest.approx(trainings["whole"]["weights"], rel=1e-4)
