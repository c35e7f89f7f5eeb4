"""Plans whose groups divide a model along two axes, really run: the whole model's losses, gradients and parameters,
what was planned sent along each axis, faults noticed, and the curve of one process in a training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from explorer.costs.regions import Recompute
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.runner.scripts.executable import not_run
from explorer.view.timeline.sent import within_groups
from solvers.formats.workload import Workload
from solvers.problem.collectives import RING, Axis
from solvers.problem.problem import Pipeline
from tests.explorer.runner.engine.divided_plans import Outer, by_chance
from tests.explorer.runner.engine.test_ranks import EXACT
from tests.explorer.runner.plans import placed, workload
from tests.explorer.runner.training.compared import Made, compared, planned_by_rank, trained
from tests.explorer.runner.training.divided_trainings import SAMPLES, STEPS
from tests.explorer.runner.training.test_divided_training import close, settled

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ATTENDING, MIXTURES = "tests.explorer.runner.model.attending:", "tests.explorer.runner.model.mixtures:"


@dataclass(frozen=True)
class Case:
    """outer, inner: the axes, None for whole tensors on one device; degrees: members along each. stages, data: replicas
    of each. chance: a seed of a division by chance, else the planner's."""

    model: str
    outer: Axis | None = Axis.CONTEXT
    degrees: tuple[int, int] = (2, 2)
    stages: int = 1
    data: int = 1
    zero: int = 0
    dtype: str = "float64"
    pipeline: Pipeline = Pipeline.ONE_F_ONE_B
    again: bool = False
    chance: int | None = None
    fault: str = ""
    mini_batch: int = 16
    inner: Axis = Axis.TENSOR

    @property
    def wanted(self) -> str:
        """The type of the run."""
        return self.dtype

    def divided(self) -> Workload:
        if self.outer is None:
            return workload(self.model)
        outer, inner = self.degrees
        if self.chance is None:
            return workload(f"{self.model},{self.outer.value}-parallel={outer},{self.inner.value}-parallel={inner}")
        divided_graph = by_chance(self.model, inner, self.chance, Outer(self.outer, outer))
        assert divided_graph is not None
        return divided_graph

    def make(self) -> Made:
        given = self.divided()
        devices = given.graph.tensor_parallel * self.stages * self.data
        recompute = {"recompute": Recompute.STAGE} if self.again else {}
        settings = Settings(
            devices=devices, devices_per_node=devices, mini_batch=self.mini_batch, micro_batches=4, zero=self.zero,
            max_replicas=self.data, pipeline=self.pipeline, **recompute,
        )  # fmt: skip
        problem = make_problem(given, settings)
        paths = [o.module_path for o in problem.graph.operators if o.forward_of is None]
        second = next((k for k, path in enumerate(paths) if path.startswith("blocks.1")), len(paths) // 2)
        halves = [int(self.stages > 1 and k >= second) for k in range(len(paths))]
        plan = placed(problem, [tuple(half * self.data + r for r in range(self.data)) for half in halves], 4)
        if self.again:
            plan = replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages))
        return given.reference, problem, plan


EXPERTS = Axis.EXPERT
GPT = f"{MIXTURES}gpt"
CASES = {
    "tokens": Case("gpt-small"),
    "tokens, float32": Case("gpt-small", dtype="float32"),
    "tokens, 2 stages": Case("gpt-small", stages=2),
    "tokens, zero bubble": Case("gpt-small", stages=2, pipeline=Pipeline.ZERO_BUBBLE),
    "tokens, stages run again": Case("gpt-small", stages=2, again=True),
    "tokens, 2 replicas, ZeRO-1": Case("gpt-small", data=2, zero=1),
    "tokens over 4": Case("gpt-small", degrees=(4, 2)),
    "tokens, llama": Case("llama-small", dtype="float32"),
    "tokens, bert": Case("bert-small"),
    "tokens, grouped queries": Case(f"{ATTENDING}grouped"),
    "tokens, not causal": Case(f"{ATTENDING}everywhere"),
    "tokens, padded": Case(f"{ATTENDING}padded"),
    "tokens and rows of experts": Case(GPT),
    "samples": Case("moe-small", EXPERTS, dtype="float32"),
    "samples, gpt, 2 stages": Case("gpt-small", EXPERTS, stages=2),
    "experts": Case(GPT, EXPERTS),
    "experts, 2 stages": Case(GPT, EXPERTS, stages=2),
    "experts, 2 replicas, ZeRO-1": Case(GPT, EXPERTS, data=2, zero=1),
    "experts over 4": Case(GPT, EXPERTS, (4, 2)),
    "uneven experts": Case(f"{MIXTURES}uneven", EXPERTS),
    "even experts": Case(f"{MIXTURES}even", EXPERTS, dtype="float32"),
    "even experts, 2 stages": Case(f"{MIXTURES}even", EXPERTS, stages=2, dtype="float32"),
    "tokens, and experts": Case(GPT, inner=EXPERTS),
    "tokens, and experts, 2 stages": Case(GPT, stages=2, inner=EXPERTS),
    "tokens, and experts, 2 replicas, ZeRO-1": Case(GPT, data=2, zero=1, inner=EXPERTS),
    "tokens, and uneven experts": Case(f"{MIXTURES}uneven", inner=EXPERTS),
    "tokens, and even experts": Case(f"{MIXTURES}even", inner=EXPERTS, dtype="float32"),
    **{f"gpt by chance {seed}": Case("gpt-small", chance=seed) for seed in range(2)},
    **{f"gpt by chance {seed}, float32": Case("gpt-small", chance=seed, dtype="float32") for seed in range(1)},
    **{f"bert by chance {seed}": Case("bert-small", chance=seed) for seed in range(1)},
    **{f"experts by chance {seed}": Case(GPT, EXPERTS, chance=seed) for seed in range(2)},
    "a sum over the other axis": Case("gpt-small", fault="sum over the other axis"),
    "a gather over the other axis": Case("gpt-small", fault="gather over the other axis"),
    "parts of gradients apart": Case("gpt-small", fault="parts"),
    "two chunks taken for one": Case("gpt-small", fault="unmirrored"),
    "rows in disorder": Case(GPT, EXPERTS, fault="rows"),
}


@pytest.fixture(scope="module")
def made() -> dict[str, Made]:
    return {name: case.make() for name, case in CASES.items()}


@pytest.fixture(scope="module")
def results(made: dict[str, Made], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return compared(tmp_path_factory.mktemp("axes"), made, CASES)


RIGHT = [name for name, case in CASES.items() if not case.fault]
NEAR = {"float64": 1e-12, "float32": EXACT["float32"]}


@pytest.mark.parametrize("name", RIGHT)
def test_equals_the_whole_model(name: str, results: dict[str, Any], made: dict[str, Made]) -> None:
    errors = results[name]
    assert made[name][1].graph.outer_degree > 1
    assert errors["compared"] > 0
    print(f"{name}: loss {errors['loss']:.1e}, gradient {errors['gradient']:.1e}, parameter {errors['parameter']:.1e}")
    assert max(errors["loss"], errors["gradient"], errors["parameter"]) <= NEAR[CASES[name].dtype], errors["worst"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.fault])
def test_a_fault_is_detected(name: str, results: dict[str, Any]) -> None:
    """The sum that goes astray is that of the loss."""
    errors = results[name]
    print(f"{name}: loss {errors['loss']:.1e}, gradient {errors['gradient']:.1e}")
    assert max(errors["loss"], errors["gradient"]) > 1e-4


COUNTED = [
    name
    for name in RIGHT
    if CASES[name].model not in (GPT, f"{MIXTURES}uneven") and not CASES[name].zero
    and (CASES[name].chance is None or CASES[name].dtype == "float32")
]  # fmt: skip
"""Where the rows of experts are as many as planned, replicas exchange nothing else, and all entries are of a type."""


@pytest.mark.parametrize("name", COUNTED)
def test_exchanges_along_each_axis_are_those_of_the_plan(
    name: str, results: dict[str, Any], made: dict[str, Made]
) -> None:
    """By kind and to the byte, in the entries of the run."""
    times, least = {"float64": 2.0, "float32": 1.0}[CASES[name].dtype], 0.9 if CASES[name].again else 1.0
    each = results[name]["axes"]
    for axis in range(2):
        planned = planned_by_rank(made[name], len(each), times, axis)
        assert any(planned)
        for own, expected in zip((axes[axis] for axes in each), planned, strict=True):
            assert own.keys() == expected.keys()
            for kind, nbytes in own.items():
                assert least * expected[kind] * (1 - 1e-9) <= nbytes <= expected[kind] * (1 + 1e-9), kind


def test_rows_that_go_from_stage_to_stage_are_refused(made: dict[str, Made]) -> None:
    """They are of the experts along the outer axis."""
    _, problem, plan = made["experts, 2 stages"]
    assert not list(not_run(problem, plan, None))
    forward = [o for o in problem.graph.operators if o.forward_of is None]
    cut = next(k for k, o in enumerate(forward) if "gelu" in o.op_type)
    (line,) = not_run(problem, placed(problem, [int(k >= cut) for k in range(len(forward))], 2), None)
    assert "go from one stage to another" in line


def test_rings_go_along_tokens_alone(results: dict[str, Any], made: dict[str, Made]) -> None:
    _, problem, plan = made["tokens"]
    assert within_groups(problem, plan, 0)[RING].any()
    assert not within_groups(problem, plan, 1)[RING].any()
    assert all(RING in outer and RING not in inner for outer, inner in results["tokens"]["axes"])


GRIDS = {
    f"{ATTENDING}grouped": {
        "whole": Case(f"{ATTENDING}grouped", None),
        "tokens": Case(f"{ATTENDING}grouped"),
        "tokens, 2 replicas, ZeRO-1": Case(f"{ATTENDING}grouped", data=2, zero=1),
    },
    GPT: {
        "whole": Case(GPT, None),
        "experts": Case(GPT, EXPERTS),
        "experts, 2 stages": Case(GPT, EXPERTS, stages=2),
    },
}
EVERY = [(model, grid) for model, grids in GRIDS.items() for grid in grids if grid != "whole"]
CHANGES = {
    f"{ATTENDING}grouped": (("tokens", "tokens, 2 replicas, ZeRO-1"), ("tokens", "whole"), ("whole", "tokens")),
    GPT: (("experts", "experts, 2 stages"), ("experts, 2 stages", "whole"), ("whole", "experts")),
}


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    results = {}
    for model, grids in GRIDS.items():
        plans = {name: replace(case, mini_batch=SAMPLES).make() for name, case in grids.items()}
        results[model] = trained(tmp_path_factory.mktemp("trained"), model, plans, CHANGES[model])
    return results


@pytest.mark.parametrize(("model", "grid"), EVERY)
def test_every_grid_gives_the_curve_of_one_process(model: str, grid: str, trainings: dict[str, Any]) -> None:
    """With a clip of the norm of all gradients, which counts each entry once."""
    divided_run, whole = trainings[model][grid], trainings[model]["whole"]
    assert len(whole["curve"]) == STEPS
    assert close(divided_run["curve"], whole["curve"])
    assert settled(divided_run) == pytest.approx(settled(whole), rel=1e-4)


@pytest.mark.parametrize(("model", "change"), [(model, change) for model, each in CHANGES.items() for change in each])
def test_a_training_goes_on_under_another_grid(model: str, change: tuple[str, str], trainings: dict[str, Any]) -> None:
    first, second = change
    before, after = (trainings[model][f"{first} to {second}{end}"] for end in ("", ", then"))
    assert close(before["curve"] + after["curve"], trainings[model]["whole"]["curve"])
    assert settled(after) == pytest.approx(settled(trainings[model]["whole"]), rel=1e-4)
