"""Mini-batches as a person hands them in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from explorer.runner.training.batches import Reader, called_with, checksum, divided
from solvers.errors import RunError

CPU = torch.device("cpu")


def reader(by_name: bool = True) -> Reader:
    """Of a model of (x [samples, 3] float32, mask [3] int64), traced at 4 samples, for mini-batches of 8."""
    values = {
        "x": SimpleNamespace(shape=(4, 3), dtype="float32"),
        "mask": SimpleNamespace(shape=(3,), dtype="int64"),
    }
    captured = SimpleNamespace(inputs=["x", "mask"], values=values, samples=4)
    program: Any = SimpleNamespace(captured=captured, sample_dim=lambda name: 0 if name == "x" else None)
    example: Any = ((), {"x": None, "mask": None}) if by_name else ((None, None), {})
    return Reader(program, example, 8, CPU)


X, MASK = torch.ones(8, 3), torch.arange(3)


def test_inputs_by_name_come_in_the_order_of_the_example() -> None:
    (x, mask), targets = reader().read({"mask": MASK, "x": X}, None)
    assert x.tolist() == X.tolist()
    assert mask.tolist() == [0, 1, 2]
    assert targets is None


def test_floats_take_the_dtype_of_the_model_and_targets_keep_their_form() -> None:
    (x, _), targets = reader(by_name=False).read((X.double(), MASK), {"class": torch.arange(8), "weight": 0.5})
    assert x.dtype == torch.float32
    assert targets["class"].tolist() == list(range(8))
    assert targets["weight"] == 0.5


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        ({"x": X}, None, "the model was traced with x, mask, found x"),
        ((X, MASK), None, "the model was traced with x, mask, found arguments by position"),
        ({"x": X, "mask": 3}, None, "the model takes 2 tensors, found 1"),
        ({"x": X[:6], "mask": MASK}, None, r"input 0 must be \[8, 3\] float32 .* of 8 samples, found \[6, 3\] float32"),
        ({"x": X, "mask": MASK.int()}, None, r"input 1 must be \[3\] int64 .*, found \[3\] int32"),
        ({"x": X, "mask": MASK}, torch.ones(4), r"targets must be the plan's mini-batch of 8 samples, found \[4\]"),
        ({"x": X, "mask": MASK}, torch.ones(()), r"targets must be the plan's mini-batch of 8 samples, found \[\]"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: Any, targets: Any, message: str) -> None:
    with pytest.raises(RunError, match=message):
        reader().read(inputs, targets)


def test_a_mini_batch_is_of_tensors_and_has_targets_where_they_are_wanted() -> None:
    assert divided((X, MASK), with_targets=True) == (X, MASK)
    assert divided([1, 2, 3], with_targets=False) == ([1, 2, 3], None)
    with pytest.raises(RunError, match=r"\(inputs, targets\), found 3 values"):
        divided((1, 2, 3), with_targets=True)
    assert called_with(X) == ((X,), {})
    with pytest.raises(RunError, match="found str"):
        called_with("letters")


def test_equal_values_have_equal_checksums() -> None:
    one = {"x": torch.tensor(1.5, dtype=torch.bfloat16), "y": [torch.arange(6).view(2, 3).T]}
    assert checksum(one) == checksum({"x": one["x"], "y": [cast(Any, one["y"])[0].contiguous()]})
    assert checksum(one) != checksum({"x": one["x"], "y": [torch.arange(6)]})
    assert checksum((X,)) != checksum((2 * X,))
