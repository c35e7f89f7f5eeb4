"""Operators and modules that a person keeps on one device, whichever it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.question.together import Unit, in_units, kept_together, parse_together
from solvers.errors import InvalidProblem
from solvers.problem.graph import Operator, OpGraph, Phase
from tests.explorer.question.test_problems import GRAPH, TRACED
from tests.explorer.tracing.models import shipped
from tests.explorer.view.small import chain_workload


def groups(graph: OpGraph) -> list[set[str]]:
    """The names of operators by co-location group, in the order of the first."""
    members: dict[str, set[str]] = {}
    for operator in graph.operators:
        if operator.colocation is not None:
            members.setdefault(operator.colocation, set()).add(operator.name)
    return list(members.values())


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
    shown = kept_together(replace(GRAPH, operators=tied), [("embed", "head")])
    assert groups(shown) == [{"embed", "up", "head", "head'"}]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ((("embed", "hed"),), "together embed,hed: there is no operator or module 'hed'; did you mean 'head'"),
        ((("embed",),), "together embed: expected at least two names"),
        ((("embed", "embed"),), "expected at least two names"),
    ],
)
def test_what_names_nothing_is_refused(question: tuple[tuple[str, ...], ...], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        make_problem(TRACED, Settings(together=question))


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
    joined = explorer.plan(
        workload, devices=2, objective="max-load", planner="downset-dp", together=[(names[0], names[-1])]
    )
    index = joined.problem.graph.index_of()
    on = joined.plan.placement()
    assert on[index[names[0]]] == on[index[names[-1]]]
    assert joined.objective_s >= free.objective_s


def units(model: str, unit: Unit) -> dict[str, set[str]]:
    """By the name of a group the module paths of its forward operators, of a demo."""
    graph = in_units(shipped(model).graph, unit, model)
    paths: dict[str, set[str]] = {}
    for operator in graph.operators:
        if operator.colocation is not None and operator.phase is Phase.FORWARD:
            paths.setdefault(operator.colocation, set()).add(operator.module_path)
    return paths


def test_whole_layers_are_one_group_each_and_what_is_in_none_is_free() -> None:
    together = [{".".join(path.split(".")[:2]) for path in paths} for paths in units("gpt-small", Unit.LAYERS).values()]
    assert together == [{f"blocks.{i}"} for i in range(4)]


def test_whole_modules_are_those_in_a_layer() -> None:
    together = [
        {".".join(path.split(".")[:3]) for path in paths} for paths in units("gpt-small", Unit.MODULES).values()
    ]
    assert together == [{f"blocks.{i}.{module}"} for i in range(4) for module in ("attn", "mlp")]


def test_layers_that_share_a_parameter_are_one_group() -> None:
    tied = [
        replace(o, colocation="tied") if o.name in ("blocks.0.attn.qkv/linear", "blocks.3.mlp.down/linear") else o
        for o in shipped("gpt-small").graph.operators
    ]
    graph = in_units(replace(shipped("gpt-small").graph, operators=tuple(tied)), Unit.LAYERS, "gpt-small")
    layers = [{name.split("/")[0].split(".")[1] for name in group} for group in groups(graph)]
    assert sorted(map(sorted, layers)) == [["0", "3"], ["1"], ["2"]]


def test_a_model_without_layers_is_refused_with_what_to_do() -> None:
    plain = OpGraph((Operator("a", module_path="left"), Operator("b", module_path="right")), ())
    with pytest.raises(InvalidProblem, match="bare has no layers of several operators; leave it out"):
        in_units(plain, Unit.LAYERS, "bare")


@pytest.mark.parametrize("model", ["gpt-small", "llama-small", "bert-small"])
def test_a_plan_of_whole_layers_is_taken_by_launchers_that_place_layers(model: str) -> None:
    result = explorer.plan(model, devices=2, whole="layers", effort="quick")
    plan = result.plan
    assert plan is not None
    assert len(plan.devices_used()) == 2
    for launcher in ("megatron", "vllm", "device-map", "deepspeed"):
        assert explorer.export(result, launcher)
