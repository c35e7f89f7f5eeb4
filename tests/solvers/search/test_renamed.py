"""Earlier names of what planners see of the world work, and say what they are called today."""

from __future__ import annotations

import copy

import pytest

from solvers.search.monitor import Monitor
from tests.instances import forward_graph, problem

CHAIN = problem(forward_graph([(0, 1)], 2), [1.0, 1.0])


def test_earlier_names_work_with_a_warning() -> None:
    monitor = Monitor(CHAIN)
    with pytest.warns(DeprecationWarning, match=r"Monitor\.apart is independent now"):
        assert monitor.apart() is not monitor
    with pytest.warns(DeprecationWarning, match=r"Monitor\.asking is for_question now"):
        assert monitor.asking(CHAIN).problem is CHAIN


def test_what_never_was_is_missed_as_ever() -> None:
    monitor = copy.copy(Monitor(CHAIN))
    with pytest.raises(AttributeError, match="'Monitor' object has no attribute 'apar'"):
        monitor.apar  # noqa: B018
