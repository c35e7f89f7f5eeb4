"""What is asked about running plans: jobs of two workers, the one that solves and the one that runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from explorer.runner.request import RunRequest
from explorer.settings import Settings


@dataclass(frozen=True, slots=True)
class PrepareRequest:
    """The file of a plan that the worker holds, and what there is to say before it runs. held: the name under
    which it is held (`explorer.held_plans`). text: the packed file, if it is known already."""

    held: str
    text: bytes | None = None


@dataclass(frozen=True, slots=True)
class RunPlanRequest:
    """Run a plan on ``target``. text: its packed file. ranks: processes it needs. model: its reference, under
    which it is remembered; label: what found it."""

    held: str
    text: bytes
    target: str
    ranks: int
    request: RunRequest
    planner: str = ""
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShowRunRequest:
    """A past run again: its bundle's name in the folder of runs. known: hashes of skeletons that need not be
    sent again."""

    bundle: str
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReplanRequest:
    """Measure operators and links on ``target``, then plan again with what was measured. held and text: of
    the plan that is to be improved; settings and model: what was asked when it was made."""

    held: str
    text: bytes
    target: str
    model: str
    settings: Settings
    planner: str
    time_limit_s: float
    seed: int = 0
    request: RunRequest = field(default_factory=RunRequest)
    known: frozenset[str] = frozenset()
