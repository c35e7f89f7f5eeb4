"""What was measured stands as measured, what lies between is interpolated, and the rest is the roofline's."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from explorer.costs.roofline import SAMPLES, estimate
from explorer.costs.times.calls import Size
from explorer.costs.times.interpolation import curve
from explorer.costs.times.share import costs_words, share
from explorer.costs.times.table import table
from explorer.exports.tables import placement_csv
from explorer.view.graph.elements import graph_view
from explorer.view.graph.inspect import box_facts
from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_view import plan_view
from solvers.errors import InvalidProblem
from solvers.formats.plan_json import read_plan, write_plan
from solvers.formats.workload import Workload
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.problem import ComputeTable, Optimizer, Origin, Problem
from tests.explorer.costs.times.libraries import MS, library_of_linear, linear_graph, linear_size, linear_time

KIND = "cpu-core"
M, I, E = Origin.MEASURED, Origin.INTERPOLATED, Origin.ESTIMATED  # noqa: E741


def priced(*times: object) -> ComputeTable:
    return table(linear_graph(), [KIND], [library_of_linear(*times)], Optimizer.ADAM)[0]  # type: ignore[arg-type]


def test_every_time_says_where_it_is_from() -> None:
    """Rows 1 and 4 are measured: 2 lies between, 8 and 16 within a factor of 4, and what follows is too far off."""
    prices = priced()
    assert prices.origins[KIND][0].tolist() == [M, I, M, I, I, *[E] * 6]
    assert prices.origins[KIND][1].tolist() == [E] * len(SAMPLES)
    assert prices.seconds[KIND][0, [0, 2]].tolist() == [MS, 2 * MS]


def test_what_the_library_does_not_know_is_as_the_roofline_has_it() -> None:
    graph = linear_graph()
    assert priced().seconds[KIND][1].tolist() == estimate(graph, [KIND]).seconds[KIND][1].tolist()


def test_far_from_all_measured_the_line_goes_on() -> None:
    """1 and 4 rows in 1 and 2 ms: a launch, and so much a row; 1024 rows take about 1/3 ms each, not the roofline's."""
    last = float(priced().seconds[KIND][0, -1])
    assert last == pytest.approx((2 / 3 + 1024 / 3) * MS, rel=0.35)


def test_without_a_class_in_common_there_is_nothing_to_plan_with() -> None:
    graph = linear_graph()
    other = replace(graph, operators=tuple(replace(o, op_type="aten.mm") for o in graph.operators))
    with pytest.raises(InvalidProblem, match=r"say nothing of mlp.*in fp32"):
        table(other, [KIND], [library_of_linear()], Optimizer.ADAM)


def test_another_dtype_is_other_work() -> None:
    graph = linear_graph()
    half = replace(graph, tensors=tuple(replace(t, dtype="bfloat16") for t in graph.tensors))
    with pytest.raises(InvalidProblem, match="in fp32, and it is in bf16"):
        table(half, [KIND], [library_of_linear()], Optimizer.ADAM)


def test_other_hardware_is_refused() -> None:
    with pytest.raises(InvalidProblem, match=r"NVIDIA H200.*devices are cpu-core.*--device-kind H200-141GB"):
        table(linear_graph(), [KIND], [library_of_linear(hardware="NVIDIA H200")], Optimizer.ADAM)
    with pytest.raises(InvalidProblem, match="two files"):
        table(linear_graph(), [KIND], [library_of_linear()] * 2, Optimizer.ADAM)


def test_kinds_without_a_library_keep_the_roofline() -> None:
    prices, label = table(linear_graph(), ["H100-80GB", KIND], [library_of_linear()], Optimizer.ADAM)
    assert (prices.origins["H100-80GB"] == E).all()
    assert prices.seconds["H100-80GB"].tolist() == estimate(linear_graph(), ["H100-80GB"]).seconds["H100-80GB"].tolist()
    assert label == (
        "operator times of Slide Rule (R) 3000, 1 thread, torch 2.13.0, from gpt, 2026-11-21;"
        " else roofline estimate, H100-80GB, cpu-core, fp32"
    )


# -- between sizes --------------------------------------------------------------------------------


def test_a_line_through_measured_work_is_recovered() -> None:
    """10 us, 1 us for 1,000 FLOPs and 1 us for 1,000 bytes: any work in the midst takes what these say."""

    def seconds(size: Size) -> float:
        return 1e-5 + size.flops * 1e-9 + size.moved_bytes * 1e-9

    known = [linear_size(rows, columns) for rows in (1, 8, 64, 512) for columns in (16, 128, 1024)]
    sizes = [linear_size(rows, columns) for rows in (3, 100) for columns in (40, 700)]
    predicted, inside = curve(known, [seconds(size) for size in known]).seconds(sizes)
    assert inside.all()
    assert predicted == pytest.approx([seconds(size) for size in sizes], rel=1e-6)


def test_what_is_off_the_line_is_carried_over_to_work_like_it() -> None:
    """Narrow products take four times as long as their FLOPs say; so does a narrow one that was not measured."""
    wide = [linear_size(rows, 1024, 1024) for rows in (64, 256, 1024)]
    narrow = [linear_size(rows, 4, 1024) for rows in (64, 256, 1024)]
    taken = [size.flops * 1e-9 for size in wide] + [size.flops * 4e-9 for size in narrow]
    sizes = [linear_size(128, 1024, 1024), linear_size(128, 4, 1024)]
    (of_wide, of_narrow), _ = curve([*wide, *narrow], taken).seconds(sizes)
    assert of_wide == pytest.approx(sizes[0].flops * 1e-9, rel=0.1)
    assert of_narrow == pytest.approx(sizes[1].flops * 4e-9, rel=0.1)


@pytest.mark.parametrize("sizes", [[Size(0, 64)], [Size(0, 0)], [Size(8, 0)], [Size(0, 64), Size(0, 64)]])
def test_little_to_go_by_is_still_something(sizes: list[Size]) -> None:
    """One call, one without FLOPs, one without bytes: the same takes the same."""
    predicted, _ = curve(sizes, [MS] * len(sizes)).seconds(sizes[:1])
    assert predicted == pytest.approx([MS])


# -- in a plan ------------------------------------------------------------------------------------


def planned(micro_batch_size: int) -> tuple[Problem, Plan]:
    compute, label = table(linear_graph(), [KIND], [library_of_linear()], Optimizer.ADAM)
    cluster = uniform_cluster([Device("core 0", KIND)], 1e9)
    problem = Problem(linear_graph(), cluster, compute, training=False, mini_batch=16, costs_from=label)
    batches = -(-16 // micro_batch_size)
    order = (tuple(Action(0, "F", batch) for batch in range(batches)),)
    return problem, Plan((Stage((0, 1), (0,), micro_batch_size),), order)


@pytest.mark.parametrize(("micro_batch_size", "origin"), [(4, "measured"), (8, "interpolated"), (3, "interpolated")])
def test_a_plan_says_how_much_of_its_time_was_measured(micro_batch_size: int, origin: str) -> None:
    """Beside 2 ms of the linear, the roofline's 2 us of the other operator are 0.1 %."""
    problem, plan = planned(micro_batch_size)
    parts = share(problem, plan)
    assert parts is not None
    assert getattr(parts, origin) > 0.998
    assert 0 < parts.estimated < 0.002
    assert parts.measured + parts.interpolated + parts.estimated == pytest.approx(1)
    assert costs_words(problem, plan).startswith(problem.costs_from)
    assert costs_words(problem, plan).endswith(parts.words())


def test_the_page_says_of_a_box_where_its_time_is_from() -> None:
    """The linear is measured, what follows estimated, and both together mostly measured."""
    problem, plan = planned(4)
    view = plan_view(problem, plan, planner="by hand", objective_s=1.0, bound_s=0.0)
    assert view["origins"] == [M, E]
    assert view["costs_from"] == costs_words(problem, plan, share_first=True)
    assert view["costs_from"].endswith(f"% estimated: {problem.costs_from}")
    outline = skeleton(Workload(problem.graph, "mlp", training=False))
    boxes = graph_view(outline, frozenset())
    facts = [box_facts(f"o:{i}", boxes, outline, view) for i in range(2)]
    assert [dict(one.rows)["Time is"] for one in facts if one is not None] == ["measured", "estimated"]


def test_an_exported_table_says_of_every_operator_where_its_time_is_from() -> None:
    rows = list(csv.DictReader(io.StringIO(placement_csv(read_plan(write_plan(*planned(4)))))))
    assert [(row["operator"], row["seconds_are"]) for row in rows] == [("up/linear", "measured"), ("relu", "estimated")]


def test_a_plans_file_keeps_every_origin() -> None:
    problem, plan = planned(4)
    back = read_plan(write_plan(problem, plan)).problem
    assert np.array_equal(back.compute.origins[KIND], problem.compute.origins[KIND])
    assert share(back, plan) == share(problem, plan)


@pytest.mark.parametrize(
    ("origins", "message"),
    [(["mm"], "a list of 2"), (["m" * 10] * 2, "11 letters"), ([0, 1], "a text"), (["x" * 11] * 2, "letters")],
)
def test_origins_that_are_none_are_refused(origins: object, message: str) -> None:
    problem, plan = planned(4)
    value = json.loads(write_plan(problem, plan))
    value["problem"]["compute"]["origins"] = {KIND: origins}
    with pytest.raises(InvalidProblem, match=message):
        read_plan(json.dumps(value))


def test_times_that_are_all_of_one_origin_say_nothing() -> None:
    problem, plan = planned(4)
    plain = replace(problem, compute=estimate(linear_graph(), [KIND]))
    assert share(plain, plan) is None
    assert "origins" not in write_plan(plain, plan)


def test_between_two_batches_the_less_sure_origin_holds() -> None:
    prices = priced(linear_time(1, MS), linear_time(2, 1.5 * MS))
    assert prices.origin_at(KIND, 2) is not None
    assert prices.origin_at(KIND, 1.5).tolist() == [I, E]  # type: ignore[union-attr]
    assert prices.origin_at(KIND, 48).tolist() == [E, E]  # type: ignore[union-attr]
