"""Optimizers whose states are in the host's memory: the same updates, and fewer bytes on the device."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from explorer.runner.engine.measure import CountedStorage
from explorer.runner.model import optimizers
from explorer.runner.model.optimizers import OPTIMIZERS, step

PIECE = 64
"""Bytes, in place of some MiB: 8 or 16 numbers in fp32, so that parameters are cut."""


def trained(name: str, on_host: bool) -> tuple[list[Tensor], torch.optim.Optimizer]:
    """Parameters of several pieces, of one, of one number, of none, and one without a gradient, after four steps of
    which one has another learning rate."""
    torch.manual_seed(3)
    parameters = [nn.Parameter(torch.randn(shape)) for shape in ((7, 5), (6,), (), (0, 3), (4,))]
    optimizer = OPTIMIZERS[name](parameters, lr=0.1)
    for number in range(4):
        optimizer.param_groups[0]["lr"] = 0.2 if number == 2 else 0.1
        for parameter in parameters[:-1]:
            parameter.grad = torch.randn(parameter.shape)
        step(optimizer, states_on_host=on_host)
    return [parameter.detach() for parameter in parameters], optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_are_the_same_to_the_last_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "PIECE_BYTES", PIECE)
    whole, usual = trained(name, on_host=False)
    pieces, hosted = trained(name, on_host=True)
    assert all(torch.equal(a, b) for a, b in zip(whole, pieces, strict=True))
    (expected, groups), (states_of, own) = ((each["state"], each["param_groups"]) for each in
                                         (usual.state_dict(), hosted.state_dict()))  # fmt: skip
    assert groups == own
    for key, states in states_of.items():
        for label, value in states.items():
            assert value is None or torch.equal(value, expected[key][label])


def test_states_take_a_piece_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "PIECE_BYTES", 4096)
    parameter = nn.Parameter(torch.randn(100, 1000))
    parameter.grad = torch.randn(100, 1000)
    usual, hosted = (torch.optim.Adam([parameter], foreach=False) for _ in range(2))
    step(usual)
    step(hosted, states_on_host=True)
    peaks = {}
    for name, optimizer in (("usual", usual), ("hosted", hosted)):
        with CountedStorage([parameter, parameter.grad]) as counted:
            step(optimizer, states_on_host=name == "hosted")
        peaks[name] = counted.peak_bytes - 2 * 400_000
    assert peaks["usual"] >= 2 * 400_000  # what the step itself makes, as large as the parameter
    assert peaks["hosted"] <= 4 * 4096


def test_an_optimizer_that_needs_all_of_a_parameter_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "PIECE_BYTES", PIECE)
    torch.manual_seed(4)
    one, two = (nn.Parameter(torch.arange(40.0).reshape(8, 5)) for _ in range(2))
    usual, hosted = (torch.optim.Adafactor([parameter], lr=0.1) for parameter in (one, two))
    for _ in range(3):
        one.grad = torch.randn(8, 5)
        two.grad = one.grad.clone()
        step(usual)
        step(hosted, states_on_host=True)
    assert torch.equal(one, two)
