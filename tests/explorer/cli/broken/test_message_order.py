"""A plan that states the order of messages: `check` and `simulate` say so, and a spoiled one is refused in one line."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.jobs.held_plans import text_of, unpacked_text
from solvers.formats.plan_json import PlanFile, read_plan, write_plan
from solvers.planners.carry import carried_over
from tests.explorer.cli.command import Command
from tests.oracle.message_orders import served
from tests.solvers.evaluation.test_message_order import there_and_back, three_transfers

Messages = dict[str, list[str]]


@pytest.fixture
def stated() -> dict[str, Any]:
    """A parsed plan.json with three messages on one link."""
    problem, plan = three_transfers()
    value: dict[str, Any] = json.loads(write_plan(problem, replace(plan, messages=served(problem, plan))))
    assert value["plan"]["messages"] == {"0->1": ["0F0>1", "1F0>1", "2F0>1"]}
    return value


def drop(messages: Messages) -> None:
    del messages["0->1"][1]


def repeat(messages: Messages) -> None:
    messages["0->1"].append("0F0>1")


def not_crossing(messages: Messages) -> None:
    messages["0->1"][2] = "3F0>0"


def another_link(messages: Messages) -> None:
    messages["7->9"] = messages.pop("0->1")


def no_message(messages: Messages) -> None:
    messages["0->1"][0] = "0F0>\n"


def huge(messages: Messages) -> None:
    messages["0->1"][0] = "0F" + "9" * 40 + ">1"


@pytest.mark.parametrize("spoil", [drop, repeat, not_crossing, another_link, no_message, huge])
def test_a_spoiled_order_is_refused_in_one_line(
    command: Command, tmp_path: Path, stated: dict[str, Any], spoil: Callable[[Messages], None]
) -> None:
    value = copy.deepcopy(stated)
    spoil(value["plan"]["messages"])
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(value))
    for verb in ("check", "simulate", "run"):
        message = command.refused(verb, path)
        assert message.startswith(f"{path}: plan.messages['")
        assert len(message) < len(str(path)) + 300


def test_an_order_that_deadlocks_is_refused_in_one_line(command: Command, tmp_path: Path) -> None:
    problem, plan = there_and_back()
    ((link, row), *others) = served(problem, plan)
    path = tmp_path / "plan.json"
    path.write_text(write_plan(problem, replace(plan, messages=((link, row[::-1]), *others))))
    for verb in ("simulate", "run"):
        assert "the order deadlocks: device 0 at 2F0" in command.refused(verb, path)
    ran = command("check", path)
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "link 0->1 at 2F0>1 (waits for 2F0)" in ran.err


def test_check_and_simulate_say_that_an_order_is_stated(
    command: Command, tmp_path: Path, stated: dict[str, Any]
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(stated))
    for verb in ("check", "simulate"):
        assert "the plan states the order of 3 messages on 1 link\n" in command(verb, path).out
        assert command(verb, path, "--json").json["messages"] == {"0->1": ["0F0>1", "1F0>1", "2F0>1"]}
    plain = stated | {"version": 1}
    del plain["plan"]["messages"]
    path.write_text(json.dumps(plain))
    for verb in ("check", "simulate"):
        assert "states the order" not in command(verb, path).out
        assert command(verb, path, "--json").json["messages"] == {}
    file = read_plan(path.read_bytes())
    assert json.loads(write_plan(file.problem, file.plan)) == plain


def test_an_order_is_kept_where_plans_travel_and_left_where_links_are_others() -> None:
    problem, plan = three_transfers()
    plan = replace(plan, messages=served(problem, plan))
    file = PlanFile(problem, plan, None, "nowhere")
    assert read_plan(unpacked_text(text_of(file))).plan == plan
    assert carried_over(problem, plan) == plan
    wire = tuple(replace(link, resource="wire") for link in problem.cluster.links)
    other = replace(problem, cluster=replace(problem.cluster, links=wire))
    assert carried_over(other, plan) == replace(plan, messages=())
