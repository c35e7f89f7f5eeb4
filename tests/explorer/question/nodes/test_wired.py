"""Links as machines have them, and as fast as messages and collectives were measured to be over them."""

from __future__ import annotations

import numpy as np
import pytest

import explorer
from explorer.costs.curves import curves
from explorer.question.nodes.groups import with_exchanges
from explorer.question.nodes.wired import as_measured, machine_of, measured_line, unmeasured
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.evaluation.simulation import simulate
from solvers.formats.workload import Workload
from solvers.problem.cluster import Link
from solvers.problem.graph import Amount, Operator, OpGraph
from solvers.problem.problem import ComputeTable
from solvers.verify import verify
from tests.explorer.tracing.models import shipped


def link_of(kind: str, **settings: object) -> Link:
    link = make_problem(shipped("gpt-small"), Settings(devices=4, device_kind=kind, **settings)).cluster.link(0, 1)  # type: ignore[arg-type]
    assert link is not None
    return link


@pytest.mark.parametrize(
    ("kind", "measured_on"),
    [
        ("A100-80GB", "A100-80GB"),
        ("A100-40GB", "A100-80GB"),
        ("H100-80GB", "H100-80GB"),
        ("H200-141GB", "H100-80GB"),
    ],
)
def test_a_message_takes_what_the_line_through_measured_ones_says(kind: str, measured_on: str) -> None:
    line, link = curves().link(measured_on, "send in a node", 2), link_of(kind, wiring="measured")
    assert line is not None
    for nbytes in (2.0**12, 2.0**20, 2.0**30):
        assert link.transfer_s(nbytes) == line.latency_s + nbytes / line.bandwidth_bytes_per_s
    rates = [nbytes / link.transfer_s(nbytes) for nbytes in (2.0**12, 2.0**20, 2.0**30)]
    assert rates == sorted(rates)
    assert rates[0] < 0.01 * rates[2] < 0.01 * machine_of(kind).inside.bandwidth_bytes_per_s


@pytest.mark.parametrize("kind", ["V100-16GB", "B200-180GB", "L4-24GB", "MI300X-192GB"])
def test_links_over_which_no_message_was_measured_stay_as_the_data_sheet_has_them(kind: str) -> None:
    assert as_measured(kind).inside == machine_of(kind).inside


def test_another_network_than_the_stated_one_is_not_taken() -> None:
    """7.7 GB/s were measured between A100, of which a DGX has adapters of 25 GB/s each."""
    assert as_measured("A100-80GB").between == machine_of("A100-80GB").between
    line = curves().link("H100-80GB", "send between nodes", 2)
    assert line is not None
    assert as_measured("H100-80GB").between.bandwidth_bytes_per_s == line.bandwidth_bytes_per_s


def test_settings_of_links_go_before_what_was_measured() -> None:
    assert link_of("H100-80GB", wiring="measured", bandwidth_bytes_per_s=1e9, latency_s=2e-3).transfer_s(1e9) == 1.002
    assert link_of("H100-80GB", bandwidth_bytes_per_s=1e9, latency_s=0.0) == link_of(
        "H100-80GB", wiring="plain", bandwidth_bytes_per_s=1e9, latency_s=0.0
    )


GRAPH = OpGraph(
    (
        Operator("all-reduce", exchanged_bytes=Amount(0.0, 2.0**20), exchange_steps=6),
        Operator("scatter", exchanged_bytes=Amount(0.0, 2.0**20), exchange_steps=3),
        Operator("alone"),
    ),
    (),
    tensor_parallel=4,
)


def test_collectives_of_a_group_take_the_lines_of_as_many_devices() -> None:
    link = Link(0, 1, 1e9, 1e-3)
    table = ComputeTable((1, 8), {kind: np.zeros((3, 2)) for kind in ("H100-80GB", "V100-16GB")})
    question, with_line = (
        with_exchanges(table, GRAPH, link, measured=lines).seconds for lines in (unmeasured, measured_line)
    )
    for row, operation in enumerate(("all_reduce", "reduce_scatter")):
        line = measured_line("H100-80GB", operation, 4)
        assert line is not None
        assert line.devices == 4
        steps = (6, 3)[row]
        assert with_line["H100-80GB"][row].tolist() == pytest.approx(
            [steps * line.latency_s + n * 2.0**20 / line.bandwidth_bytes_per_s for n in (1, 8)]
        )
    assert not with_line["H100-80GB"][2].any()
    assert (with_line["V100-16GB"] == question["V100-16GB"]).all()  # no collective was measured there
    three, nine = (measured_line("H100-80GB", "all_reduce", degree) for degree in (3, 9))
    assert three is not None
    assert three.devices == 4
    assert nine is None


@pytest.mark.parametrize("question", [{"wiring": "measured"}, {"wiring": "measured", "bandwidth_bytes_per_s": 450e9}])
def test_a_divided_model_is_planned_with_them_unless_a_bandwidth_is_set(question: dict[str, object]) -> None:
    compute = ComputeTable((1,), {"H100-80GB": np.full((3, 1), 1e-6)})
    workload = Workload(GRAPH, "divided", compute=compute, training=False)
    seconds = make_problem(workload, Settings(devices=4, device_kind="H100-80GB", **question)).compute.seconds[
        "H100-80GB"
    ]  # type: ignore[arg-type]
    line = measured_line("H100-80GB", "all_reduce", 4)
    assert line is not None
    measured_s = 1e-6 + 6 * line.latency_s + 2.0**20 / line.bandwidth_bytes_per_s
    assert (seconds[0, 0] == pytest.approx(measured_s)) == ("bandwidth_bytes_per_s" not in question)


def test_plans_over_measured_links_are_verified_and_bounded() -> None:
    result = explorer.plan(
        shipped("gpt-small"), devices=4, device_kind="H100-80GB", devices_per_node=2, wiring="measured",
        planner="graph-pipeline", mini_batch=16, micro_batches=4, time_limit_s=10,
    )  # fmt: skip
    assert result.plan is not None
    assert verify(result.problem, result.plan, simulate(result.problem, result.plan)) == ()
    assert 0 < result.bound_s <= result.objective_s
