"""A buffer that the forward writes and reads is refused where a plan would change the order of both."""

from __future__ import annotations

from functools import lru_cache

import pytest

from explorer.question.loading import load_callable
from explorer.runner.model.program import Program, trace_for_run
from explorer.runner.model.states import check_states, computed_with
from explorer.runner.scripts.script import Script, Segment
from solvers.errors import RunError

NAME = "tests.explorer.runner.model.models:averaging"


@lru_cache(maxsize=1)
def program() -> Program:
    graph = load_callable(NAME).graph
    return trace_for_run(NAME, training=True, dtype=None, graph=graph, samples=[4, 8], allow_model=True)


def script(micro_batch: int, devices: tuple[int, ...], *, recompute: bool = False) -> Script:
    operators = tuple(range(len(program().folded.groups)))
    segment = Segment(operators, devices, micro_batch, (0,), recompute)
    return Script((segment,), (), devices, ((),) * len(devices), 8, True)


def test_running_statistics_are_kept_but_not_computed_with() -> None:
    assert len(computed_with(program().captured)) == 1


def test_one_pass_of_all_samples_runs() -> None:
    check_states(program(), script(8, (0,)))


@pytest.mark.parametrize("given", [(4, (0,), False), (8, (0, 1), False), (8, (0,), True)])
def test_another_order_is_refused(given: tuple[int, tuple[int, ...], bool]) -> None:
    with pytest.raises(RunError, match=r"writes the buffer .*seen"):
        check_states(program(), script(given[0], given[1], recompute=given[2]))
