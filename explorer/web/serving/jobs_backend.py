"""The real backend: warm worker processes that solve, and one each that runs plans and reads files."""

from __future__ import annotations

import copy
from collections.abc import Callable

from explorer.jobs.past_runs import past_runs
from explorer.jobs.requests import (
    ABOUT,
    About,
    PlaceRequest,
    PrepareRequest,
    ReadRequest,
    ReplanRequest,
    RunPlanRequest,
    ShowRunRequest,
)
from explorer.jobs.workers.jobs import Jobs
from explorer.jobs.workers.machine import cores, default_workers, memory_bytes, solving_spec
from explorer.jobs.workers.specs import READING, RUNNING
from explorer.question.accelerators import DEFAULT_KIND
from explorer.question.loading import is_callable
from explorer.runner.targets.registry import load_targets
from explorer.view.events import Event
from explorer.view.run_events import PastRun
from explorer.web.contract.backend import (
    Catalogue,
    ClusterEntry,
    CompareRequest,
    KindEntry,
    ModelEntry,
    PlannerEntry,
    SolveRequest,
    TargetEntry,
)
from explorer.web.serving.owners_file import owners_file
from solvers.problem.cluster import CPU_KIND

RUN = "run-"
"""Before the id of a job of the worker that runs plans."""
READ = "read-"
"""Before the id of a job of the worker that reads files."""
KIND_WORDS = {"local": "this machine", "ray": "Ray cluster"}
FIRST_MODEL, FIRST_PLANNER = "gpt", "auto"


class JobsBackend:
    """Solves in workers of which one is started at once. model: what the page shows first; a demo name, or
    a file or callable named by the person who starts the server. workers: how many search at most, by default what
    the machine takes. all_idle: whether they are all started before anybody asks, not when they are needed."""

    def __init__(self, model: str | None = None, workers: int | None = None, all_idle: bool = False) -> None:
        self._given = None if model is None else owners_file(model)
        self._visitor = ""
        memory = memory_bytes()
        workers = workers or default_workers(cores(), memory)
        self._jobs = Jobs(solving_spec(workers, memory), workers, interactive=True)
        self._jobs.warm(workers if all_idle else 1)
        self._runs = Jobs(RUNNING)
        self._reads = Jobs(READING)

    def of(self, visitor: str) -> JobsBackend:
        found = copy.copy(self)
        found._visitor = visitor
        return found

    def catalogue(self) -> Catalogue:
        from demo_models import MODELS
        from explorer.costs.devices import DEVICES
        from explorer.costs.times.store import PROFILE, TIMES, names
        from explorer.question.nodes.presets import OFFERED, preset_devices, preset_title
        from solvers.planners.purposes import PURPOSES, purpose_of
        from solvers.planners.registry import PLANNERS

        models = [ModelEntry(name, getattr(demo, "description", "")) for name, demo in MODELS.items()]
        first = FIRST_MODEL if self._given is None else self._given.name
        if all(m.name != first for m in models):
            models.append(ModelEntry(first, "given on the command line"))
        planners = [PlannerEntry(name, p.guarantee, p.source, purpose_of(name)) for name, p in PLANNERS.items()]
        order = {name: place for place, name in enumerate(name for each in PURPOSES.values() for name in each)}
        kinds = [KindEntry(name, kind.memory_bytes) for name, kind in DEVICES.items() if name != CPU_KIND]
        return Catalogue(
            tuple(sorted(models, key=lambda m: m.name != first)),
            tuple(sorted(planners, key=lambda p: (p.name != FIRST_PLANNER, order.get(p.name, len(order))))),
            tuple(sorted(kinds, key=lambda k: k.name != DEFAULT_KIND)),
            tuple(TargetEntry(name, KIND_WORDS[setup.kind]) for name, setup in load_targets().setups.items()),
            tuple(ClusterEntry(name, preset_title(name), *preset_devices(name)) for name in OFFERED),
            tuple(names(PROFILE)),
            tuple(names(TIMES)),
        )

    def start(self, request: SolveRequest, on_event: Callable[[Event], None]) -> str:
        return self._solving("solve", request, on_event)

    def compare(self, request: CompareRequest, on_event: Callable[[Event], None]) -> str:
        return self._solving("compare", request, on_event)

    def prepare(self, request: PrepareRequest, on_event: Callable[[Event], None]) -> str:
        return self._solving("prepare", request, on_event)

    def run(self, request: RunPlanRequest | ReplanRequest, on_event: Callable[[Event], None]) -> str:
        kind = "replan" if isinstance(request, ReplanRequest) else "run"
        return RUN + self._runs.start(kind, self._located(request), on_event)

    def show_run(self, request: ShowRunRequest, on_event: Callable[[Event], None]) -> str:
        return self._solving("show-run", request, on_event)

    def expect_file(self) -> None:
        self._reads.warm()

    def read(self, request: ReadRequest, on_event: Callable[[Event], None]) -> str:
        return READ + self._reads.start("read", request, on_event, self._visitor)

    def place(self, request: PlaceRequest, on_event: Callable[[Event], None]) -> str:
        return self._solving("place", request, on_event)

    def about(self, request: About, on_event: Callable[[Event], None]) -> str:
        return self._solving(ABOUT[type(request)], request, on_event)

    def _solving(self, kind: str, request: object, on_event: Callable[[Event], None]) -> str:
        return self._jobs.start(kind, self._located(request), on_event, self._visitor)

    def _located(self, request: object) -> object:
        return request if self._given is None else self._given.located(request)

    def past_runs(self, model: str) -> list[PastRun]:
        return past_runs(model)

    def may_run(self, model: str) -> bool:
        from demo_models import MODELS

        return model in MODELS or (self._given is not None and model == self._given.name and is_callable(model))

    def cancel(self, job: str) -> None:
        if job.startswith(RUN):
            self._runs.cancel(job.removeprefix(RUN))
        elif job.startswith(READ):
            self._reads.cancel(job.removeprefix(READ))
        else:
            self._jobs.cancel(job)

    def close(self) -> None:
        self._reads.close()
        self._runs.close()
        self._jobs.close()
