"""Plans whose experts are divided over groups, really run: the whole model's losses, gradients and parameters, rows as
uneven as they come, and the curve of one process in a training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from explorer.costs.regions import Recompute
from explorer.runner.scripts.executable import not_run
from solvers.problem.problem import Pipeline
from tests.explorer.runner.engine.test_ranks import EXACT
from tests.explorer.runner.plans import placed
from tests.explorer.runner.training.compared import Made, compared, planned_by_rank, trained
from tests.explorer.runner.training.divided_trainings import SAMPLES, STEPS
from tests.explorer.runner.training.experts import MODULE, Grid, by_chance
from tests.explorer.runner.training.test_divided_training import close, settled

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Case:
    make: Callable[[], Made]
    dtype: str = "float64"
    fault: str = ""

    @property
    def wanted(self) -> str:
        """The type of the run."""
        return self.dtype


def of(model: str, grid: Grid, **settings: Any) -> Callable[[], Made]:
    return lambda: (grid.reference(model), *grid.plan(model, **settings))


def again() -> Made:
    """Stages that run again before their backward."""
    grid = Grid(2, stages=2)
    problem, plan = grid.plan("gpt", recompute=Recompute.STAGE)
    return (
        grid.reference("gpt"), problem,
        replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages)),
    )  # fmt: skip


CASES = {
    "over 4": Case(of("gpt", Grid(4))),
    "over 4, float32": Case(of("gpt", Grid(4)), "float32"),
    "over 2, 2 stages": Case(of("gpt", Grid(2, stages=2))),
    "over 2, 2 replicas, ZeRO-1": Case(of("gpt", Grid(2, data=2), zero=1)),
    "over 2, 2 stages of 2 replicas": Case(of("gpt", Grid(2, 2, 2))),
    "zero bubble": Case(of("gpt", Grid(2, stages=2), pipeline=Pipeline.ZERO_BUBBLE)),
    "stages run again": Case(again),
    "a load stated": Case(of("gpt", Grid(2, more=",expert-load=1.25"))),
    "even over 4": Case(of("even", Grid(4)), "float32"),
    "even over 2, 2 stages": Case(of("even", Grid(2, stages=2)), "float32"),
    "uneven over 4": Case(of("uneven", Grid(4))),
    "uneven over 4, float32": Case(of("uneven", Grid(4)), "float32"),
    "uneven over 2, 2 stages": Case(of("uneven", Grid(2, stages=2))),
    "tensors over 2": Case(of("gpt", Grid(2, tensors=True))),
    "tensors over 2, 2 stages": Case(of("gpt", Grid(2, stages=2, tensors=True))),
    "uneven, tensors over 4": Case(of("uneven", Grid(4, tensors=True))),
    **{f"by chance {seed}": Case(lambda s=seed: by_chance("gpt", 2, s, (1, 2, 4)[s % 3])) for seed in range(6)},
    "rows in disorder": Case(of("gpt", Grid(2)), fault="rows"),
    "parts of gradients apart": Case(of("gpt", Grid(2)), fault="parts"),
}


@pytest.fixture(scope="module")
def made() -> dict[str, Made]:
    return {name: case.make() for name, case in CASES.items()}


@pytest.fixture(scope="module")
def results(made: dict[str, Made], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return compared(tmp_path_factory.mktemp("experts"), made, CASES)


RIGHT = [name for name, case in CASES.items() if not case.fault]


@pytest.mark.parametrize("name", RIGHT)
def test_equals_the_whole_model(name: str, results: dict[str, Any], made: dict[str, Made]) -> None:
    errors, exact = results[name], EXACT[CASES[name].dtype]
    assert any(tensor.placement == "E(0)" for tensor in made[name][1].graph.division.tensors)  # type: ignore[union-attr]
    assert errors["compared"] > 0
    print(f"{name}: loss {errors['loss']:.1e}, gradient {errors['gradient']:.1e}, parameter {errors['parameter']:.1e}")
    assert max(errors["loss"], errors["gradient"], errors["parameter"]) <= exact, errors["worst"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.fault])
def test_a_fault_is_detected(name: str, results: dict[str, Any]) -> None:
    print(f"{name}: gradient {results[name]['gradient']:.1e}")
    assert results[name]["gradient"] > 1e-4


@pytest.mark.parametrize("name", [name for name in RIGHT if CASES[name].dtype == "float32"])
def test_exchanges_are_those_of_the_plan(name: str, results: dict[str, Any], made: dict[str, Made]) -> None:
    """To the byte where every expert has as many rows as the plan counts; else all but the rows."""
    everywhere = results[name]["exchanged"]
    for rank, (sent, expected) in enumerate(
        zip(everywhere, planned_by_rank(made[name], len(everywhere), 1.0), strict=True)
    ):
        print(f"{name}, rank {rank}: {sent['all_to_all'] / expected['all_to_all']:.3f} of the rows that were planned")
        if not name.startswith("even"):
            del expected["all_to_all"]
            assert sent.pop("all_to_all") > 0
        assert sent == pytest.approx(expected)


def test_rows_that_go_from_stage_to_stage_are_refused() -> None:
    problem, _ = Grid(2, stages=2).plan("gpt")
    forward = [o for o in problem.graph.operators if o.forward_of is None]
    cut = next(k for k, o in enumerate(forward) if "gelu" in o.op_type)
    (line,) = not_run(problem, placed(problem, [int(k >= cut) for k in range(len(forward))], 2), None)
    assert "go from one stage to another" in line
    assert not list(not_run(*Grid(2, stages=2).plan("gpt"), None))


WHOLE = Grid(1)
GRIDS = {
    "over 4": (Grid(4), 0),
    "over 2, 2 stages": (Grid(2, stages=2), 0),
    "over 2, 2 replicas, ZeRO-1": (Grid(2, data=2), 1),
}
CHANGES = (("over 4", "over 2, 2 stages"), ("over 2, 2 replicas, ZeRO-1", "whole"), ("whole", "over 4"))


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    every = {
        name: (grid.reference("gpt"), *grid.plan("gpt", SAMPLES, zero=zero, pipeline=Pipeline.ONE_F_ONE_B))
        for name, (grid, zero) in {"whole": (WHOLE, 0), **GRIDS}.items()
    }
    return trained(tmp_path_factory.mktemp("trained"), f"{MODULE}gpt", every, CHANGES)


@pytest.mark.parametrize("grid", GRIDS)
def test_every_grid_gives_the_curve_of_one_process(grid: str, trainings: dict[str, Any]) -> None:
    divided_run, whole = trainings[grid], trainings["whole"]
    assert len(whole["curve"]) == STEPS
    assert close(divided_run["curve"], whole["curve"])
    assert settled(divided_run) == pytest.approx(settled(whole), rel=1e-4)


@pytest.mark.parametrize(("first", "second"), CHANGES)
def test_a_training_goes_on_under_another_grid(first: str, second: str, trainings: dict[str, Any]) -> None:
    before, after = (trainings[f"{first} to {second}{end}"] for end in ("", ", then"))
    assert close(before["curve"] + after["curve"], trainings["whole"]["curve"])
    assert settled(after) == pytest.approx(settled(trainings["whole"]), rel=1e-4)
