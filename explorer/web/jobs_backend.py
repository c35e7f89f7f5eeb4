"""The real backend: one warm worker process (`explorer.jobs`)."""

from __future__ import annotations

from collections.abc import Callable

from explorer.accelerators import DEFAULT_KIND
from explorer.jobs import Jobs
from explorer.view.events import Event
from explorer.web.backend import Catalogue, CompareRequest, KindEntry, ModelEntry, PlannerEntry, SolveRequest
from solvers.cluster import CPU_KIND

FIRST_MODEL, FIRST_PLANNER = "gpt", "auto"


class JobsBackend:
    """Solves in a worker that is started at once. model: what the page shows first; a demo name, or
    a file or callable named by the person who starts the server."""

    def __init__(self, model: str | None = None) -> None:
        self._model = model
        self._jobs = Jobs()
        self._jobs.warm()

    def catalogue(self) -> Catalogue:
        from demo_models import MODELS
        from explorer.costs.devices import DEVICES
        from solvers.planners import PLANNERS

        models = [ModelEntry(name, getattr(demo, "description", "")) for name, demo in MODELS.items()]
        first = self._model or FIRST_MODEL
        if self._model is not None and all(m.name != self._model for m in models):
            models.append(ModelEntry(self._model, "given on the command line"))
        planners = [PlannerEntry(name, p.guarantee, p.source) for name, p in PLANNERS.items()]
        kinds = [KindEntry(name, kind.memory_bytes) for name, kind in DEVICES.items() if name != CPU_KIND]
        return Catalogue(
            tuple(sorted(models, key=lambda m: m.name != first)),
            tuple(sorted(planners, key=lambda p: p.name != FIRST_PLANNER)),
            tuple(sorted(kinds, key=lambda k: k.name != DEFAULT_KIND)),
        )

    def start(self, request: SolveRequest, on_event: Callable[[Event], None]) -> str:
        return self._jobs.start("solve", request, on_event)

    def compare(self, request: CompareRequest, on_event: Callable[[Event], None]) -> str:
        return self._jobs.start("compare", request, on_event)

    def cancel(self, job: str) -> None:
        self._jobs.cancel(job)

    def close(self) -> None:
        self._jobs.close()
