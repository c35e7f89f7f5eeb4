"""The comparison with brute force finds nothing false in a few problems, and notices what is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from solvers.formats.plan_json import read_plan
from solvers.plan.result import Result, Status
from solvers.planners.solve import solve
from solvers.problem.problem import Objective, Problem
from tests.fuzz import against_brute_force
from tests.fuzz.against_brute_force import FORCE, false_claim, made, main
from tests.instances import forward_graph, problem


def side_by_side() -> Problem:
    """Two operators of 1 s that have nothing to do with each other, on two devices: 1 s, or 2 s on one."""
    return problem(forward_graph([], 2), [1, 1], 2, training=False, mini_batch=1, objective=Objective.MAKESPAN)


def optimal(question: Problem) -> Result:
    result = solve(question, "single")
    return replace(result, status=Status.OPTIMAL, bound_s=result.objective_s)


def infeasible(question: Problem) -> Result:
    return replace(solve(question, "single"), plan=None, status=Status.INFEASIBLE, objective_s=float("inf"), front=())


def broken(question: Problem) -> Result:
    raise ZeroDivisionError


@pytest.mark.parametrize("seed", range(1, 5))
def test_no_claim_is_false(seed: int) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    assert false_claim(made(seed), seed, seen) is None
    assert any(name == FORCE for name, _ in seen)


@pytest.mark.parametrize(
    ("message", "words"),
    [(optimal, "2.0 s"), (infeasible, "called infeasible, and brute-force has"), (broken, "raised")],
)
def test_a_false_claim_is_noticed(message: Callable[[Problem], Result], words: str) -> None:
    def answer(question: Problem, name: str, **_: object) -> Result:
        return solve(question, FORCE) if name == FORCE else message(question)

    claim = false_claim(side_by_side(), 0, Counter(), answer)
    assert claim is not None
    assert words in claim.words


def test_what_shows_a_false_claim_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    question = side_by_side()
    plan = solve(question, "single").plan
    claim = against_brute_force.Claim("beaten", plan)
    monkeypatch.setattr(against_brute_force, "made", lambda seed: question)
    monkeypatch.setattr(against_brute_force, "false_claim", lambda *_: claim)
    assert main(["--seed", "7", "-o", str(tmp_path / "found")]) == 1
    assert "seed 7: beaten" in capsys.readouterr().out
    assert read_plan((tmp_path / "found" / "plan.json").read_bytes()).plan == plan
    assert "seed 7\nbeaten" in (tmp_path / "found" / "claim.txt").read_text()
