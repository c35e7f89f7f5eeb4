"""Questions asked of a real Ray cluster: a head and a second node of one core each, both on this machine."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from explorer.runner.targets.target_file import RaySetup
from explorer.sweeps.execution.cluster import Cluster
from explorer.sweeps.execution.pool import Here
from explorer.sweeps.execution.queue import AnswerStore, Course, Nothing
from explorer.sweeps.sweep import Cell, cell_rows
from tests.explorer.runner.targets.ray_head import Head, _processes, _session, running_head
from tests.explorer.sweeps.execution.remembered import BASE, LIMITS, Remembered, few, plain_rows

if importlib.util.find_spec("ray") is None:
    pytest.skip("ray is not installed (pip install 'placement-explorer[test]')", allow_module_level=True)


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with running_head(cpus=1) as head:
        yield head


def cluster(head: Head, owner: str, **more: Any) -> Cluster:
    """What is installed there is what is tested here, so that its kernels are compiled once."""
    return Cluster(RaySetup("here", head.address, installed=True), head.token, owner=owner, **more)


def sent_to(
    workers: Any, question: tuple[Cell, ...], library: AnswerStore | None = None, **more: Any
) -> list[dict[str, Any]]:
    return plain_rows(cell_rows(question, BASE, LIMITS, workers, library or Nothing(), **more))


@pytest.mark.slow
def test_a_cluster_gives_the_same_rows_and_solves_nothing_twice(head: Head) -> None:
    question, library = few(), Remembered()
    here = sent_to(Here(), question)
    seen: list[Course] = []
    assert sent_to(cluster(head, "one"), question, library, on_course=seen.append) == here
    assert len(library.stored) == len(question)
    assert max(len(course.running) for course in seen) == 2  # both nodes
    nowhere = Cluster(RaySetup("here", "http://127.0.0.1:1"))
    assert sent_to(nowhere, question, library) == here  # which asks nobody


@pytest.mark.slow
def test_a_node_that_dies_costs_its_questions_another_try(head: Head) -> None:
    """The last one: after it, only the head is left."""
    question, library = few(("auto",)), Remembered()
    dead: list[int] = []

    def kill_the_second(course: Course) -> None:
        if len(course.running) == 2 and not dead:
            dead.extend(p for p in _processes() if _session(p) == head.sessions[1])
            for process in dead:
                os.kill(process, signal.SIGKILL)

    rows = sent_to(cluster(head, "three"), question, library, on_course=kill_the_second)
    assert dead
    assert rows == sent_to(Here(), question)
    assert len(library.stored) == len(question)
