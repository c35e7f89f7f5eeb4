"""How long a job may go on without a sign of getting on: its own limit and a margin, and a limit for what comes before.

Signs are the model, a row of a comparison, an answer of several, and the end of a compilation, which nothing else can
interrupt. Whoever asked is told what took too long, and what to do.
"""

from __future__ import annotations

from explorer.jobs.limits import READ_S
from explorer.jobs.requests import KIND_OF, RUN
from explorer.jobs.workers.job import Job
from explorer.jobs.workers.needs import model_of
from explorer.words import text

TRACE_S = 600.0
"""For tracing or reading a model."""
MARGIN_S = 120.0
"""For what a search does beyond its time limit: a large plan is checked, told and drawn."""
BRIEF_S = 120.0
"""For a job that ends by itself soon."""
NEVER = {kind.name for kind in KIND_OF.values() if kind.workers == RUN}
"""Runs of plans have limits of their own, and everybody sees and can end them."""


def allowed_s(job: Job) -> float | None:
    """Seconds until the next sign, or the end; None for as long as it likes."""
    if job.kind in NEVER:
        return None
    if job.kind == "read":
        return READ_S
    if job.brief:
        return BRIEF_S
    if not job.steps and model_of(job.request):
        return TRACE_S
    return _limit_s(job.request) + MARGIN_S


def words(job: Job, seconds: float) -> str:
    """What was ended after ``seconds``, and what to do."""
    took = f"more than {text.seconds(seconds)}"
    if job.kind == "read":
        return f"not read: it takes {took}"
    if job.brief:
        return f"this took {took} and was ended: ask it of a smaller plan, or on the command line"
    if not job.steps and model_of(job.request):
        return f"tracing this model took {took} and was ended: export it to a .pt2 and open that"
    limit = text.seconds(_limit_s(job.request))
    less = "fewer micro-batches, devices or operators take less"
    return f"the search, with a time limit of {limit}, took {took} and was ended: {less}"


def _limit_s(request: object) -> float:
    limit_s = getattr(getattr(request, "ask", request), "time_limit_s", 0.0)
    return float(limit_s) if isinstance(limit_s, (int, float)) else 0.0
