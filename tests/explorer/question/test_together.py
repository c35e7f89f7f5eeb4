"""Operators and modules that a person keeps on one device, whichever it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.question.together import kept_together, parse_together
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph
from tests.explorer.question.test_problems import GRAPH, TRACED
from tests.explorer.view.small import chain_workload


def groups(graph: OpGraph) -> list[set[str]]:
    """The names of operators by co-location group, in the order of the first."""
    found: dict[str, set[str]] = {}
    for operator in graph.operators:
        if operator.colocation is not None:
            found.setdefault(operator.colocation, set()).add(operator.name)
    return list(found.values())


def test_an_operator_and_a_module_are_one_group() -> None:
    assert groups(kept_together(GRAPH, [("embed", "blocks.1.mlp")])) == [{"embed", "up", "down"}]


def test_a_forward_operator_brings_its_backward() -> None:
    assert groups(kept_together(GRAPH, [("embed", "head")])) == [{"embed", "head", "head'"}]


def test_groups_that_share_an_operator_are_one() -> None:
    assert groups(kept_together(GRAPH, [("embed", "up"), ("down", "head"), ("up", "down")])) == [
        {"embed", "up", "down", "head", "head'"}
    ]


def test_a_group_of_the_graph_comes_along_and_keeps_the_rest() -> None:
    tied = tuple(replace(o, colocation="table") if o.name in ("up", "head", "head'") else o for o in GRAPH.operators)
    told = kept_together(replace(GRAPH, operators=tied), [("embed", "head")])
    assert groups(told) == [{"embed", "up", "head", "head'"}]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((("embed", "hed"),), "together embed,hed: there is no operator or module 'hed'; did you mean 'head'"),
        ((("embed",),), "together embed: expected at least two names"),
        ((("embed", "embed"),), "expected at least two names"),
    ],
)
def test_what_names_nothing_is_refused(asked: tuple[tuple[str, ...], ...], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        make_problem(TRACED, Settings(together=asked))


def test_pins_that_tear_a_group_apart_are_refused() -> None:
    with pytest.raises(InvalidProblem, match="must share one"):
        make_problem(TRACED, Settings(together=(("embed", "head"),), pins={"embed": 0, "head": 1}))


@pytest.mark.parametrize("text", ["a", "a,a", "a,,b", ""])
def test_fewer_than_two_names_are_no_group(text: str) -> None:
    with pytest.raises(InvalidProblem, match="two names or more"):
        parse_together(text)


def test_names_are_read_from_text() -> None:
    assert parse_together("encoder.0, decoder.0") == ("encoder.0", "decoder.0")


def test_a_plan_obeys_it_and_is_no_better_than_without() -> None:
    workload = chain_workload()
    names = [operator.name for operator in workload.graph.operators if operator.forward_of is None]
    free = explorer.plan(workload, devices=2, objective="max-load", planner="downset-dp")
    kept = explorer.plan(
        workload, devices=2, objective="max-load", planner="downset-dp", together=[(names[0], names[-1])]
    )
    index = kept.problem.graph.index_of()
    on = kept.plan.placement()
    assert on[index[names[0]]] == on[index[names[-1]]]
    assert kept.objective_s >= free.objective_s
