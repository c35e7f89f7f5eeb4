"""`verify` notices: a simulation with a single fault is refused, and one without is not."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from solvers.evaluation.evaluate import judge
from solvers.evaluation.simulation import simulate
from solvers.problem.problem import Pipeline, Transfers
from solvers.verify import verify
from tests.solvers.verify.faults import FAULTS, OF_REGIONS, differs
from tests.solvers.verify.valid_plans import SORTS, Case, valid_cases

SEEDS = 20
AT_A_TIME = 8
"""Faults planted in one plan of the default suite; the benchmark plants all of them in more plans."""
LEAST = 0.99


@dataclass
class Score:
    """Plans that a fault changes, and those of them that are refused, by fault."""

    changed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    unnoticed: list[str] = field(default_factory=list)

    def share(self) -> float:
        return self.refused.total() / self.changed.total()


def plant(score: Score, number: int, case: Case, names: list[str]) -> None:
    true = simulate(case.problem, case.plan)
    for name in names:
        shown = (FAULTS | OF_REGIONS)[name](case, true, random.Random(f"{number} {name}"))
        if shown is None or not differs(true, shown):
            continue
        score.changed[name] += 1
        if verify(case.problem, case.plan, shown):
            score.refused[name] += 1
        else:
            score.unnoticed.append(f"{name}: {case.sort}, {case.problem.transfers}, plan {number}")


@pytest.mark.first(3)
@pytest.mark.parametrize("transfers", list(Transfers))
@pytest.mark.parametrize("sort", SORTS)
def test_a_schedule_with_a_single_fault_is_refused(sort, transfers):
    score, names = Score(), list(FAULTS)
    for number, case in enumerate(valid_cases(sort, transfers, SEEDS)):
        chosen = [names[(number * AT_A_TIME + i) % len(names)] for i in range(AT_A_TIME)]
        plant(score, number, case, chosen)
    assert score.changed.total() > 50
    assert len(score.changed) > 15
    assert score.share() >= LEAST, score.unnoticed


def test_a_fault_in_what_runs_again_by_region_is_refused():
    score = Score()
    for transfers in Transfers:
        for number, case in enumerate(valid_cases("pipeline", transfers, SEEDS)):
            plant(score, number, case, list(OF_REGIONS))
    assert score.share() == 1.0, score.unnoticed
    assert set(score.changed) == set(OF_REGIONS)


@pytest.mark.parametrize("transfers", list(Transfers))
def test_a_plan_of_another_question_is_refused_though_its_schedule_is_true_of_it(transfers):
    """One that asks for another number of micro-batches, or for whole backwards where a plan has parts of them."""
    refused = Counter()
    for case in valid_cases("pipeline", transfers, 4 * SEEDS):
        true, counts = simulate(case.problem, case.plan), numbers(case)
        for count in {1, 2, 4} - counts:
            before = replace(case.problem, micro_batches=count, mixed_micro_batches=len(counts) > 1, max_replicas=3)
            if not any(part * other == count for part in (1, 2, 3) for other in counts):
                assert verify(before, case.plan, true)
                assert not judge(before, case.plan).feasible
                refused["count"] += 1
        if any(action.kind in "IW" for row in case.plan.order for action in row):
            before = replace(case.problem, pipeline=Pipeline.GPIPE)
            assert verify(before, case.plan, true)
            assert not judge(before, case.plan).feasible
            refused["parts"] += 1
    assert refused["count"] > 10
    assert refused["parts"] > 0


def numbers(case: Case) -> set[int]:
    """Of micro-batches that a stage has."""
    return {case.problem.mini_batch // stage.micro_batch_size for stage in case.plan.stages}


@pytest.mark.parametrize("transfers", list(Transfers))
@pytest.mark.parametrize("sort", SORTS)
def test_a_schedule_without_a_fault_is_accepted(sort, transfers):
    for case in valid_cases(sort, transfers, SEEDS):
        assert verify(case.problem, case.plan, simulate(case.problem, case.plan)) == ()


def test_the_faults_are_of_many_kinds():
    assert len(FAULTS) >= 40
