"""What is said of an example is part of a model's name, and comes back from it."""

from __future__ import annotations

import pytest

from explorer.question.models.example import Example, join_example, split_example, undivided
from solvers.errors import InvalidProblem
from solvers.problem.collectives import Axis


def test_what_is_stated_of_an_example_comes_back() -> None:
    name = join_example("hf:my,model", batch=4, sequence=512, batch_dim=0)
    assert name == "hf:my,model,batch=4,sequence=512,batch-dim=0"
    assert split_example(name) == ("hf:my,model", Example(batch=4, sequence=512, batch_dim=0))


def test_what_is_stated_later_counts_and_what_is_not_stated_stays() -> None:
    assert join_example("gpt,batch=4", batch=8) == "gpt,batch=8"
    assert join_example("a.b:c", batch=None) == "a.b:c"


@pytest.mark.parametrize("name", ["a,batch=0", "a,sequence=x", "a,image=-3", "a,batch=" + "9" * 5000, "a,batch=1.5"])
def test_a_value_that_is_no_number_of_samples_is_refused(name: str) -> None:
    with pytest.raises(InvalidProblem, match="whole number"):
        split_example(name)


def test_a_file_with_a_comma_in_its_name_is_no_example() -> None:
    assert split_example("a,b=3.json") == ("a,b=3.json", Example())


def test_groups_divide_along_one_axis_or_two() -> None:
    name, example = split_example("gpt,context-parallel=4")
    assert (name, example.axis, example.degree) == ("gpt", Axis.CONTEXT, 4)
    name, example = split_example("hf:mixtral,expert-parallel=8,expert-load=1.25")
    assert (example.axis, example.degree, example.expert_load) == (Axis.EXPERT, 8, 1.25)
    assert join_example(name, expert_parallel=8, expert_load=1.25) == "hf:mixtral,expert-parallel=8,expert-load=1.25"
    assert undivided("hf:mixtral,sequence=64,expert-parallel=8,expert-load=1.25") == "hf:mixtral,sequence=64"
    name, example = split_example("gpt,tensor-parallel=2,context-parallel=4")
    assert (example.axis, example.degree, example.outer_degree) == (Axis.CONTEXT, 8, 4)
    assert undivided("gpt,tensor-parallel=2,context-parallel=4") == "gpt"
    assert split_example("moe,tensor-parallel=2,expert-parallel=4")[1].samples == 4
    example = split_example("gpt,expert-parallel=2,context-parallel=4")[1]
    assert (example.axis, example.inner_axis, example.outer_degree, example.degree) == (Axis.CONTEXT, Axis.EXPERT, 4, 8)
    assert (example.samples, example.devices_of_experts) == (2, 2)
    name = "moe,expert-parallel=2,expert-load=1.01,redundant-experts=4"
    assert split_example(name)[1].redundant_experts == 4
    assert undivided(name) == "moe"
    with pytest.raises(InvalidProblem, match="two of tokens, experts and tensors; leave out --tensor-parallel"):
        split_example("gpt,expert-parallel=2,context-parallel=4,tensor-parallel=2")
    with pytest.raises(InvalidProblem, match="expert-load is the largest load over the mean"):
        split_example("gpt,expert-load=0.5")
