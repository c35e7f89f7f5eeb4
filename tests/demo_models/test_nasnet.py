"""NASNet-A is wired as published: every cell reads the two before it, and nothing goes unread."""

from __future__ import annotations

import torch
from torch import nn

from demo_models.nasnet import SIZES, NASNet, NormalCell, build


def built(size: str) -> tuple[NASNet, tuple[torch.Tensor, ...]]:
    with torch.device("meta"):
        return build(SIZES[size])


def outputs(size: str) -> tuple[NASNet, list[tuple[int, ...]], list[tuple[int, int]]]:
    """The model, the shape of every cell's output (after the stem's), and the outputs that each cell read."""
    module, inputs = built(size)
    made: list[torch.Tensor] = []
    read: list[tuple[int, int]] = []

    def record(cell: nn.Module, given: tuple[torch.Tensor, ...], made_here: torch.Tensor) -> None:
        if cell is not module.stem:
            read.append(tuple(next(i for i, x in enumerate(made) if x is y) for y in given))
        made.append(made_here)

    for part in (module.stem, *module.cells):
        part.register_forward_hook(record)
    module(*inputs)
    return module, [tuple(x.shape[1:]) for x in made], read


def test_the_mobile_network_has_its_published_number_of_parameters() -> None:
    """NASNetMobile of keras.applications: 5,289,978 that are trained, in 742 tensors."""
    module, _ = built("mobile")
    assert sum(p.numel() for p in module.parameters()) == 5_289_978
    assert len(list(module.parameters())) == 742


def test_every_cell_reads_the_outputs_of_the_two_before_it() -> None:
    module, _, read = outputs("small")
    assert len(read) == len(module.cells) == 2 + 3 * 1 + 2
    assert read == [(0, 0), *((i, i + 1) for i in range(len(read) - 1))]


def test_grids_and_channels_are_those_of_the_large_network() -> None:
    module, shapes, _ = outputs("real")
    normal = [shape for cell, shape in zip(module.cells, shapes[1:], strict=True) if isinstance(cell, NormalCell)]
    assert normal == [(1008, 42, 42)] * 6 + [(2016, 21, 21)] * 6 + [(4032, 11, 11)] * 6
    reduced = [shape for cell, shape in zip(module.cells, shapes[1:], strict=True) if not isinstance(cell, NormalCell)]
    assert shapes[0] == (96, 165, 165)
    assert reduced == [(168, 83, 83), (336, 42, 42), (1344, 21, 21), (2688, 11, 11)]


def test_no_part_of_the_network_goes_unread() -> None:
    torch.manual_seed(0)
    module, inputs = build(SIZES["small"])
    module(*inputs).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters() if p.ndim == 4)
