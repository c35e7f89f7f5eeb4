"""Modules of every stage: whole, or refused by name, or made whole with what that costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.exports.launchers.torch_split import split_points
from explorer.exports.layers.chain import chain_of
from explorer.exports.layers.nearest import laid_out, whole_modules
from explorer.exports.layers.units import layout_of, units_of
from explorer.exports.layers.written import comments, path_of
from explorer.question.graphs.demos import traced_before
from solvers.errors import UnsupportedProblem
from solvers.evaluation.evaluate import evaluate
from solvers.planners.check import check
from tests.explorer.exports.planned import planned

HALVES = ("blocks.2.norm1/layer_norm",)
WITHIN = ("blocks.2/add",)


def units(model: str) -> list[str]:
    return [unit.name for unit in units_of(traced_before(model, True, None).graph).units]


def test_layers_are_the_elements_of_the_first_lists_on_the_way_down() -> None:
    assert units("gpt-small") == ["tokens", "positions", *(f"blocks.{i}" for i in range(4)), "norm", "head"]
    assert "blocks.0" in units("moe-small")  # which has a list of experts inside
    assert units("multimodal-small")[0] == "branches.vision.layers.0"


def test_whole_modules_are_stated_stage_by_stage() -> None:
    layout = layout_of(chain_of(planned("gpt-small", HALVES)))
    assert layout.names() == (
        ("tokens", "positions", "blocks.0", "blocks.1"),
        ("blocks.2", "blocks.3", "norm", "head"),
    )
    assert layout.outside_notes()[0].startswith("add and cross_entropy_loss: in no module")


def test_a_table_that_later_stages_read_is_reported_and_refuses_nothing() -> None:
    layout = layout_of(chain_of(planned("llama-small", [f"blocks.{i}.norm1/rms_norm" for i in (1, 2)])))
    assert layout.outside_notes()[0] == "rotary/sin from stage 0 to 2: computed in every stage that reads it"
    assert [("rotary" in names) for names in layout.names()] == [True, False, False]
    assert [("rotary" in names) for names in layout.names(copied=True)] == [True, True, True]


def test_a_cut_module_is_refused_by_name() -> None:
    chain = chain_of(planned("gpt-small", WITHIN))
    with pytest.raises(UnsupportedProblem, match=r"the module blocks\.2 is cut: 4 operators in stage 0, 6 operators"):
        layout_of(chain)


def test_nearest_gives_a_module_to_the_stage_with_most_of_its_work_and_tells_what_that_costs() -> None:
    file = planned("gpt-small", WITHIN)
    layout, changed = laid_out(chain_of(file), nearest=True)
    assert layout.names() == layout_of(chain_of(planned("gpt-small", HALVES))).names()
    assert changed[0].startswith("blocks.2 is whole in stage 1, which does ")
    assert changed[0].endswith("4 operators moved from 0")
    moved = layout.chain
    assert check(moved.problem, moved.plan) == ()
    now, was = evaluate(moved.problem, moved.plan).iteration_s, evaluate(file.problem, file.plan).iteration_s
    assert now != was
    assert ("slower" if now > was else "faster") in changed[1]
    with pytest.raises(UnsupportedProblem, match="is cut"):
        laid_out(chain_of(file), nearest=False)


def test_nearest_refuses_to_leave_a_stage_empty() -> None:
    one = chain_of(planned("gpt-small", ["blocks.2.norm2/layer_norm", "blocks.2.mlp/gelu"]))
    with pytest.raises(UnsupportedProblem, match="would leave nothing in stage 1"):
        whole_modules(one)


def test_what_is_between_modules_moves_along() -> None:
    """The cut after the embeddings' sum, amid block 0: whole, the block goes to stage 1 and the sum stays."""
    moved, _ = whole_modules(chain_of(planned("gpt-small", ["blocks.0.attn.qkv/linear"])))
    assert check(moved.problem, moved.plan) == ()
    names = [{moved.graph.operators[o].name for o in stage.operators} for stage in moved.plan.stages]
    assert "blocks.0.norm1/layer_norm" in names[1]
    assert "add" in names[0]


def test_torch_cuts_before_or_after_modules_at_any_depth() -> None:
    assert split_points(chain_of(planned("gpt-small", HALVES))) == ({"blocks.2": "BEGINNING"}, [])
    assert split_points(chain_of(planned("gpt-small", WITHIN)))[0] == {"blocks.2.attn": "END"}
    assert split_points(chain_of(planned("gpt-small", ["cross_entropy_loss"])))[0] == {"head": "END"}
    with pytest.raises(UnsupportedProblem, match=r"between blocks\.1\.attn/mul and blocks\.1\.attn/neg, where no"):
        split_points(chain_of(planned("llama-small", ["blocks.1.attn/neg"])))


def test_shared_parameters_in_two_stages_are_refused() -> None:
    file = planned("gpt-small", HALVES)
    graph = file.problem.graph
    tied = {"tokens/embedding", "head/linear"}
    operators = tuple(replace(o, colocation="tokens.weight") if o.name in tied else o for o in graph.operators)
    file = file._replace(problem=replace(file.problem, graph=replace(graph, operators=operators)))
    with pytest.raises(UnsupportedProblem, match=r"tokens/embedding \(stage 0\) and head/linear \(stage 1\) share"):
        layout_of(chain_of(file))


def test_parameters_in_no_module_are_refused() -> None:
    file = planned("gpt-small", HALVES)
    graph = file.problem.graph
    operators = tuple(replace(o, param_bytes=4.0) if o.name == "add" else o for o in graph.operators)
    file = file._replace(problem=replace(file.problem, graph=replace(graph, operators=operators)))
    with pytest.raises(UnsupportedProblem, match="add reads parameters that the model itself holds"):
        layout_of(chain_of(file))


@pytest.mark.parametrize("name", ["a b", "a;rm", "a'b", 'a"b', "a\nb", "", "a..b", "$(a)", "é", "a.b\n"])
def test_a_name_that_is_more_than_a_path_is_never_written(name: str) -> None:
    with pytest.raises(UnsupportedProblem, match="cannot be written"):
        path_of(name)


def test_comments_stay_comments() -> None:
    assert comments(["a\nimport os", '"""']) == "# a?import os\n# '''\n"
