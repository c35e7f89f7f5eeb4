"""Plans that are really run, many in one launch: compared with the whole model, or trained under grids that change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from explorer.runner.scripts.executable import not_run, processes
from explorer.view.timeline.sent import within_groups
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem
from tests.explorer.runner.launching import launched
from tests.explorer.runner.plans import text
from tests.explorer.runner.training.divided_trainings import STEPS

Made = tuple[str, Problem, Plan]
"""The name of a model, and a plan of it."""
Changes = Iterable[tuple[str, str]]
"""Names of two grids: a training begins under one and goes on under the other."""


class Case(Protocol):
    """wanted: the type of the run, None for the model's own. fault: one of `many.FAULTS` ("": none)."""

    @property
    def wanted(self) -> str | None: ...

    @property
    def fault(self) -> str: ...


def compared(folder: Path, made: Mapping[str, Made], cases: Mapping[str, Any]) -> dict[str, Any]:
    """By name, how far a run is from the whole model in three steps, and what it exchanged in one (`many`). cases: a
    `Case` of each plan."""
    listed = []
    for number, (name, (reference, problem, plan)) in enumerate(made.items()):
        assert not list(not_run(problem, plan, "sgd"))
        (folder / f"{number}.json").write_text(text(problem, plan, reference))
        case: Case = cases[name]
        request = {
            "verify": True, "dtype": case.wanted, "learning_rate": 0.05, "allow_model": True, "steps": 3, "warmup": 0,
            "optimizer": "sgd", "operators": False, "verify_by": None,
        }  # fmt: skip
        listed.append([name, processes(problem, plan), f"{number}.json", request, case.fault])
    (folder / "cases.json").write_text(json.dumps(listed))
    return launched("tests.explorer.runner.engine.many", folder, "8")


def trained(folder: Path, model: str, made: Mapping[str, Made], changes: Changes) -> dict[str, Any]:
    """By grid and change, the curve and weights of a training (`divided_trainings`). made: of each grid its plan."""
    count, half, cases = {}, STEPS // 2, []
    for name, (reference, problem, plan) in made.items():
        (folder / f"{name}.json").write_text(text(problem, plan, reference))
        count[name] = processes(problem, plan)
        cases.append([name, model, f"{name}.json", count[name], STEPS, "", ""])
    for first, second in changes:
        saved = f"{first} to {second} kept"
        for name, then, resume, save in ((first, "", "", saved), (second, ", then", saved, "")):
            cases.append([f"{first} to {second}{then}", model, f"{name}.json", count[name], half, resume, save])
    (folder / "cases.json").write_text(json.dumps(cases))
    return launched("tests.explorer.runner.training.divided_trainings", folder)


def planned_by_rank(made: Made, ranks: int, times: float, axis: int | None = None) -> list[dict[str, float]]:
    """Of every process, by kind, the bytes that its plan has it exchange within its group. times: those of an entry of
    the run over those of the plan. axis: along one of two, the outer first."""
    _, problem, plan = made
    planned, devices = within_groups(problem, plan, axis), plan.devices_used()
    each = (devices[rank // problem.graph.tensor_parallel] for rank in range(ranks))
    return [{kind: times * nbytes[at] for kind, nbytes in planned.items() if nbytes[at]} for at in each]
