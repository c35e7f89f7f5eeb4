"""Which single faults of a simulation `verify` notices, of the plans that they change."""

from __future__ import annotations

import pytest

from solvers.problem.problem import Transfers
from tests.benchmarks.table import show
from tests.solvers.verify.faults import FAULTS
from tests.solvers.verify.test_mutations import LEAST, Score, plant
from tests.solvers.verify.valid_plans import SORTS, valid_cases

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]
SEEDS = 60


def test_every_fault_in_every_plan():
    scores = {(sort, transfers): Score() for sort in SORTS for transfers in Transfers}
    for (sort, transfers), score in scores.items():
        for number, case in enumerate(valid_cases(sort, transfers, SEEDS)):
            plant(score, number, case, list(FAULTS))
    rows = []
    for name in FAULTS:
        cells = [_cell([scores[sort, t] for sort in SORTS], name) for t in Transfers]
        rows.append((name, *cells, _cell(list(scores.values()), name)))
    for sort in SORTS:
        cells = [f"{scores[sort, t].refused.total()}/{scores[sort, t].changed.total()}" for t in Transfers]
        of_sort = [scores[sort, t] for t in Transfers]
        total = f"{sum(s.refused.total() for s in of_sort)}/{sum(s.changed.total() for s in of_sort)}"
        rows.append((f"**all, {sort}**", *cells, total))
    show("Faults noticed, of the plans changed", ("fault", *Transfers, "all"), rows, "numpy")
    for score in scores.values():
        print(*score.unnoticed, sep="\n")
        assert score.share() >= LEAST, score.unnoticed


def _cell(scores: list[Score], name: str) -> str:
    changed = sum(score.changed[name] for score in scores)
    return f"{sum(score.refused[name] for score in scores)}/{changed}" if changed else "-"
