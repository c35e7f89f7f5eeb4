"""Where a plan states the order of messages, the script of every rank posts them in that order."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from explorer.runner.scripts.checks import Level, check
from explorer.runner.scripts.lowering import make_script
from explorer.runner.scripts.replay import replay
from explorer.runner.scripts.script import Do, Script
from solvers.errors import InvalidPlan
from solvers.evaluation.simulation import simulate
from solvers.joint.planners.joint import Joint
from solvers.plan.plan import Plan
from solvers.planners.solve import solve
from solvers.problem.problem import Execution, Objective, Transfers
from tests.explorer.runner.scripts.random_plans import random_plan
from tests.oracle.message_orders import served, shuffled
from tests.solvers.evaluation.test_message_order import three_transfers

Row = list[tuple[str, int]]


def posted(script: Script, plan: Plan) -> dict[str, Row]:
    """Per link the actions, and receivers, of what its sender posts, in order; of scripts whose segments are stages."""
    whole = {action.stage for row in plan.order for action in row if action.kind == "B"}
    links: dict[str, Row] = defaultdict(list)
    for device, steps in zip(script.devices, script.steps, strict=True):
        for step in steps:
            if step.do not in (Do.SEND, Do.SEND_GRADIENT):
                continue
            channel = script.channels[step.index]
            piece, back = channel.pieces[step.number], step.do is Do.SEND_GRADIENT
            to_device = channel.src_device if back else channel.dst_device
            stage = max(script.segments[s].stages[0] for s in (channel.senders if back else (channel.source,)))
            kind = ("B" if stage in whole else "I") if back else "F"
            links[f"{device}->{to_device}"].append(
                (f"{stage}{kind}{piece.read_in if back else piece.sent_in}", to_device)
            )
    return links


def stated(plan: Plan) -> dict[str, Row]:
    return {link: [(str(message.action), message.to_device) for message in row] for link, row in plan.messages}


def test_scripts_post_messages_in_the_stated_order_and_never_deadlock() -> None:
    shown: Counter[str] = Counter()
    for seed in range(320):
        drawn = random_plan(seed)
        if drawn is None or drawn[0].transfers is not Transfers.LINKS:
            continue
        problem, plan, _ = drawn
        stated_plan = replace(plan, messages=shuffled(random.Random(seed), served(problem, plan)))
        if not stated_plan.messages:
            continue
        try:
            simulate(problem, stated_plan)
        except InvalidPlan:
            shown["deadlocks"] += 1
            with pytest.raises(InvalidPlan, match="the order deadlocks"):
                make_script(problem, stated_plan)
            continue
        script = make_script(problem, stated_plan)
        replay(script)
        if len(script.segments) < len(plan.stages) or problem.objective is Objective.MAKESPAN:
            shown["joined"] += 1
            continue
        by_link, expected = posted(script, stated_plan), stated(stated_plan)
        same = all(Counter(by_link[link]) == Counter(row) for link, row in expected.items())
        shown["same messages" if same else "bundled otherwise"] += 1
        if same:
            shown["ordered otherwise by itself"] += any(
                posted(make_script(problem, plan), plan)[link] != row for link, row in expected.items()
            )
            assert {link: by_link[link] for link in expected} == expected, seed
    assert shown["same messages"] >= 20, shown
    assert shown["ordered otherwise by itself"] >= 5, shown
    assert shown["deadlocks"] >= 2, shown
    assert shown["joined"] >= 5, shown


@pytest.mark.slow
def test_a_plan_of_single_operators_runs_as_its_planner_decided() -> None:
    ran = 0
    for seed in range(60):
        drawn = random_plan(seed)
        if drawn is None or drawn[0].objective is not Objective.MAKESPAN or ran == 5:
            continue
        problem = replace(drawn[0], transfers=Transfers.LINKS, execution=Execution.OPERATOR)
        result = solve(problem, Joint(evaluations=200), start=replace(drawn[1], messages=()))
        if result.plan is not None and result.plan.messages:
            replay(make_script(problem, result.plan))
            ran += 1
    assert ran == 5


def test_an_order_that_is_not_whole_is_refused_before_a_launch() -> None:
    problem, plan = three_transfers()
    messages = served(problem, plan)
    broken = replace(plan, messages=((messages[0][0], messages[0][1][1:]),))
    with pytest.raises(InvalidPlan, match="0F0>1 is missing"):
        make_script(problem, broken)
    errors = [finding.message for finding in check(problem, broken) if finding.level is Level.ERROR]
    assert len(errors) == 1
    assert "0F0>1 is missing" in errors[0]
