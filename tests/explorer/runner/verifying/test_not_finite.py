"""A loss that is no number fails the run, and the comparison says whether the model itself makes it so."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from explorer.runner.bundles.outcome import Outcome, RunStatus, judged
from explorer.runner.bundles.request import RunRequest
from explorer.runner.engine.gather import gather
from explorer.runner.engine.machine import Machine, make_machine
from explorer.runner.engine.measure import measure
from explorer.runner.verifying.verify import verify
from solvers.formats.plan_json import PlanFile, read_plan
from tests.explorer.runner.plans import placed, problem_of, text

NAME = "tests.explorer.runner.model.models:endless"
REQUEST = RunRequest(verify=True, allow_model=True, steps=1, warmup=1)


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    """Of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def ran(spoiled: bool) -> Outcome:
    """spoiled: the engine makes a number of what the model makes none of."""
    problem = problem_of(NAME, devices=1, mini_batch=8, micro_batches=2)
    count = sum(operator.forward_of is None for operator in problem.graph.operators)
    file: PlanFile = read_plan(text(problem, placed(problem, [0] * count, 2), NAME).encode(), "plan.json")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    machine = make_machine(file, REQUEST, 0, 1, torch.device("cpu"))
    measured = measure(machine, REQUEST)
    again = make_machine(file, REQUEST, 0, 1, torch.device("cpu"), machine.program)
    if spoiled:
        spoil(again)
    agreement = verify(again, NAME, file.problem, REQUEST)
    torch.set_num_threads(threads)
    outcome = gather(machine, REQUEST, measured, agreement, [0.01], False, {})
    assert outcome is not None
    return judged(outcome)


def spoil(machine: Machine) -> None:
    machine.loss = lambda: 1.0  # type: ignore[method-assign]


def test_an_infinite_loss_of_the_model_itself_fails_the_run_and_agrees() -> None:
    outcome = ran(spoiled=False)
    assert outcome.status is RunStatus.FAILED
    assert outcome.reason == (
        "the loss is no finite number: -inf, first in iteration 1 of the warm-up, micro-batch 0, on rank 0; the whole"
        " model gives the same, so it is not the plan but the model, its data or step"
    )
    assert outcome.agreement is not None
    assert outcome.agreement.holds
    # Losses of three steps; the gradients of the first layer and its parameters.
    assert outcome.agreement.undefined == 3 + 2 + 2
    assert math.isnan(outcome.losses[0])


def test_a_number_where_the_model_has_none_differs() -> None:
    outcome = ran(spoiled=True)
    assert outcome.agreement is not None
    assert outcome.agreement.loss == math.inf
    assert "it differs from the whole model, relative: losses by inf" in outcome.reason
