"""Every share of a peak has a source, or is assumed and said to be."""

from __future__ import annotations

import explorer
from explorer.costs.devices import DEVICES
from explorer.costs.efficiency import _PUBLISHED, SHARES, WorkClass, published
from explorer.costs.regions import COSTLY
from explorer.costs.shapes import ring_rounds
from solvers.problem.collectives import ATTENTION
from solvers.problem.graph import CACHED_ATTENTION
from tests.explorer.cli.command import Command

OUTSIDE = {
    (WorkClass.PRODUCTS, "V100-16GB"),
    (WorkClass.PRODUCTS, "V100-32GB"),
    (WorkClass.ATTENTION_BACKWARD, "A100-40GB"),
    (WorkClass.ATTENTION_BACKWARD, "A100-80GB"),
}
"""Where what is taken for all devices is outside what was found on this one, or below a best case: docs/costs.md."""


def test_every_source_is_of_a_device_that_there_is_and_says_where() -> None:
    seen = set()
    for work, kinds, expected in _PUBLISHED:
        assert 0 < expected.low <= expected.high <= 1
        assert "(20" in expected.source or "IPDPSW 2018" in expected.source
        for kind in kinds:
            assert kind in DEVICES
            assert (work, kind) not in seen
            seen.add((work, kind))
            assert published(work, kind) is expected


def test_what_is_taken_is_what_was_measured_unless_stated() -> None:
    rates = {(work, kind): published(work, kind) for work in WorkClass for kind in DEVICES}
    fields = {where: one for where, one in rates.items() if one is not None}
    assert {where for where, one in fields.items() if not one.low <= SHARES[where[0]] <= one.high} == OUTSIDE
    assert published(WorkClass.CONVOLUTIONS, "A100-80GB") is None
    assert published(WorkClass.MEMORY, "cpu") is None


def test_the_list_of_devices_tells_them(capsys) -> None:
    kinds = {kind["name"]: kind for kind in Command(capsys)("devices", "--json").json}
    products = kinds["H100-80GB"]["efficiency"]["products"]
    assert products["share"] == 0.8
    assert (products["published"]["low"], products["published"]["high"]) == (0.8, 0.9)
    assert (products["measured"]["device"], products["measured"]["kernels"]) == ("H100-80GB", 17850)
    other = kinds["L4-24GB"]["efficiency"]["products"]
    assert (other["share"], other["published"], other["measured"]["device"]) == (0.8, None, "L40S-48GB")
    assert kinds["cpu"]["efficiency"]["products"] == {"share": 0.8, "published": None, "measured": None}


def test_attention_is_kept_where_cheap_operators_run_again() -> None:
    assert {ATTENTION, CACHED_ATTENTION, "aten.linear"} <= COSTLY
    assert {type(op_type) for op_type in COSTLY} == {str}


def test_attention_round_a_ring_is_a_kernel_for_every_member() -> None:
    graph = explorer.trace("llama-small,context-parallel=2").graph
    rings = [i for i, one in enumerate(graph.operators) if one.op_type == ATTENTION and one.exchange_steps]
    assert rings, "by the links of an H100 a ring is the cheaper way here"
    assert set(ring_rounds(graph)[rings]) == {2.0}
