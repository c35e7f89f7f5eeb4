"""What a peak is made of adds up to it, kind by kind as counted by hand."""

from __future__ import annotations

import pytest

from solvers.evaluation.evaluate import evaluate
from solvers.evaluation.memory_parts import REST, memory_parts
from solvers.evaluation.simulation import simulate
from solvers.problem.problem import Optimizer, Precision, Transfers
from solvers.verify import verify
from tests.solvers.problem.test_zero import both, pair
from tests.solvers.verify.valid_plans import SORTS, valid_cases


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"zero": 0}, {"parameters": 12, "gradients": 12, "optimizer states": 24}),
        ({"zero": 0, "optimizer": Optimizer.SGD}, {"parameters": 12, "gradients": 12}),
        ({"zero": 0, "frozen": 8.0}, {"parameters": 12, "gradients": 4, "optimizer states": 8}),
        (
            {"zero": 3, "precision": Precision.MIXED},
            {"parameters": 6, "gradients": 6, "fp32 masters": 12, "optimizer states": 24, "gathered parameters": 4},
        ),
        # buffers are held whole by every replica, whatever ZeRO shards
        (
            {"zero": 3, "buffers": 5.0},
            {
                "parameters": 6,
                "gradients": 6,
                "optimizer states": 12,
                "module buffers": 5,
                "gathered parameters": 4,
            },
        ),
        ({"zero": 0, "buffers": 5.0, "training": False}, {"parameters": 12, "module buffers": 5}),
    ],
)
def test_parts_of_two_operators_on_two_replicas(options: dict[str, object], expected: dict[str, float]) -> None:
    p = pair(**options)
    plan = both(p)
    assert verify(p, plan, simulate(p, plan)) == ()
    peak = evaluate(p, plan).peak_memory_bytes
    for device, parts in enumerate(memory_parts(p, plan, peak)):
        assert {name: nbytes for name, nbytes in parts.items() if name != REST} == expected
        assert sum(parts.values()) == pytest.approx(peak[device])


@pytest.mark.parametrize("sort", SORTS)
def test_parts_add_up_to_the_peak(sort: str) -> None:
    seen = set()
    for case in valid_cases(sort, Transfers.LINKS, 40):
        peaks = evaluate(case.problem, case.plan).peak_memory_bytes
        for peak, parts in zip(peaks, memory_parts(case.problem, case.plan, peaks), strict=True):
            assert sum(parts.values()) == pytest.approx(peak)
            assert all(nbytes > 0 for nbytes in parts.values())
            seen |= parts.keys()
    assert {REST, "parameters", "gradients", "optimizer states", "module buffers"} <= seen
