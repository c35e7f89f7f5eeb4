"""However the order of a plan file is spoiled: `check`, `simulate` and `run` say it in one line, with status 2."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from solvers.errors import InvalidPlan
from solvers.formats.plan_json import read_plan, write_plan
from solvers.planners.solve import solve
from solvers.problem.problem import Pipeline
from tests.explorer.cli.command import Command
from tests.instances import problem, training_graph

Rows = list[list[str]]


@pytest.fixture(scope="module")
def plans() -> dict[str, dict[str, Any]]:
    """A pipeline of two stages with four micro-batches, and two replicas of everything: parsed plan.json."""
    graph = training_graph([(0, 1), (1, 2), (2, 3)], 4)
    chain = problem(graph, [1.0] * 8, mini_batch=8, micro_batches=4, pipeline=Pipeline.ONE_F_ONE_B)
    twice = problem(training_graph([(0, 1)], 2), [1.0] * 4, mini_batch=8, micro_batches=4, max_replicas=2)
    made = {}
    for name, case, planner in (("pipeline", chain, "equal"), ("replicas", twice, "data-parallel")):
        result = solve(case, planner)
        assert result.plan is not None
        assert len(result.plan.devices_used()) == 2
        made[name] = json.loads(write_plan(case, result.plan, result, "nowhere"))
    return made


def swap(rows: Rows) -> None:
    rows[0], rows[1] = rows[1], rows[0]


def drop(rows: Rows) -> None:
    del rows[1][2]


def drop_a_kind(rows: Rows) -> None:
    rows[0][:] = [action for action in rows[0] if "F" in action]


def repeat(rows: Rows) -> None:
    rows[0].insert(3, rows[0][0])


def another_stage(rows: Rows) -> None:
    rows[0][0] = "9" + rows[0][0][1:]


def another_kind(rows: Rows) -> None:
    rows[0][0] = rows[0][0].replace("F", "W")


def an_update(rows: Rows) -> None:
    rows[0][0] = "0U"


def both_ways_back(rows: Rows) -> None:
    rows[0] += [action.replace("B", "I") for action in rows[0] if "B" in action]


def a_huge_micro_batch(rows: Rows) -> None:
    rows[0][0] = "0F" + "9" * 55


def one_too_many(rows: Rows) -> None:
    rows[0].append("0F4")


def row_missing(rows: Rows) -> None:
    del rows[1]


def row_empty(rows: Rows) -> None:
    rows[1].clear()


def row_extra(rows: Rows) -> None:
    rows.append(list(rows[0]))


def no_action(rows: Rows) -> None:
    rows[0][0] = "F00\n0"


SWAPPED_ALIKE = ("replicas", swap)
"""Replicas do the same: their rows are equal, so swapping them spoils nothing."""
SPOILS = (
    swap, drop, drop_a_kind, repeat, another_stage, another_kind, an_update, both_ways_back, a_huge_micro_batch,
    one_too_many, row_missing, row_empty, row_extra, no_action,
)  # fmt: skip
CASES = [(name, spoil) for name in ("pipeline", "replicas") for spoil in SPOILS if (name, spoil) != SWAPPED_ALIKE]


@pytest.mark.parametrize(("name", "spoil"), CASES, ids=[f"{name}-{spoil.__name__}" for name, spoil in CASES])
def test_a_spoiled_order_is_refused_in_one_line(
    command: Command, tmp_path: Path, plans: dict[str, dict[str, Any]], name: str, spoil: Callable[[Rows], None]
) -> None:
    value = copy.deepcopy(plans[name])
    spoil(value["plan"]["order"])
    with pytest.raises((InvalidPlan, ValueError)):
        read_plan(copy.deepcopy(value))
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(value))
    for verb in ("check", "simulate", "run"):
        message = command.refused(verb, path)
        assert message.startswith(f"{path}: plan.")
        assert "order" in message
        assert len(message) < len(str(path)) + 300


def test_the_plans_are_valid_as_they_are(command: Command, tmp_path: Path, plans: dict[str, dict[str, Any]]) -> None:
    for value in plans.values():
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(value))
        assert command("check", path).status == 0
