"""A plan is a line of stages, or it is refused with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.exports.layers.chain import chain_of, losses, numbers
from explorer.exports.layers.merged import merged
from solvers.errors import UnsupportedProblem
from solvers.evaluation.evaluate import evaluate
from solvers.formats.plan_json import PlanFile
from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Precision
from tests.explorer.exports.planned import planned

HALVES = ("blocks.2.norm1/layer_norm",)


def parted(plan: Plan, graph, first: str) -> Plan:
    """The same plan with stage 0 cut in two, which always run one right after the other."""
    begin = graph.index_of()[first]
    of = [i if (o := operator.forward_of) is None else o for i, operator in enumerate(graph.operators)]
    stage = plan.stages[0]
    early = replace(stage, operators=tuple(o for o in stage.operators if of[o] < begin))
    late = replace(stage, operators=tuple(o for o in stage.operators if of[o] >= begin))
    rows = []
    for row in plan.order:
        new = []
        for action in row:
            moved = replace(action, stage=action.stage + 1)
            own = [action, moved] if action.kind == "F" else [moved, action]
            new += own if action.stage == 0 else [moved]
        rows.append(tuple(new))
    return replace(plan, stages=(early, late, *plan.stages[1:]), order=tuple(rows))


def test_stages_are_numbered_along_the_line_and_ranks_as_it_comes_to_them() -> None:
    chain = chain_of(planned("gpt-small", HALVES, devices=(1, 0)))
    assert chain.devices == ((1,), (0,))
    assert chain.rank_of == (0, 1)
    names = [chain.graph.operators[min(stage.operators)].name for stage in chain.plan.stages]
    assert names == ["arange", "blocks.2.norm1/layer_norm"]
    assert chain.rows()[1] == ("1F0", "1B0", "1F1", "1B1", "1F2", "1B2", "1F3", "1B3")
    assert (chain.micro_batches, chain.micro_batch, chain.per_rank, chain.in_rounds) == (4, 16, 1, True)
    assert "order" in " ".join(losses(chain))


def test_stages_that_always_run_together_are_one() -> None:
    file = planned("gpt-small", HALVES)
    cut = parted(file.plan, file.problem.graph, "blocks.1.norm1/layer_norm")
    assert len(cut.stages) == 3
    again = merged(file.problem.graph, cut)
    assert [set(stage.operators) for stage in again.stages] == [set(stage.operators) for stage in file.plan.stages]
    assert again.order == file.plan.order
    assert evaluate(file.problem, again).iteration_s == pytest.approx(evaluate(file.problem, cut).iteration_s)


def test_stages_of_one_device_that_run_apart_stay_two() -> None:
    firsts = [f"blocks.{i}.norm1/layer_norm" for i in (1, 2, 3)]
    chain = chain_of(planned("gpt-small", firsts, devices=(0, 1, 0, 1), pipeline="interleaved"))
    assert chain.rank_of == (0, 1, 0, 1)
    assert (chain.per_rank, chain.in_rounds) == (2, True)


def test_a_dag_of_stages_is_refused_with_two_that_do_not_follow() -> None:
    file = planned("multimodal-small", ["branches.text.layers.0.query/linear", "branches.audio.layers.0.query/linear"])
    with pytest.raises(UnsupportedProblem, match=r"the stages are a DAG: .*branches\.vision.* gives nothing to .*text"):
        chain_of(file)


def changed(file: PlanFile, stage: int, **fields: object) -> PlanFile:
    stages = tuple(replace(s, **fields) if i == stage else s for i, s in enumerate(file.plan.stages))  # type: ignore[arg-type]
    return file._replace(plan=replace(file.plan, stages=stages))


def test_micro_batches_of_several_sizes_are_refused() -> None:
    with pytest.raises(UnsupportedProblem, match="micro-batches of 8, 16 samples"):
        chain_of(changed(planned("gpt-small", HALVES), 1, micro_batch_size=8))


def test_replicas_of_several_degrees_are_refused_and_of_one_are_reported() -> None:
    uneven = planned("gpt-small", HALVES, devices=((0, 1), 2), max_replicas=2)
    with pytest.raises(UnsupportedProblem, match="stages have 1, 2 replicas"):
        chain_of(uneven)
    even = chain_of(planned("gpt-small", HALVES, devices=((0, 1), (2, 3)), max_replicas=2))
    assert even.replicas == 2
    assert any(line.startswith("every stage has 2 replicas") for line in losses(even))


def test_recomputation_is_reported() -> None:
    chain = chain_of(changed(planned("gpt-small", HALVES), 0, recompute=True))
    assert chain.recomputing == (0,)
    (line,) = losses(chain, ("numbers", "order", "replicas"))
    assert line.startswith(
        "recomputation of stage 0, which the plan's memory counts on: switch it on in the launcher; "
    )


def test_more_stages_than_a_launcher_has_are_refused_at_once() -> None:
    file = planned("gpt-small", HALVES)
    with pytest.raises(UnsupportedProblem, match="the plan has 600 stages; launchers have a few a device"):
        chain_of(file._replace(plan=replace(file.plan, stages=file.plan.stages * 300)))


def test_what_memory_counts_on_is_reported() -> None:
    problem = planned("gpt-small", HALVES).problem
    assert numbers(problem) == ["float32, adam, which the plan's memory counts on: set the same"]
    mixed = replace(problem, precision=Precision.MIXED, zero=1)
    assert numbers(mixed, optimizer=False)[0].startswith("float32, mixed precision, ZeRO stage 1, which")
    assert numbers(planned("gpt-small", HALVES, training=False).problem)[0].startswith("float32, which")


def test_operators_placed_one_by_one_are_refused() -> None:
    file = planned("gpt-small", HALVES)
    graph = file.problem.graph
    stage = file.plan.stages[0]
    stages = tuple(
        replace(stage, operators=(i,)) for i, operator in enumerate(graph.operators) if operator.phase is Phase.FORWARD
    )
    with pytest.raises(UnsupportedProblem, match="places 47 operators one by one"):
        chain_of(file._replace(plan=replace(file.plan, stages=stages)))
