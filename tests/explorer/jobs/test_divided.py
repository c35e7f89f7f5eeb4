"""A model that a request names with a degree is divided by the times of the devices that are asked about."""

from __future__ import annotations

import pytest

from explorer.jobs.held_plans import file_of
from explorer.jobs.job_kinds import solve_job
from explorer.jobs.requests import SolveRequest
from explorer.jobs.workers import worker
from explorer.question.settings import Settings
from explorer.sweeps.divided import DividedModel

MODEL = "candle_uno-small,tensor-parallel=2"
SLOW = Settings(devices=4, device_kind="V100-16GB", bandwidth_bytes_per_s=1e7)


def planned(settings: Settings) -> list[str]:
    """The operators of what a solve of the page plans."""
    events = []
    worker.run(solve_job, SolveRequest(MODEL, settings), events.append, lambda: False)
    return [operator.name for operator in file_of(events[-1]["plan"]["held"]).problem.graph.operators]


def divided(settings: Settings | None) -> list[str]:
    return [operator.name for operator in DividedModel(MODEL, settings=settings).as_named().graph.operators]


@pytest.mark.slow
def test_by_the_devices_and_links_of_the_settings() -> None:
    assert divided(SLOW) != divided(None)
    assert planned(SLOW) == divided(SLOW)
    assert planned(Settings(devices=4)) == divided(Settings(devices=4))
