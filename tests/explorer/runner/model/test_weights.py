"""A rank holds the values of the whole model, and only its own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from demo_models import MODELS
from explorer.runner.model.construct import Built, Maker
from explorer.runner.model.deferred_init import mixed
from explorer.runner.model.weights import held, hold
from solvers.errors import RunError
from tests.reproductions.whole_model import whole_model

HERE = "tests.explorer.runner.model.models"
SEED = 5


@pytest.mark.parametrize(
    "name", [*(name for name in MODELS if name.endswith("-small")), f"{HERE}:tied", f"{HERE}:blocks"]
)
def test_ranks_hold_the_values_of_the_whole_model_and_nothing_else(name: str) -> None:
    whole = whole_model(name, seed=SEED, dtype=None, device="cpu", allow_model=True)
    names = list(whole.parameters)
    maker = Maker(name, allow_model=True)
    for part in (names[::2], names[1::2]):
        built = maker.build(part, SEED)
        assert {n for n, p in built.module.named_parameters() if not p.is_meta} == set(part)
        own = held(built, part, None, "cpu")
        assert own.parameters.keys() == set(part)
        assert not own.notes
        assert all(torch.equal(parameter, whole.parameters[n]) for n, parameter in own.parameters.items())
        assert all(torch.equal(own.buffers[n], buffer) for n, buffer in whole.module.named_buffers())


def test_weights_that_no_layer_fills_are_the_same_on_every_rank_too() -> None:
    """Drawn and scaled, copied, cloned and orthogonal ones; what was made by NumPy is made by all."""
    name = f"{HERE}:shared"
    whole = whole_model(name, seed=SEED, dtype=None, device="cpu", allow_model=True).parameters
    assert torch.equal(whole["layers.1.weight"], 2 * whole["layers.0.weight"])
    assert torch.equal(whole["clones.0.bias"], whole["clones.1.bias"])
    for part in whole:
        own = hold(name, [part], seed=SEED, dtype=None, device="cpu", allow_model=True)
        assert torch.equal(own.parameters[part], whole[part]), part
        noted = any("from_numpy" in note for note in own.notes)
        assert noted == (part != "from_numpy")


def test_another_seed_gives_other_values_and_float64_the_same_ones() -> None:
    names = ["tokens.weight", "norm.bias"]
    one, other = (hold("gpt-small", names, seed=s, dtype=None, device="cpu").parameters for s in (1, 2))
    assert not torch.equal(one["tokens.weight"], other["tokens.weight"])
    double = hold("gpt-small", names, seed=1, dtype="float64", device="cpu").parameters
    assert all(torch.equal(double[name], one[name].double()) for name in names)


def test_what_others_hold_is_never_made() -> None:
    """The machine has not the memory for any of its large parameters."""
    name = f"{HERE}:huge"
    own = hold(name, ["small.weight", "small.bias"], seed=SEED, dtype=None, device="cpu", allow_model=True)
    assert sum(parameter.nbytes for parameter in own.parameters.values()) == 4 * (8 * 8 + 8)
    assert not own.notes


def test_tied_parameters_are_held_under_their_first_name() -> None:
    own = hold(f"{HERE}:tied", ["table.weight"], seed=SEED, dtype=None, device="cpu", allow_model=True)
    assert list(own.parameters) == ["table.weight"]
    with pytest.raises(RunError, match=r"has no parameter head\.weight"):
        hold(f"{HERE}:tied", ["head.weight"], seed=SEED, dtype=None, device="cpu", allow_model=True)


@pytest.mark.parametrize("dtype", [None, "float64"])
def test_a_buffer_of_two_names_is_one_object_under_both(dtype: str | None) -> None:
    """So that what is counted under one is there under the other, converted or not."""
    module = nn.ModuleDict({"left": nn.BatchNorm1d(2)})
    module["right"] = module["left"]
    buffers = held(Built(module, (), {}), [], dtype, "cpu").buffers
    assert buffers["left.running_mean"] is buffers["right.running_mean"]
    assert len({id(buffer) for buffer in buffers.values()}) == 3


def test_a_module_that_was_there_before_is_copied() -> None:
    """Steps of an optimizer must not change what the next run begins with."""
    name = f"{HERE}:already_there"
    before = hold(name, ["weight"], seed=SEED, dtype=None, device="cpu", allow_model=True)
    with torch.no_grad():
        original = before.parameters["weight"].clone()
        before.parameters["weight"].zero_()
    after = hold(name, ["weight"], seed=SEED, dtype=None, device="cpu", allow_model=True)
    assert torch.equal(after.parameters["weight"], original)
    assert "1 parameter of other ranks is made here too" in after.notes[0]


def test_a_model_that_is_made_otherwise_each_time_is_made_whole() -> None:
    own = hold(f"{HERE}:never_the_same", ["0.weight"], seed=SEED, dtype=None, device="cpu", allow_model=True)
    assert "every rank makes the whole model" in own.notes[0]
    assert not own.parameters["0.weight"].is_meta


def test_random_numbers_elsewhere_are_left_as_they_were() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    hold("dlrm-small", [], seed=SEED, dtype=None, device="cpu")
    assert torch.equal(torch.rand(2), expected)


def test_seeds_of_operators_differ_in_the_bits_that_a_cpu_takes() -> None:
    drawn = {mixed(seed, number) for seed in range(20) for number in range(500)}
    assert len(drawn) > 9_990
    assert max(drawn) < 2**32


def test_code_runs_only_where_that_is_allowed_and_files_never() -> None:
    with pytest.raises(RunError, match="was not allowed"):
        hold(f"{HERE}:tied", [], seed=0, dtype=None, device="cpu")
    with pytest.raises(RunError, match="holds the graph alone"):
        hold("model.pt2", [], seed=0, dtype=None, device="cpu", allow_model=True)
    with pytest.raises(RunError, match="no attribute 'absent'"):
        hold(f"{HERE}:absent", [], seed=0, dtype=None, device="cpu", allow_model=True)
