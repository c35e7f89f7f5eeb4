"""What is asked to run again: stages, layers, operators, or what the model itself checkpoints."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest

import explorer
from explorer.cli.flags import add_phase, add_problem, settings_of
from explorer.costs.regions import Recompute
from explorer.costs.trained_in import regions_note
from explorer.question.problems import make_problem
from explorer.question.settings import MemoryModel, Settings
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.planners.check import check
from solvers.problem.graph import Amount, Operator, OpGraph, Tensor
from solvers.problem.problem import Objective
from tests.instances import training_graph

CHAIN = [(i, i + 1) for i in range(7)]
KINDS = ("aten.embedding", *["aten.linear", "aten.gelu"] * 3, "aten.linear")


def layered(*, numbered: bool = True) -> Workload:
    """An embedding, three layers of a product and an activation each, and a head."""
    graph = training_graph(CHAIN, 8, nbytes=4e6)
    inside = [numbered and 0 < i % 8 < 7 for i in range(16)]
    operators = [
        replace(
            o,
            op_type=KINDS[i % 8],
            saved_bytes=Amount(0, 16e6 if 0 < i < 7 else 0.0),
            flops=Amount(0, 1e9),
            moved_bytes=Amount(0, 1e6),
            module_path=f"layers.{(i % 8 - 1) // 2}" if inside[i] else "ends",
        )
        for i, o in enumerate(graph.operators)
    ]
    return Workload(replace(graph, operators=tuple(operators)), "demo")


def checkpointed() -> Workload:
    """Whose trace says that the first layer checkpoints itself."""
    workload = layered()
    operators = tuple(
        replace(o, checkpoint="checkpoint 0" if i in (1, 2) else "") for i, o in enumerate(workload.graph.operators)
    )
    return replace(workload, graph=replace(workload.graph, operators=operators))


def regions(workload: Workload, **options: object) -> list[str]:
    """Of the forward operators, what of them runs again and what is cached (*)."""
    problem = make_problem(workload, Settings(**options))  # type: ignore[arg-type]
    if problem.plain is None:
        return []
    return [o.checkpoint + "*" * o.cached for o in problem.plain.graph.operators[:8]]


LAYERS = ["", "layers.0", "layers.0", "layers.1", "layers.1", "layers.2", "layers.2", ""]


def test_layers_are_the_equal_numbered_members_of_a_module() -> None:
    assert regions(layered(), recompute=Recompute.LAYERS) == LAYERS
    assert regions(checkpointed(), recompute=Recompute.LAYERS) == LAYERS
    assert regions(layered(), recompute=Recompute.LAYERS, pins={"layers.1": 0}) == LAYERS


def test_of_operators_products_are_cached() -> None:
    wanted = [name + "*" * (i in (1, 3, 5)) for i, name in enumerate(LAYERS)]
    assert regions(layered(), recompute=Recompute.OPERATORS) == wanted


def test_a_models_own_regions_are_honoured_unless_stages_run_again_or_nothing_does() -> None:
    own = ["", "checkpoint 0", "checkpoint 0", *[""] * 5]
    assert regions(checkpointed()) == own
    assert regions(layered()) == []
    assert regions(checkpointed(), recompute=True) == []
    assert regions(checkpointed(), recompute=Recompute.NONE) == []
    assert regions(checkpointed(), objective=Objective.MAKESPAN) == []
    assert regions(checkpointed(), memory_model=MemoryModel.STATIC) == []
    assert regions(replace(checkpointed(), stated_bytes=(1.0,) * 16)) == []


@pytest.mark.parametrize("how", [Recompute.LAYERS, Recompute.OPERATORS])
def test_what_regions_would_not_change_is_refused_in_one_line(how: Recompute) -> None:
    stated = replace(layered(), stated_bytes=(1.0,) * 16)
    forward = Workload(OpGraph((Operator("a"), Operator("b")), (Tensor(0, (1,)),)), "demo", training=False)
    for workload, settings, message in (
        (layered(numbered=False), Settings(), "no layers that repeat"),
        (layered(), Settings(objective=Objective.MAKESPAN), "one unsplit pass"),
        (layered(), Settings(memory_model=MemoryModel.STATIC), "--memory-model static"),
        (stated, Settings(), "states sizes as a whole"),
        (forward, Settings(), "in inference"),
    ):
        with pytest.raises(InvalidProblem, match=f"--recompute {how.value}.*{message}") as caught:
            make_problem(workload, replace(settings, recompute=how))
        assert "\n" not in str(caught.value)


def test_the_words_that_are_allowed() -> None:
    given = {None: "model", False: "model", True: "stage", **{word: word for word in Recompute}}
    assert {question: Settings(recompute=question).recompute.value for question in given} == given
    with pytest.raises(InvalidProblem, match="recompute 'blocks'; there are: model, stage, none"):
        Settings(recompute="blocks")


def test_what_runs_again_is_stated() -> None:
    notes = [regions_note(make_problem(layered(), Settings(recompute=how))) for how in Recompute]
    assert notes == [
        None,
        None,
        None,
        "3 regions run their forward again before the backward: what comes in is kept for each micro-batch",
        "3 regions run their forward again before the backward: what comes in, and what 3 of their 6 operators make,"
        " is kept for each micro-batch",
        None,
    ]


@pytest.mark.parametrize("planner", ["auto", "graph-pipeline", "gpipe", "repeated-blocks"])
def test_planners_find_plans_with_layers_that_fit_where_none_fits_without(planner: str) -> None:
    """All 8 micro-batches of one sample are in flight on two devices. Operators of layers save 6 x 16 MB of each: one
    device has half of that at least, 384 MB. With layers that run again less than 8 x 20 MB are kept on both."""
    settings = {"devices": 2, "device_kind": "H100-80GB", "mini_batch": 8, "micro_batches": 8, "pipeline": "gpipe"}
    settings |= {"planner": planner, "effort": "quick", "memory": 300e6}
    workload = replace(layered(), reference="demo")
    without = explorer.plan(workload, **settings)  # type: ignore[arg-type]
    result = explorer.plan(workload, recompute="layers", **settings)  # type: ignore[arg-type]
    assert without.plan is None
    assert result.plan is not None
    assert not check(result.problem, result.plan)


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ([], Recompute.MODEL),
        (["--recompute"], Recompute.STAGE),
        *((["--recompute", how.value], how) for how in Recompute),
    ],
)
def test_the_flag_may_stand_without_a_word(words: list[str], question: Recompute) -> None:
    parser = argparse.ArgumentParser()
    add_phase(parser)
    add_problem(parser)
    settings = settings_of(parser.parse_args(words))
    assert settings.recompute is question
