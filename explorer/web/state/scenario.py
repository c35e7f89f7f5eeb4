"""A plan that a page keeps beside others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.jobs.requests import PlanSource
from explorer.view.plan_types import PlanView


@dataclass(frozen=True)
class Scenario:
    """number: its name between page and server. source: where the plan is. cells: its figures as text, by the name of
    the card. seconds: a sample's, of its objective. picture: by theme. view and model: what is compared, and the hash
    of its graph."""

    number: int
    name: str
    source: PlanSource
    cells: Mapping[str, str]
    seconds: float
    picture: Mapping[str, str]
    view: PlanView = field(repr=False)
    model: str
