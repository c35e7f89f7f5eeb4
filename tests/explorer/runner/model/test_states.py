"""A buffer that the forward writes and reads is refused where a plan would change the order of both."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import pytest

from explorer.question.loading import load_callable
from explorer.runner.model.cuts import check_states, computed_with
from explorer.runner.model.program import Program, trace_for_run
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


def test_a_buffer_that_two_devices_would_change_is_refused() -> None:
    """A norm without parameters is called on each: either would have half of the statistics."""
    name = "tests.explorer.runner.model.models:twice"
    twice = trace_for_run(
        name, training=True, dtype=None, graph=load_callable(name).graph, samples=[4], allow_model=True
    )
    norms = [group for group in range(len(twice.folded.groups)) if twice.changed_by([group])]
    assert len(norms) == 2

    def on(device: int) -> Script:
        first = Segment(tuple(range(norms[1])), (0,), 4, (0,))
        last = Segment(tuple(range(norms[1], len(twice.folded.groups))), (device,), 4, (1,))
        return Script((first, last), (), (0, 1), ((), ()), 4, True)

    check_states(twice, on(0))
    with pytest.raises(RunError, match="on devices 0 and 1 change the buffer b_norm_running_mean"):
        check_states(twice, on(1))


def test_a_count_that_several_stages_compute_with_is_refused() -> None:
    """The first of them counts, and the other would see none."""
    name = "tests.explorer.runner.model.models:counting"
    counting = trace_for_run(
        name, training=True, dtype=None, graph=load_callable(name).graph, samples=[4], allow_model=True
    )
    count = len(counting.folded.groups)

    def cut(*ends: int) -> Script:
        parts = [Segment(tuple(range(a, b)), (0,), 4, (0,)) for a, b in pairwise((0, *ends, count))]
        return Script(tuple(parts), (), (0,), ((),), 4, True)

    check_states(counting, cut())
    with pytest.raises(RunError, match="counts in the buffer b_calls"):
        check_states(counting, cut(count // 2))


@pytest.mark.parametrize("given", [(4, (0,), False), (8, (0, 1), False), (8, (0,), True)])
def test_another_order_is_refused(given: tuple[int, tuple[int, ...], bool]) -> None:
    with pytest.raises(RunError, match=r"writes the buffer .*seen"):
        check_states(program(), script(given[0], given[1], recompute=given[2]))
