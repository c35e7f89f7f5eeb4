"""Every request is of one kind of job, and every kind has something that does it."""

from __future__ import annotations

from explorer.jobs.job_kinds import KINDS
from explorer.jobs.requests import KIND_OF, READ, Request


def test_every_request_has_a_kind_and_every_kind_is_done() -> None:
    assert {kind.__name__ for kind in KIND_OF} == {kind.__name__ for kind in Request.__subclasses__()}
    assert {kind.name for kind in KIND_OF.values() if kind.workers != READ} == set(KINDS)
