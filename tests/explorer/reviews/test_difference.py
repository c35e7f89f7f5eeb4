"""Two plans of one graph, side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.reviews import shown
from explorer.reviews.difference import difference, difference_object
from explorer.reviews.matching import Moved, matched_devices, moved_modules
from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import evaluate
from solvers.plan.plan import Plan
from solvers.problem.cluster import CPU_KIND, Device
from solvers.problem.problem import Problem
from solvers.schedules.assemble import assemble
from tests.explorer.runner.plans import placed as placed_at
from tests.explorer.runner.plans import problem_of
from tests.explorer.view.small import chain_problem, even_plan

GPUS = tuple(Device(f"gpu{i}", "toy") for i in range(4))


def placed(problem: Problem, cuts: list[int], devices: list[int]) -> Plan:
    """The chain cut before the blocks ``cuts``, its parts on ``devices``."""
    graph = problem.graph
    size = 12

    def device(operator: int) -> int:
        home = graph.operators[operator].forward_of
        block = (operator if home is None else home) // size
        return devices[sum(block >= cut for cut in cuts)]

    return assemble(problem, [(device(i),) for i in range(len(graph))], problem.micro_batches or 1)


def test_a_plan_does_not_differ_from_itself() -> None:
    problem = chain_problem()
    compared = difference((problem, even_plan(problem)), (problem, even_plan(problem)))
    assert (compared.moved, compared.questions, compared.renamed) == ((), (), {})
    assert compared.hashes[0] == compared.hashes[1]
    assert all(a == b for _, _, a, b in compared.numbers)


def test_the_better_of_two_answers_to_one_question_is_named() -> None:
    problem = chain_problem()
    even, uneven = placed(problem, [2, 4, 6], [0, 1, 2, 3]), placed(problem, [5, 6, 7], [0, 1, 2, 3])
    compared = difference((problem, even), (problem, uneven))
    assert evaluate(problem, uneven).iteration_s / evaluate(problem, even).iteration_s == pytest.approx(1.76, abs=5e-3)
    assert compared.verdict == "1.76× slower"
    assert difference((problem, uneven), (problem, even)).verdict == "1.76× faster"
    assert "verdict    the second is 1.76× slower" in str(compared)
    assert len(compared.elsewhere) == compared.moved_operators


@pytest.mark.parametrize("question", [{"mini_batch": 32}, {"max_replicas": 2}, {"pins": {0: 0}}])
def test_a_plan_that_answers_another_question_is_never_called_better(question: dict[str, object]) -> None:
    problem = chain_problem()
    other = replace(problem, **question)  # type: ignore[arg-type]
    compared = difference((problem, even_plan(problem)), (other, even_plan(other)))
    assert compared.verdict is None
    assert compared.questions
    assert "neither is the better one" in str(compared)
    assert "neither is the better one" in compared._repr_html_()


def test_labels_that_are_merely_permuted_move_nothing() -> None:
    problem = chain_problem()
    a, b = placed(problem, [2, 4, 6], [0, 1, 2, 3]), placed(problem, [2, 4, 6], [2, 0, 3, 1])
    compared = difference((problem, a), (problem, b))
    assert compared.moved == ()
    assert compared.renamed == {0: 2, 1: 0, 2: 3, 3: 1}


def test_a_block_that_moved_is_one_entry_with_its_places() -> None:
    problem = chain_problem()
    a, b = placed(problem, [2, 4, 6], [0, 1, 2, 3]), placed(problem, [3, 4, 6], [3, 1, 2, 0])
    compared = difference((problem, a), (problem, b))
    # block 2, 12 forward and 12 backward operators, from device 1 to what was device 0 and is device 3
    assert compared.moved == (Moved("blocks.2", "GPU 1", "GPU 3", 24, 24),)
    assert compared.moved_operators == 24
    assert compared.renamed == {0: 3, 3: 0}


def test_plans_of_other_devices_and_micro_batches_are_compared() -> None:
    first, second = chain_problem(4, micro_batches=8), chain_problem(2, micro_batches=4)
    second = replace(second, graph=first.graph)
    compared = difference((first, even_plan(first)), (second, even_plan(second)))
    assert (compared.micro_batches, compared.stages) == (((8,), (4,)), (4, 2))
    assert compared.questions[0] == "devices: 4 × toy, then 2 × toy"
    # one of each pair of devices has a counterpart; what is on the other one moves
    assert compared.moved_operators == 96
    assert {one.source for one in compared.moved} == {"GPU 1 of the first plan", "GPU 3 of the first plan"}
    written = difference_object(compared)
    assert len(written["devices"]) == 4
    assert sum(row["second"] is None for row in written["devices"]) == 2
    assert written["moved_operators"] == sum(one["operators"] for one in written["moved"])


def test_plans_of_different_graphs_are_refused_with_both_hashes() -> None:
    first, second = chain_problem(), chain_problem(blocks=4)
    with pytest.raises(
        InvalidProblem, match=r"different graphs: chain \(192 .*sha256 \w{12}.* and chain \(96 "
    ) as caught:
        difference((first, even_plan(first)), (second, even_plan(second)))
    assert "\n" not in str(caught.value)


def test_most_operators_in_common_decide_and_ties_keep_labels() -> None:
    problem = chain_problem()
    a = placed(problem, [1, 4, 6], [0, 1, 2, 3])
    # device 0 has blocks 0-3: three of its blocks were on device 1 before
    b = placed(problem, [4, 5, 6], [0, 1, 2, 3])
    assert matched_devices((a, b), (GPUS, GPUS)) == {0: 1, 1: 0, 2: 2, 3: 3}
    one = placed(chain_problem(1), [], [0])
    assert matched_devices((one, one), (GPUS, GPUS)) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_a_gpu_is_never_matched_with_a_cpu() -> None:
    problem = chain_problem()
    a, b = placed(problem, [4], [0, 1]), placed(problem, [4], [1, 0])
    mixed = (Device("gpu", "toy"), Device("cpu", CPU_KIND))
    assert matched_devices((a, b), (mixed, mixed)) == {0: 0, 1: 1}


def test_other_caps_and_links_are_reported() -> None:
    first, second = chain_problem(), chain_problem(memory_bytes=2.0**31)
    second = replace(second, graph=first.graph, mini_batch=32)
    compared = difference((first, even_plan(first)), (second, even_plan(second)))
    assert compared.questions == ("memory caps: 16 GiB, then 2 GiB", "mini-batch: 16, then 32")


def test_modules_that_moved_as_a_whole_are_listed_as_one() -> None:
    modules = ["a.x", "a.x", "a.y", "b.z", "b.z", "b", ""]
    go = ("0", "1")
    assert moved_modules(modules, [go] * 7) == (Moved("", *go, 7, 7),)
    assert moved_modules(modules, [go, go, go, None, None, None, None]) == (Moved("a", *go, 3, 3),)
    assert moved_modules(modules, [go, None, go, None, go, go, go]) == (
        Moved("", *go, 1, 1), Moved("a.x", *go, 1, 2), Moved("a.y", *go, 1, 1), Moved("b", *go, 1, 1),
        Moved("b.z", *go, 1, 2),
    )  # fmt: skip


def test_a_small_module_is_listed_once_for_every_way_it_moved() -> None:
    modules = ["big.x"] * 98 + ["small.a", "small.b"]
    changes = [None] * 98 + [("0", "1"), ("0", "2")]
    assert moved_modules(modules, changes) == (Moved("small", "0", "1", 1, 2), Moved("small", "0", "2", 1, 2))


def test_a_difference_says_whether_estimates_tell_it() -> None:
    """All of a model on one of two GPUs is more than estimates are off; nothing is not."""
    problem = problem_of("gpt-small", devices=2, mini_batch=8, micro_batches=4)
    count = sum(o.forward_of is None for o in problem.graph.operators)
    even, lopsided = (placed_at(problem, [int(i >= cut) for i in range(count)], 4) for cut in (count // 2, 1))
    distinct = difference((problem, even), (problem, lopsided))
    assert distinct.distinguishable is True
    with pytest.warns(DeprecationWarning, match="distinguishable"):
        assert distinct.told_apart is True  # as it was named until 0.4
    assert "estimates" not in shown.verdict_words(distinct)
    assert "less than the estimates" in shown.verdict_words(replace(distinct, distinguishable=False))
    assert difference((problem, even), (problem, even)).distinguishable is False


def planned(model: str, **question: object) -> tuple[Problem, Plan]:
    result = explorer.plan(model, devices=4, effort="quick", **question)  # type: ignore[arg-type]
    assert result.plan is not None
    return result.problem, result.plan


def test_plans_of_two_degrees_are_compared_by_single_devices_and_calls() -> None:
    whole, pairs = planned("gpt-small"), planned("gpt-small,tensor-parallel=2")
    compared = difference(whole, pairs)
    forwards = {o.name for o in whole[0].graph.operators}
    assert compared.operators == len(forwards & {o.name for o in pairs[0].graph.operators}) < len(pairs[0].graph)
    assert compared.names == (("GPU 0", "GPU 1", "GPU 2", "GPU 3"),) * 2
    assert compared.questions == ("tensors divided over: 1, then 2",)
    slower = evaluate(*pairs).iteration_s / evaluate(*whole).iteration_s
    assert compared.verdict == f"{slower:.2f}× slower"
    peaks = [row["peak_bytes"][1] for row in compared.device_numbers]
    by_group = evaluate(*pairs).peak_memory_bytes
    assert sorted(map(float, filter(None, peaks))) == sorted(2 * list(by_group))
    assert difference(pairs, pairs).moved_operators == 0
    object_of = difference_object(compared)
    assert (object_of["told_apart"], len(object_of["devices"])) == (None, 4)


def test_another_difference_of_the_questions_keeps_two_degrees_from_being_called_better() -> None:
    compared = difference(planned("gpt-small"), planned("gpt-small,tensor-parallel=2", mini_batch=32))
    assert compared.verdict is None
    assert len(compared.questions) == 2


@pytest.mark.slow
def test_parts_of_different_degrees_are_compared_too() -> None:
    parts = planned("multimodal-small,tensor-parallel-of=branches.text:2")
    compared = difference(planned("multimodal-small"), parts)
    assert compared.questions == ("tensors divided over: 1, then 1 and 2",)
    assert compared.verdict is not None
    on_pair = [stage for stage in parts[1].stages if parts[0].cluster.devices[stage.devices[0]].members == 2]
    assert on_pair


@pytest.mark.slow
def test_models_that_differ_in_more_than_degrees_are_refused() -> None:
    with pytest.raises(InvalidProblem, match="different graphs"):
        difference(planned("gpt-small"), planned("multimodal-small,tensor-parallel=2"))
