"""Plans for a second judgement: the fastest few of every form."""

from __future__ import annotations

from solvers.schedules.assemble import assemble
from solvers.search.finalists import MOST, OF_A_FORM, Finalists
from tests.instances import problem, training_graph


def test_of_every_form_the_fastest_few_are_kept() -> None:
    graph = training_graph([(0, 1)], 2)
    p = problem(graph, [1.0] * len(graph), 2, mini_batch=8, micro_batches=None)
    placement = [(min(o % 2, 1),) for o in range(len(graph))]
    finalists = Finalists()
    plans = {count: [assemble(p, placement, count) for _ in range(5)] for count in (1, 2, 4)}
    for count, alike in plans.items():
        for number, plan in enumerate(alike):
            finalists.add(plan, 10.0 + count - number, 1.0)
    selected = finalists.plans()
    assert len(selected) == 3 * OF_A_FORM <= MOST
    assert [one.objective_s for one in selected] == [7.0, 8.0, 10.0, 8.0, 9.0, 11.0, 9.0, 10.0, 12.0]
    finalists.add(plans[4][0], 3.0, 1.0)  # more than twice as slow as this one are all those above 6
    assert [one.objective_s for one in finalists.plans()] == [3.0]
