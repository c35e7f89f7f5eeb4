"""The real backend: warm worker processes that solve, and one each that runs plans and reads files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from demo_models import MODELS
from explorer.jobs.past_runs import past_runs
from explorer.jobs.requests import KIND_OF, READ, RUN, SEARCH, Request
from explorer.jobs.workers.jobs import Jobs
from explorer.jobs.workers.specs import READING, RUNNING, default_workers, memory_bytes, solving_spec
from explorer.question.accelerators import DEFAULT_KIND
from explorer.question.loading import is_callable
from explorer.question.models.example import undivided
from explorer.runner.targets.registry import load_targets
from explorer.sweeps.execution.workers import cores
from explorer.view.events import Event
from explorer.view.run_events import PastRun
from explorer.web.contract.backend import (
    Catalogue,
    ClusterEntry,
    KindEntry,
    ModelEntry,
    PlannerEntry,
    TargetEntry,
)
from solvers.errors import InvalidProblem
from solvers.problem.cluster import CPU_KIND

KIND_WORDS = {"local": "this machine", "ray": "Ray cluster"}
FIRST_MODEL, FIRST_PLANNER = "gpt", "auto"


RequestT = TypeVar("RequestT")


@dataclass(frozen=True, slots=True)
class OwnersFile:
    """name: what pages call it, in place of a path of this machine. path: the model as workers load it."""

    name: str
    path: str

    def located(self, request: RequestT) -> RequestT:
        """A request of a page (one of `explorer.jobs.requests`) with the path in place of the name."""
        by_path: Any = request
        if getattr(by_path, "model", None) == self.name:
            by_path = replace(by_path, model=self.path)
        elif getattr(getattr(by_path, "search", None), "model", None) == self.name:
            by_path = replace(by_path, search=replace(by_path.search, model=self.path))
        return cast(RequestT, by_path)


def owners_file(model: str) -> OwnersFile:
    """Of a model as the command line names it; what is no file is called what it is."""
    if model in MODELS or not os.path.isfile(model):
        return OwnersFile(model, model)
    name = os.path.basename(model)
    return OwnersFile(f"./{name}" if name in MODELS else name, os.path.abspath(model))


class JobsBackend:
    """Solves in workers of which one is started at once. model: what the page shows first; a demo name, or
    a file or callable named by the person who starts the server. workers: how many search at most, by default what
    the machine takes. all_idle: whether they are all started before anybody asks, not when they are needed."""

    def __init__(self, model: str | None = None, workers: int | None = None, all_idle: bool = False) -> None:
        self._given = None if model is None else owners_file(model)
        memory = memory_bytes()
        workers = workers or default_workers(cores(), memory)
        solving = Jobs(solving_spec(workers, memory), workers, interactive=True)
        solving.warm(workers if all_idle else 1)
        self._jobs = {SEARCH: solving, RUN: Jobs(RUNNING), READ: Jobs(READING)}

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
        kind = KIND_OF[type(request)]
        located = request if self._given is None else self._given.located(request)
        return f"{kind.workers}-{self._jobs[kind.workers].start(kind.name, located, on_event, visitor)}"

    def expect_file(self) -> None:
        self._jobs[READ].warm()

    def past_runs(self, model: str) -> list[PastRun]:
        return past_runs(model)

    def may_run(self, model: str) -> bool:
        from demo_models import MODELS

        try:
            whole = undivided(model)
        except InvalidProblem:
            return False
        return whole in MODELS or (self._given is not None and whole == self._given.name and is_callable(whole))

    def cancel(self, job: str) -> None:
        workers, _, number = job.partition("-")
        self._jobs[workers].cancel(number)

    def close(self) -> None:
        for jobs in reversed(self._jobs.values()):
            jobs.close()
