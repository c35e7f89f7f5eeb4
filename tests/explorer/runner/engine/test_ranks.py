"""Plans really run on 2, 3 and 4 processes, against the whole model in one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from demo_models.multimodal import MODALITIES
from explorer.measured import compare_run
from explorer.question.planner_choice import choose_planner
from explorer.runner.bundles.result_json import read_outcome
from solvers.errors import InvalidPlan
from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Contiguity, Objective, Pipeline, Problem
from tests.explorer.runner.launching import launched
from tests.explorer.runner.plans import placed, problem_of, random_places, solved, text

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROCESSES = 4
SEVERAL = "tests.explorer.runner.model.models:several"
TOWERS = "tests.explorer.runner.model.models:towers"
EXACT = {"float64": 1e-9, "float32": 1e-5}
"""Largest error of losses, gradients and parameters, relative to the largest entry of the tensor."""


@dataclass(frozen=True)
class Case:
    make: Callable[[], tuple[Problem, Plan]]
    model: str
    dtype: str = "float64"
    optimizer: str = "sgd"
    fault: str = ""
    measured: bool = False
    stages: bool = True
    """Whether it is also compared stage after stage."""


def chain(model: str, devices: int, **settings: Any) -> Callable[[], tuple[Problem, Plan]]:
    def make() -> tuple[Problem, Plan]:
        problem = problem_of(model, devices=devices, mini_batch=4 * devices, **{"micro_batches": devices, **settings})
        return problem, solved(problem, "equal")

    return make


def recomputing(model: str) -> Callable[[], tuple[Problem, Plan]]:
    def make() -> tuple[Problem, Plan]:
        problem, plan = chain(model, 2, recompute=True)()
        return problem, replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages))

    return make


def scattered(model: str, devices: int, seed: int = 1) -> Callable[[], tuple[Problem, Plan]]:
    """Every operator on a random device: not contiguous."""

    def make() -> tuple[Problem, Plan]:
        problem = problem_of(
            model, devices=devices, mini_batch=4 * devices, micro_batches=devices, contiguity=Contiguity.NONE
        )
        return problem, placed(problem, random_places(problem, devices, random.Random(seed)), devices)

    return make


def branches(devices: int) -> Callable[[], tuple[Problem, Plan]]:
    """The branches of a model dealt out to the devices; what joins them is on the last one."""

    def make() -> tuple[Problem, Plan]:
        problem = problem_of("multimodal-small", devices=devices, mini_batch=4 * devices, micro_batches=devices)
        paths = [o.module_path.split(".") for o in problem.graph.operators if o.forward_of is None]
        places = [MODALITIES.index(path[1]) % devices if path[0] == "branches" else devices - 1 for path in paths]
        return problem, placed(problem, places, devices)

    return make


def tables(devices: int) -> Callable[[], tuple[Problem, Plan]]:
    """Tables of which few rows are looked up, and dense branches, planned as a graph of stages."""

    def make() -> tuple[Problem, Plan]:
        problem = problem_of("dlrm-small", devices=devices, mini_batch=4 * devices, micro_batches=devices)
        return problem, solved(problem, choose_planner("graph-pipeline:mode=paper"))

    return make


def by_operator(model: str, devices: int, planner: str) -> Callable[[], tuple[Problem, Plan]]:
    def make() -> tuple[Problem, Plan]:
        problem = problem_of(model, devices=devices, mini_batch=4, objective=Objective.MAKESPAN)
        return problem, solved(problem, planner)

    return make


def towers() -> tuple[Problem, Plan]:
    """The end of one tower and the head of the other on the middle device of three, whose gradients of parameters
    wait for all those of inputs."""
    problem = problem_of(TOWERS, devices=3, mini_batch=8, micro_batches=2, pipeline=Pipeline.ZERO_BUBBLE)
    layers = [o.module_path for o in problem.graph.operators if o.forward_of is None]
    first = {"left.0": 0, "left.1": 0, "left.2": 1, "right.0": 1}
    plan = placed(problem, [first.get(layer, 2) for layer in layers], 2)
    return problem, waiting(plan)


def waiting(plan: Plan) -> Plan:
    """On every device, all gradients of inputs before those of parameters."""
    rows = (sorted(row, key=lambda action: (action.kind == "U", action.kind == "W")) for row in plan.order)
    return replace(plan, order=tuple(map(tuple, rows)))


def replicated(model: str, devices: int, planner: str) -> Callable[[], tuple[Problem, Plan]]:
    def make() -> tuple[Problem, Plan]:
        problem = problem_of(model, devices=devices, mini_batch=8 * devices, micro_batches=2, max_replicas=devices)
        return problem, solved(problem, planner)

    return make


def mixed() -> tuple[Problem, Plan]:
    """Stages with micro-batches of other sizes: a pair of replicas takes twice as many samples at once."""
    problem = problem_of(
        "gpt-small", devices=3, mini_batch=24, micro_batches=4, max_replicas=2, mixed_micro_batches=True
    )
    return problem, solved(problem, "piper")


def random_dag(seed: int, separate: bool = False) -> Callable[[], tuple[Problem, Plan]]:
    """apart: gradients of parameters wait for all those of inputs."""

    def make() -> tuple[Problem, Plan]:
        choose = random.Random(seed)
        devices = choose.randint(2, PROCESSES)
        problem = problem_of(
            f"tests.explorer.runner.random_models:dag{seed}", devices=devices, mini_batch=8,
            micro_batches=choose.choice([1, 2, 4]), max_replicas=2, contiguity=Contiguity.NONE,
            pipeline=Pipeline.ZERO_BUBBLE if separate else Pipeline.ONE_F_ONE_B,
        )  # fmt: skip
        assert problem.micro_batches is not None
        while True:  # most placements use all devices; those that cannot be cut are thrown again
            try:
                plan = placed(problem, random_places(problem, devices, choose), problem.micro_batches)
            except InvalidPlan:
                continue
            if len(plan.devices_used()) == devices:
                return problem, waiting(plan) if separate else plan

    return make


CASES = {
    "chain on 2": Case(chain("gpt-small", 2), "gpt-small"),
    "chain on 2, Adam": Case(chain("gpt-small", 2), "gpt-small", optimizer="adam"),
    "chain on 2, float32": Case(chain("gpt-small", 2), "gpt-small", "float32"),
    "chain on 4": Case(chain("gpt-small", 4), "gpt-small"),
    "GPipe": Case(chain("gpt-small", 2, pipeline=Pipeline.GPIPE), "gpt-small"),
    "zero bubble": Case(chain("gpt-small", 2, pipeline=Pipeline.ZERO_BUBBLE), "gpt-small"),
    "zero bubble, batch statistics": Case(chain("resnet50-small", 2, pipeline=Pipeline.ZERO_BUBBLE), "resnet50-small"),
    "zero bubble, towers that do not meet": Case(towers, TOWERS),
    "recomputing": Case(recomputing("gpt-small"), "gpt-small"),
    "dropout, recomputing": Case(recomputing("rnnlm-small"), "rnnlm-small"),
    "dropout on 2": Case(chain("transformer-small", 2), "transformer-small"),
    "dropout in an LSTM": Case(scattered(SEVERAL, 2), SEVERAL),
    "dropout, replicas": Case(replicated("rnnlm-small", 2, "data-parallel"), "rnnlm-small"),
    "dropout, zero bubble": Case(chain("rnnlm-small", 2, pipeline=Pipeline.ZERO_BUBBLE), "rnnlm-small"),
    "batch statistics": Case(chain("resnet50-small", 2), "resnet50-small"),
    "branches on 2": Case(branches(2), "multimodal-small", measured=True),
    "branches on 4": Case(branches(4), "multimodal-small"),
    "branches on 3, float32": Case(branches(3), "multimodal-small", "float32"),
    "chain on 2, AdamW": Case(chain("gpt-small", 2), "gpt-small", optimizer="adamw"),
    "chain on 2, momentum": Case(chain("gpt-small", 2), "gpt-small", optimizer="momentum"),
    "sparse gradients on 3": Case(tables(3), "dlrm-small", optimizer="adam"),
    "scattered on 2": Case(scattered("gpt-small", 2), "gpt-small"),
    "scattered on 3": Case(scattered("gpt-small", 3), "gpt-small"),
    "scattered on 4, float32": Case(scattered("gpt-small", 4), "gpt-small", "float32"),
    "by operator on 2": Case(by_operator("rnnlm-small", 2, "m-etf"), "rnnlm-small"),
    "by operator on 2, a skip in a segment": Case(by_operator("rnnlm-small", 2, "m-topo"), "rnnlm-small"),
    "by operator on 3": Case(by_operator("gpt-small", 3, "heft"), "gpt-small", measured=True),
    "by operator on 4, float32": Case(by_operator("transformer-small", 4, "m-sct"), "transformer-small", "float32"),
    "replicas on 2": Case(replicated("gpt-small", 2, "data-parallel"), "gpt-small"),
    "replicas on 4": Case(replicated("gpt-small", 4, "pipedream"), "gpt-small"),
    "mixed micro-batches": Case(mixed, "gpt-small"),
    "wrong gradients": Case(chain("gpt-small", 2), "gpt-small", fault="gradients"),
    "wrong samples": Case(chain("gpt-small", 2), "gpt-small", fault="samples"),
    "wrong step": Case(branches(4), "multimodal-small", fault="step"),
    "other masks": Case(chain("rnnlm-small", 2), "rnnlm-small", fault="masks"),
    "lost gradients": Case(chain("gpt-small", 2, pipeline=Pipeline.ZERO_BUBBLE), "gpt-small", fault="lost"),
    **{
        f"random DAG {seed}": Case(random_dag(seed), f"tests.explorer.runner.random_models:dag{seed}", stages=seed < 6)
        for seed in range(20)
    },
    **{
        f"random DAG {seed}, gradients apart": Case(
            random_dag(seed, separate=True), f"tests.explorer.runner.random_models:dag{seed}"
        )
        for seed in range(6)
    },
}
"""What is run. Those with a fault planted in the engine show that the comparison finds it."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All cases, in one launch."""
    folder = tmp_path_factory.mktemp("ranks")
    cases = []
    for number, (name, case) in enumerate(CASES.items()):
        problem, plan = case.make()
        (folder / f"{number}.json").write_text(text(problem, plan, case.model))
        request = {
            "verify": True, "dtype": case.dtype, "optimizer": case.optimizer, "learning_rate": 0.05,
            "allow_model": ":" in case.model, "operators": case.measured, "steps": 3, "warmup": 0,
            "verify_by": "stages" if case.stages else None,
        }  # fmt: skip
        cases.append([name, len(plan.devices_used()), f"{number}.json", request, case.fault])
    (folder / "cases.json").write_text(json.dumps(cases))
    return launch(folder)


def launch(folder: Path) -> dict[str, Any]:
    """Runs the cases of a folder. A process that fails takes those that wait for it along."""
    return launched("tests.explorer.runner.engine.many", folder, str(PROCESSES))


RIGHT = [(n, way) for n, case in CASES.items() if not case.fault for way in ("whole", "stages")[: 1 + case.stages]]


@pytest.mark.parametrize(("name", "way"), RIGHT)
def test_equals_the_model_in_one_piece_and_stage_after_stage(name: str, way: str, results: dict[str, Any]) -> None:
    errors, exact = results[name] if way == "whole" else results[name]["stages"], EXACT[CASES[name].dtype]
    assert errors["way"] == way
    assert errors["dtype"] == CASES[name].dtype
    assert errors["compared"] > 0
    assert errors["loss"] <= exact
    assert errors["gradient"] <= exact, errors["worst"]
    assert errors["parameter"] <= exact


@pytest.mark.parametrize("way", ["whole", "stages"])
@pytest.mark.parametrize(
    ("name", "what"),
    [("wrong gradients", "gradient"), ("wrong samples", "loss"), ("wrong step", "parameter"),
     ("lost gradients", "gradient"), ("other masks", "loss")],
)  # fmt: skip
def test_a_fault_of_the_engine_is_detected(name: str, what: str, way: str, results: dict[str, Any]) -> None:
    errors = results[name] if way == "whole" else results[name]["stages"]
    assert errors[what] > 1e-4


@pytest.mark.parametrize("name", ["chain on 2", "chain on 4", "branches on 4", "scattered on 2", "by operator on 3"])
def test_no_parameter_is_held_twice(name: str, results: dict[str, Any]) -> None:
    held, whole = results[name]["bytes"], results[name]["whole_bytes"]
    assert sum(held) == whole
    assert max(held) < whole


MEASURED = [name for name, case in CASES.items() if case.measured]


@pytest.mark.parametrize("name", MEASURED)
def test_actions_of_a_rank_follow_one_another(name: str, results: dict[str, Any]) -> None:
    outcome = read_outcome(results[name]["outcome"])
    assert len(outcome.iterations_s) == 3
    for rank in range(len(outcome.rank_devices)):
        for iteration, length in enumerate(outcome.iterations_s):
            own = [a for a in outcome.actions if (a.rank, a.iteration) == (rank, iteration)]
            assert own
            end = 0.0
            for action in own:
                assert end <= action.start_s - action.wait_s + 1e-9
                assert action.start_s <= action.end_s
                end = action.end_s
            assert end <= length


@pytest.mark.parametrize("name", MEASURED)
def test_messages_arrive_after_they_were_sent(name: str, results: dict[str, Any]) -> None:
    outcome = read_outcome(results[name]["outcome"])
    assert outcome.messages
    assert all(message.sent_s <= message.arrived_s for message in outcome.messages)


@pytest.mark.parametrize("name", MEASURED)
def test_every_operator_is_timed_and_the_three_errors_add_up(name: str, results: dict[str, Any]) -> None:
    problem, plan = CASES[name].make()
    outcome = read_outcome(results[name]["outcome"])
    timed = {o.name for o in problem.graph.operators if o.phase is not Phase.UPDATE}
    assert outcome.operators_s.keys() == timed
    assert sum(outcome.operators_s.values()) > 0
    compared = compare_run(problem, plan, outcome)
    parts = compared.operators_error_s + compared.links_error_s + compared.schedule_error_s
    assert parts == pytest.approx(compared.measured_s - compared.predicted_s)
