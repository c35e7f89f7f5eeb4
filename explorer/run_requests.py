"""What is asked about running plans: jobs of two workers, the one that solves and the one that runs."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.settings import Settings


@dataclass(frozen=True, slots=True)
class PrepareRequest:
    """The file of a plan, and what there is to say before it runs on ``target``. held: the name of a plan that
    the worker holds (`explorer.held_plans`). text: the packed file, if it is known already."""

    held: str
    target: str
    text: bytes | None = None


@dataclass(frozen=True, slots=True)
class RunPlanRequest:
    """Run a plan on ``target``. held: its name, for whoever asks; text: its packed file. steps, verify and
    allow_model: as in `explorer.runner.bundles.request.RunRequest`; the rest is as the target says."""

    held: str
    text: bytes
    target: str
    steps: int = 5
    verify: bool = False
    allow_model: bool = False


@dataclass(frozen=True, slots=True)
class ShowRunRequest:
    """A past run again. bundle: the name of its folder among the runs that are kept."""

    bundle: str


@dataclass(frozen=True, slots=True)
class ReplanRequest:
    """Measure operators and links on ``target``, then plan again with what was measured. held and text: of the
    plan that is to be improved; the rest: what was asked when it was made."""

    held: str
    text: bytes
    target: str
    model: str
    settings: Settings
    planner: str
    time_limit_s: float
    seed: int = 0
    allow_model: bool = False
