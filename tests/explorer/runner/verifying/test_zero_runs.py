"""Plans whose replicas shard the optimizer's states (ZeRO-1), really run on up to four processes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from explorer.runner.bundles.result_json import read_outcome
from explorer.runner.scripts.executable import processes
from explorer.view.timeline.sent import sent_bytes
from solvers.evaluation.evaluate import evaluate
from solvers.plan.plan import Plan
from solvers.problem.problem import Optimizer, Pipeline, Problem
from tests.explorer.runner.engine.test_ranks import EXACT
from tests.explorer.runner.launching import launched
from tests.explorer.runner.plans import placed, problem_of, text

pytestmark = pytest.mark.timeout(600)

EXACT_TO = {"float64": 1e-10, "float32": EXACT["float32"]}
ITEM = {"float64": 2, "float32": 1}
"""How many times as many bytes a run has as was planned."""
STATES = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}
Made = tuple[Problem, Plan]


@dataclass(frozen=True)
class Case:
    model: str
    tensor: int
    stages: int
    optimizer: str = "adamw"
    dtype: str = "float64"
    fault: str = ""
    replicas: int = 2
    pipeline: Pipeline = Pipeline.ONE_F_ONE_B

    @property
    def reference(self) -> str:
        return f"{self.model},tensor-parallel={self.tensor}" if self.tensor > 1 else self.model

    def make(self) -> Made:
        """Halves of the model, each on as many replicas."""
        devices = self.tensor * self.stages * self.replicas
        problem = problem_of(
            self.reference, devices=devices, devices_per_node=devices, mini_batch=12, micro_batches=2,
            max_replicas=self.replicas, zero=1, optimizer=Optimizer(self.optimizer), pipeline=self.pipeline,
        )  # fmt: skip
        forward = sum(operator.forward_of is None for operator in problem.graph.operators)
        halves = [int(self.stages > 1 and 2 * k >= forward) for k in range(forward)]
        places = [tuple(half * self.replicas + r for r in range(self.replicas)) for half in halves]
        return problem, placed(problem, places, 2)


QUICK = {
    "replicas": Case("gpt-small", 1, 1),
    "not gathered": Case("gpt-small", 1, 1, fault="gathered"),
    "not summed": Case("gpt-small", 1, 1, fault="summed"),
}
FULL = {
    **{
        f"{model}, {name}": Case(model, *grid)
        for model in ("gpt-small", "moe-small")
        for name, grid in {"2 stages": (1, 2), "over 2": (2, 1)}.items()
    },
    **{f"{optimizer}": Case("gpt-small", 1, 2, optimizer) for optimizer in ("sgd", "momentum", "adam")},
    "float32": Case("llama-small", 2, 1, "adam", "float32"),
    "zero bubble": Case("gpt-small", 1, 2, pipeline=Pipeline.ZERO_BUBBLE),
    "sparse gradients": Case("dlrm-small", 1, 1, "sgd"),
    "dropout": Case("rnnlm-small", 1, 1),
    "three replicas": Case("gpt-small", 1, 1, replicas=3),
    "not gathered": Case("gpt-small", 2, 1, fault="gathered"),
    "not summed": Case("moe-small", 1, 2, fault="summed"),
}


def results_of(cases: dict[str, Case], made: dict[str, Made], folder: Path) -> dict[str, Any]:
    listed = []
    for number, (name, case) in enumerate(cases.items()):
        problem, plan = made[name]
        (folder / f"{number}.json").write_text(text(problem, plan, case.reference))
        request = {
            "verify": True, "dtype": case.dtype, "learning_rate": 0.01, "steps": 1, "warmup": 1,
            "optimizer": case.optimizer, "verify_by": None,
            "operators": not case.fault and case.tensor > 1 and case.dtype == "float64",
        }  # fmt: skip
        listed.append([name, processes(problem, plan), f"{number}.json", request, case.fault])
    (folder / "cases.json").write_text(json.dumps(listed))
    most = max(processes(*each) for each in made.values())
    return launched("tests.explorer.runner.engine.many", folder, str(most))


@dataclass(frozen=True)
class Runs:
    """Cases that ran, but for faults: name -> (case, its plan, what came of it). faulty: name -> what was found."""

    right: dict[str, tuple[Case, Made, dict[str, Any]]]
    faulty: dict[str, tuple[Case, dict[str, Any]]]


def run(cases: dict[str, Case], folder: Path) -> Runs:
    made = {name: case.make() for name, case in cases.items()}
    results = results_of(cases, made, folder)
    return Runs(
        {name: (case, made[name], results[name]) for name, case in cases.items() if not case.fault},
        {name: (case, results[name]) for name, case in cases.items() if case.fault},
    )


@pytest.fixture(scope="module", params=["quick", pytest.param("full", marks=pytest.mark.slow)])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return run(QUICK if request.param == "quick" else FULL, tmp_path_factory.mktemp("zero"))


@pytest.mark.slow
def test_equals_the_model_in_one_piece(runs: Runs) -> None:
    for name, (case, _, results) in runs.right.items():
        exact = EXACT_TO[case.dtype]
        print(name, results["loss"], results["gradient"], results["parameter"])
        assert results["compared"] > 0
        assert max(results["loss"], results["gradient"]) <= exact, (name, results)
        assert results["parameter"] <= (exact if case.dtype == "float64" else 1e-3), (name, results)


@pytest.mark.slow
def test_a_fault_is_detected(runs: Runs) -> None:
    for name, (case, results) in runs.faulty.items():
        assert results["parameter" if case.fault == "gathered" else "gradient"] > 1e-3, (name, results)


def test_what_is_sent_is_what_was_planned(runs: Runs) -> None:
    """By kind; parts of equal size may have a few entries more, fewer than there are replicas."""
    for name, (case, (problem, plan), results) in runs.right.items():
        planned = sent_bytes(problem, plan)
        for process, sent in enumerate(results["sent"]):
            device = plan.devices_used()[process // case.tensor]
            for kind, nbytes in sent.items():
                if kind == "point_to_point":
                    continue
                expected = ITEM[case.dtype] * planned[kind][device]
                more = 4 * ITEM[case.dtype] * (case.replicas - 1)
                assert expected - 1e-3 <= nbytes <= expected + more + 1e-3, (name, kind, nbytes, expected)
            assert sent["reduce_scatter"] > 0 < sent["all_gather"]


def test_a_replica_holds_its_share_of_the_states(runs: Runs) -> None:
    for name, (case, (problem, plan), results) in runs.right.items():
        operators = problem.graph.operators
        for process, nbytes in enumerate(results["states"]):
            device = plan.devices_used()[process // case.tensor]
            here = [o for stage in plan.stages if device in stage.devices for o in stage.operators]
            trained = sum(operators[o].trained_bytes for o in here if operators[o].forward_of is None)
            expected = ITEM[case.dtype] * STATES[case.optimizer] * trained / case.replicas
            entry = 4 * ITEM[case.dtype] * STATES[case.optimizer]
            assert abs(nbytes - expected) <= case.replicas * entry, (name, nbytes, expected)


def test_memory_is_near_what_was_planned(runs: Runs) -> None:
    for name, (case, (problem, plan), results) in runs.right.items():
        if "outcome" in results:
            measured = read_outcome(results["outcome"]).peak_bytes
            planned = evaluate(problem, plan).peak_memory_bytes
            for rank, device in enumerate(plan.devices_used()):
                ratio = measured[rank] / (ITEM[case.dtype] * planned[device])
                # What was sent is freed once it has arrived: later where processes wait for cores.
                assert 0.9 < ratio < 1.15, (name, ratio)
