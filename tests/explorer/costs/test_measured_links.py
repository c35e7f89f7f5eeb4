"""Lines through measured messages and collectives come back, and what ships holds on sizes that were held out."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from explorer.costs.curves import curves
from explorer.costs.fit.links import links_in
from solvers.errors import InvalidProblem
from solvers.problem.cluster import Link, Ring

LATENCY_S, BANDWIDTH = 3e-6, 2e11
SIZES = [2**n for n in range(10, 28)]


def write(folder: Path, name: str, lines: list[str]) -> None:
    (folder / name).write_bytes(gzip.compress("\n".join(lines).encode()))


def test_an_all_reduce_takes_what_the_ring_of_a_plan_does(tmp_path: Path) -> None:
    link, ring = Link(0, 1, BANDWIDTH, LATENCY_S), Ring(4)
    rows = [f"all_reduce,4,{n},{1e3 * ring.link_s(link, 2.0 * n)}" for n in SIZES]
    write(tmp_path, "nccl_h100.csv.gz", ["operation,gpus,elements_16_bit,milliseconds", *rows])
    (line,) = links_in(tmp_path)
    assert (line.device, line.operation, line.devices) == ("H100-80GB", "all_reduce", 4)
    assert line.latency_s == pytest.approx(LATENCY_S)
    assert line.bandwidth_bytes_per_s == pytest.approx(BANDWIDTH)
    assert line.held_out.low == pytest.approx(1.0)
    assert line.held_out.high == pytest.approx(1.0)
    assert (line.rows, line.held_out.rows) == (9, 9)


def test_messages_in_a_node_and_between_nodes_are_lines_of_their_own(tmp_path: Path) -> None:
    rows = [f"2,{inside},{n},{1e3 * (LATENCY_S * inside + n / BANDWIDTH * inside)}" for inside in (1, 2) for n in SIZES]
    write(tmp_path, "send_receive_a100.csv.gz", ["workers,devices_per_node,size,milliseconds", *rows])
    links = {link.operation: link for link in links_in(tmp_path)}
    assert links["send between nodes"].latency_s == pytest.approx(LATENCY_S)
    assert links["send in a node"].bandwidth_bytes_per_s == pytest.approx(BANDWIDTH / 2)


@pytest.mark.parametrize(
    "lines",
    [["operation,gpus\n", "all_reduce,2"], ["operation,gpus,elements_16_bit,milliseconds", "all_reduce,two,4,1"]],
)
def test_what_is_no_such_table_is_refused(tmp_path: Path, lines: list[str]) -> None:
    write(tmp_path, "nccl_h100.csv.gz", lines)
    with pytest.raises(InvalidProblem, match=r"nccl_h100\.csv\.gz"):
        list(links_in(tmp_path))


def test_what_ships_is_within_a_fifth_at_the_median() -> None:
    links = curves().links
    assert {link.device for link in links} >= {"A100-80GB", "H100-80GB", "H200-141GB", "B200-180GB"}
    for link in links:
        assert link.latency_s > 0
        assert link.bandwidth_bytes_per_s > 0
        assert 0.8 < link.held_out.median < 1.2
