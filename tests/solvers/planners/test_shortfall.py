"""Where no plan is found: what the plain splits lack."""

from __future__ import annotations

from solvers.planners.shortfall import shortfall
from solvers.problem.problem import Objective, Problem
from tests.instances import problem, training_graph

GIB = 2**30


def chain(memory: float, micro_batches: int | None = 1) -> Problem:
    graph = training_graph([(i, i + 1) for i in range(7)], 8, nbytes=1.0, saved=1.0 * GIB)
    return problem(
        graph, [1] * 16, memory=memory, mini_batch=4, micro_batches=micro_batches, objective=Objective.ITERATION
    )


def test_what_is_lacking_is_on_a_device_and_of_kinds() -> None:
    """8 times 4 GiB of activations on two devices: 16 GiB each."""
    lack = shortfall(chain(15.0 * GIB))
    assert lack is not None
    assert lack.cap_bytes == 15.0 * GIB
    assert abs(lack.peak_bytes - 16 * GIB) < 100
    assert abs(sum(lack.parts.values()) - lack.peak_bytes) < 1
    assert max(lack.parts, key=lack.parts.__getitem__) == "activations, workspace and buffers"


def test_nothing_is_lacking_where_a_plain_split_fits() -> None:
    assert shortfall(chain(17.0 * GIB)) is None
