"""What steps, messages and bytes take is found again in times that are made of them."""

from __future__ import annotations

import pytest

from explorer.runner.engine.engine_times import Ran, fit
from solvers.problem.engine import Duty, EngineCosts

TRUTH = EngineCosts(3e-4, 1e-4, 2e-4, 5e-5, 8e-5, 1e-10, 3e-10)


def ran(forwards: float, backwards: float, messages: Duty, costs: EngineCosts = TRUTH) -> Ran:
    seconds = costs.iteration_s + forwards * costs.forward_s + backwards * costs.backward_s
    return Ran(forwards, backwards, messages, seconds + costs.seconds("U", messages))


RUNS = [
    *(ran(f, b, Duty()) for f, b in ((4, 4), (8, 0), (16, 16))),
    *(ran(8, b, Duty(0, n, 0, n * size, 0)) for b, n, size in ((0, 8, 4e3), (8, 8, 1e6), (0, 24, 1e5))),
    *(ran(8, b, Duty(0, 0, n, 0, n * size)) for b, n, size in ((0, 8, 4e3), (8, 8, 1e6), (0, 24, 1e5))),
]


def test_costs_that_times_are_made_of_are_detected() -> None:
    costs, residual = fit(RUNS)
    for name in EngineCosts.__dataclass_fields__:
        assert getattr(costs, name) == pytest.approx(getattr(TRUTH, name), rel=1e-6), name
    assert residual == pytest.approx(0.0, abs=1e-9)


def test_what_was_never_done_costs_nothing() -> None:
    costs, _ = fit([ran(8, 0, Duty()), ran(16, 0, Duty()), ran(32, 0, Duty())])
    assert costs.forward_s == pytest.approx(TRUTH.forward_s)
    assert (costs.backward_s, costs.sent_s, costs.received_byte_s) == (0.0, 0.0, 0.0)


def test_no_cost_is_below_0_where_noise_would_make_it_so() -> None:
    costs, residual = fit([Ran(8, 0, Duty(), 1e-3), Ran(16, 0, Duty(), 2.1e-3), Ran(8, 8, Duty(), 9e-4)])
    assert costs.backward_s == 0.0
    assert costs.forward_s > 0
    assert 0 < residual < 0.1


def test_a_fit_needs_runs() -> None:
    with pytest.raises(ValueError, match="some time"):
        fit([])
