"""A run is compared with the model in one piece where rank 0 has room for it, else stage after stage."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from explorer.runner.bundles.outcome import Way
from explorer.runner.verifying import verify
from explorer.runner.verifying.in_turn import Part, in_order
from explorer.runner.verifying.verify import parts_of, way_of, whole_bytes
from solvers.errors import RunError
from solvers.problem.problem import Problem
from tests.explorer.runner.plans import problem_of

PROGRAM: Any = SimpleNamespace(
    sized={2: (SimpleNamespace(parameters={"a": "a", "b": "b"}, values={
        "a": SimpleNamespace(nbytes=1000), "b": SimpleNamespace(nbytes=24)
    }), None)},
    folded=SimpleNamespace(groups=(0, 1, 2)), undivided=tuple,
)  # fmt: skip
PROGRAM.whole_model = PROGRAM
SCRIPT: Any = SimpleNamespace(
    devices=(3, 5),
    segments=[
        SimpleNamespace(operators=(0,), devices=(3, 5), share=2),
        SimpleNamespace(operators=(1, 2), devices=(5,), share=4),
    ],
)


def of_rnn(training: bool, **changed: Any) -> Problem:
    return replace(problem_of("rnnlm-small", training, devices=6), **changed)


def test_the_whole_is_parameters_gradients_a_copy_states_and_what_is_saved() -> None:
    problem = of_rnn(True)
    saved = sum(operator.saved_bytes.at(2) for operator in problem.graph.operators)
    assert saved > 0
    assert whole_bytes(PROGRAM, problem, 2, "sgd") == 1024 * 3 + saved
    assert whole_bytes(PROGRAM, problem, 2, "adam") == 1024 * 5 + saved
    assert whole_bytes(PROGRAM, of_rnn(False), 2, None) == 1024


@pytest.mark.parametrize(
    ("cap", "free", "question", "way"),
    [
        (math.inf, math.inf, None, Way.WHOLE),
        (1023.0, math.inf, None, Way.STAGES),
        (math.inf, 1023.0, None, Way.STAGES),
        (1024.0, 1024.0, None, Way.WHOLE),
        (1023.0, 1023.0, Way.WHOLE, Way.WHOLE),
        (math.inf, math.inf, Way.STAGES, Way.STAGES),
    ],
)
def test_it_is_in_one_piece_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, cap: float, free: float, question: Way | None, way: Way
) -> None:
    monkeypatch.setattr("torch.distributed.broadcast", lambda tensor, source: None)
    monkeypatch.setattr(verify, "free_bytes", lambda device: free)
    problem = of_rnn(False)
    devices = [replace(d, memory_bytes=cap if n == 3 else 1.0) for n, d in enumerate(problem.cluster.devices)]
    problem = replace(problem, cluster=replace(problem.cluster, devices=tuple(devices)))
    machine: Any = SimpleNamespace(script=SCRIPT, program=PROGRAM, device=torch.device("cpu"))
    assert way_of(question, machine, problem, None) is way


def test_each_segment_is_computed_by_the_first_rank_that_has_it() -> None:
    assert parts_of(Way.STAGES, SCRIPT, PROGRAM) == [Part((0,), 0), Part((1, 2), 1)]
    assert parts_of(Way.WHOLE, SCRIPT, PROGRAM) == [Part((0, 1, 2), 0)]


def crossing(operators: Any) -> Any:
    """Of a chain of three, whose tensor i operator i makes."""
    return tuple(o - 1 for o in operators if o > 0 and o - 1 not in operators), ()


CHAIN: Any = SimpleNamespace(
    folded=SimpleNamespace(groups=(0, 1, 2)), readers={"w": (0, 2)}, crossing=crossing,
    edges=[SimpleNamespace(producer=0), SimpleNamespace(producer=1)],
)  # fmt: skip


def test_parts_come_after_those_they_read_from() -> None:
    parts = [Part((2,), 0), Part((0,), 0), Part((1,), 1)]
    assert in_order(CHAIN, parts) == (parts[1], parts[2], parts[0])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([Part((0, 1), 0)], "each operator once"),
        ([Part((0, 1), 0), Part((1, 2), 0)], "each operator once"),
        ([Part((0, 1), 0), Part((2,), 1)], "w is read on several ranks"),
        ([Part((0, 2), 0), Part((1,), 1)], "wait for each other"),
    ],
)
def test_what_is_not_the_whole_model_is_refused(parts: list[Part], message: str) -> None:
    with pytest.raises(RunError, match=message):
        in_order(CHAIN, parts)
