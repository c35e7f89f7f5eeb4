"""What is open when a model is first shown."""

from __future__ import annotations

import pytest

from explorer.question.graphs.demos import traced_before
from explorer.view.graph.elements import graph_view
from explorer.view.graph.layered_layout import label_px
from explorer.view.graph.opening import FEW, LEGIBLE_PX, READABLE, first_view
from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_types import Skeleton
from solvers.formats.workload import Workload
from solvers.problem.graph import Amount, Operator, OpGraph
from tests.explorer.view.small import chain, chain_workload


def model(work: dict[str, float]) -> Skeleton:
    """An operator of so many FLOPs for each name, in the module that its name says."""
    operators = tuple(Operator(n, module_path=n.rpartition(".")[0], flops=Amount(w)) for n, w in work.items())
    return skeleton(Workload(OpGraph(operators, ()), "shares"))


def shown(outline: Skeleton, canvas: tuple[float, float] | None = None, **limits: int) -> int:
    return len(graph_view(outline, first_view(outline, canvas, **limits)).boxes)


@pytest.mark.parametrize(
    ("canvas", "boxes"),
    [
        ((575.0, 550.0), 47),
        ((300.0, 265.0), 31),  # of 47 boxes no name could be read
        ((60.0, 60.0), 47),  # here none can be read at all: then as many boxes as elsewhere
        (None, 47),
    ],
)
def test_names_can_be_read_where_it_is_drawn(canvas: tuple[float, float] | None, boxes: int) -> None:
    small = skeleton(traced_before("gpt-small", True, None))
    assert shown(small, canvas) == boxes
    if canvas is not None:
        view = graph_view(small, first_view(small, canvas), canvas[0] / canvas[1], canvas[1])
        assert (label_px(view.layout, canvas) >= LEGIBLE_PX) == (canvas != (60.0, 60.0))


def test_what_does_the_work_is_opened_and_what_does_little_is_not() -> None:
    """Of 14 small parts and one that does 99 % of the work, by count all would be opened or none."""
    heavy = {f"body.{i}.{j}.op": 100.0 for i in range(4) for j in range(6)}
    light = {f"side{i}.{j}.op": 1.0 for i in range(14) for j in range(4)}
    result = model(heavy | light)
    assert first_view(result) == {"body", *(f"body.{i}" for i in range(4))}
    assert shown(result) == 14 + 4 * 6


def test_blocks_of_one_model_look_alike_where_their_work_differs() -> None:
    """The first block of each stage of a ResNet does nearly twice the work of the others."""
    result = model(
        {f"stages.{i}.{j}.{k}.op": 1.8 if j == 0 else 0.5 for i in range(4) for j in range(4) for k in range(9)}
    )
    assert shown(result) == 16


def test_a_module_that_is_one_operator_stays_its_own_box() -> None:
    result = model({f"layers.{i}.linear": 1.0 for i in range(20)})
    assert first_view(result) == {"layers"}


def test_many_layers_are_shown_rather_than_one_box_of_them_all() -> None:
    deep = skeleton(Workload(chain(150, 4), "deep"))
    assert shown(deep) == shown(deep, (575.0, 550.0)) == 150


def test_a_limit_of_fewer_boxes_holds() -> None:
    outline = skeleton(chain_workload())
    assert FEW < shown(outline) <= READABLE
    assert shown(outline, most=10, many=10) == 8


def test_where_no_work_is_known_operators_count_alike() -> None:
    assert shown(model({f"blocks.{i}.op{j}": 0.0 for i in range(15) for j in range(8)})) == 15


def test_the_branches_of_the_multimodal_model_are_named() -> None:
    outline = skeleton(traced_before("multimodal", True, None))
    labels = graph_view(outline, first_view(outline)).labels.values()
    assert {"vision.layers.0", "text.layers.7", "audio.layers.3"} <= set(labels)
