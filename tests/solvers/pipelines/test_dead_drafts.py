"""Drafts that cannot run are worse than those that do not fit, and end no search."""

import math
import random
from types import SimpleNamespace

from solvers.coarsening.coarsen import Condensed
from solvers.pipelines.planners.draft_search import DraftSearch, EstimatedDraft
from solvers.pipelines.timing.estimate import Estimator
from solvers.plan.drafts import Draft, DraftStage
from solvers.search.monitor import Monitor
from tests.instances import problem, training_graph
from tests.solvers.pipelines.descending import improve

CHAIN = [(0, 1), (1, 2), (2, 3)]


def chain():
    return problem(training_graph(CHAIN, 4), [1] * 8, 3, mini_batch=4, micro_batches=4)


def waiting(condensed):
    """Two stages: the first keeps two micro-batches in flight, the second asks for four before a backward."""
    nodes = range(len(condensed.at(1, merge_trivial=False).shape.members))
    middle = len(nodes) // 2
    return Draft((DraftStage(tuple(nodes[:middle]), 1), DraftStage(tuple(nodes[middle:]), 1, slack=3)))


def test_the_search_does_not_leave_a_draft_over_its_memory_for_one_that_cannot_run():
    condensed = Condensed(chain(), ordered=True)
    start = waiting(condensed)

    def estimate(draft):
        stages = len(draft.stages)
        runs = stages == 2
        return SimpleNamespace(
            seconds=9.0 if runs else math.inf,
            over=5.0 if runs else 0.0,
            busy_s=[1.0] * stages,
            peak_bytes=[1.0] * stages,
        )

    improved = improve(condensed, start, estimate, lambda: None, random.Random(0), evaluations=60)
    assert len(improved.stages) == 2


def test_a_draft_that_deadlocks_is_not_judged_but_left_out():
    p = chain()
    search = DraftSearch(p, Monitor(p, 60.0))
    draft = waiting(search.condensed)
    shown = Estimator(search.condensed).estimate(draft)
    assert math.isinf(shown.seconds)
    search.offer(EstimatedDraft(draft, shown))
    assert search.monitor.best is None
    assert EstimatedDraft(draft, shown).key > (1e9, 1.0)
