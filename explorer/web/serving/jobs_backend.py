"""The real backend: warm worker processes that solve, and one each that runs plans and reads files."""

from __future__ import annotations

from collections.abc import Callable

from explorer.jobs.past_runs import past_runs
from explorer.jobs.requests import (
    ABOUT,
    CompareRequest,
    PlaceRequest,
    PrepareRequest,
    ReadRequest,
    ReplanRequest,
    RunPlanRequest,
    ShowRunRequest,
    SolveRequest,
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
    KindEntry,
    ModelEntry,
    PlannerEntry,
    Request,
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
KIND_OF: dict[type, str] = ABOUT | {
    SolveRequest: "solve",
    CompareRequest: "compare",
    PrepareRequest: "prepare",
    RunPlanRequest: "run",
    ReplanRequest: "replan",
    ShowRunRequest: "show-run",
    ReadRequest: "read",
    PlaceRequest: "place",
}
"""The kind of job for each request, see `explorer.jobs.job_kinds`."""


class JobsBackend:
    """Solves in workers of which one is started at once. model: what the page shows first; a demo name, or
    a file or callable named by the person who starts the server. workers: how many search at most, by default what
    the machine takes. all_idle: whether they are all started before anybody asks, not when they are needed."""

    def __init__(self, model: str | None = None, workers: int | None = None, all_idle: bool = False) -> None:
        self._given = None if model is None else owners_file(model)
        memory = memory_bytes()
        workers = workers or default_workers(cores(), memory)
        self._jobs = Jobs(solving_spec(workers, memory), workers, interactive=True)
        self._jobs.warm(workers if all_idle else 1)
        self._runs = Jobs(RUNNING)
        self._reads = Jobs(READING)

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

    def start(self, request: Request, on_event: Callable[[Event], None], visitor: str = "") -> str:
        prefix, jobs = self._of_request(request)
        return prefix + jobs.start(KIND_OF[type(request)], self._located(request), on_event, visitor)

    def _of_request(self, request: Request) -> tuple[str, Jobs]:
        """The workers for a request, and what the ids of their jobs begin with."""
        if isinstance(request, RunPlanRequest | ReplanRequest):
            return RUN, self._runs
        return (READ, self._reads) if isinstance(request, ReadRequest) else ("", self._jobs)

    def expect_file(self) -> None:
        self._reads.warm()

    def _located(self, request: Request) -> Request:
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
