"""What jobs about plans answer: the shapes of their ``done`` and ``part`` events, by the request in
`explorer.jobs.requests`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from explorer.reviews.difference import DifferenceView
from explorer.sweeps.sweep import RowView
from explorer.sweeps.why_here import MoveRow
from explorer.view.events import PackedOutcome
from explorer.view.plan_types import PlanView


class HowMany(TypedDict):
    """The first part of several: how many follow."""

    of: int


class ChangeAnswer(TypedDict):
    """A part of a `HelpRequest`. gain: of throughput, None without a plan, for the reason given."""

    words: str
    controls: Mapping[str, object]
    reason: str
    gain: float | None
    answer: PackedOutcome | None


class WayOut(TypedDict):
    """A part of a `RemedyRequest`, see `explorer.sweeps.remedies.Remedy.as_object`."""

    change: str
    flags: str
    objective_s: float
    peak_memory_bytes: float
    controls: Mapping[str, object]


class SweepValues(TypedDict):
    """The first part of a `SweepRequest`: the values of its axis, and those in words."""

    values: list[float]
    words: list[str]


class SweepPart(TypedDict):
    """Another of its parts."""

    row: RowView


class Exported(TypedDict):
    """The answer to an `ExportRequest`. of: the reference of the model. lost: what the file does not say of the plan;
    changed: what it says otherwise."""

    data: bytes
    media_type: str
    ending: str
    to: str
    of: str
    lost: list[str]
    changed: list[str]


class Differing(DifferenceView):
    """The answer to a `DifferRequest`. elsewhere: the operators that moved."""

    elsewhere: list[int]


class Hashed(TypedDict):
    """The answer to a `HashRequest`."""

    sha256: str


class Places(HowMany):
    """The first part of a `WhyHereRequest`. along: operators that have to come along."""

    along: int


class MovePart(TypedDict):
    """Another of its parts."""

    move: MoveRow


class Tried(TypedDict):
    """Its end."""

    took_s: float
    stopped: bool


class LeanPlan(TypedDict):
    """The answer to a `LeanRequest`."""

    plan: PlanView
