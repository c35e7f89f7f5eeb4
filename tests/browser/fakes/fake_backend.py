"""A backend without an engine: hand-made plans of the chain, reported as a real worker reports them.

A comparison has the planners "auto" (the even plan), "single" (all on one device) and "round", which
cannot be asked; under a time limit of more than a minute "slow" is compared too, until it is stopped.
The model "branches" is planned for seven devices, as a DAG of stages, or as a row of them if they are to
be in sequence; of the chain every planner makes the even plan.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from explorer.jobs import run_kinds
from explorer.jobs.held_plans import hold
from explorer.jobs.job_kinds import KINDS
from explorer.jobs.past_runs import past_runs
from explorer.jobs.read_kind import read_job
from explorer.jobs.replan import replan_job
from explorer.jobs.requests import (
    KIND_OF,
    CompareRequest,
    PrepareRequest,
    ReadRequest,
    ReplanRequest,
    Request,
    RunPlanRequest,
    ShowRunRequest,
    SolveRequest,
    Work,
)
from explorer.jobs.workers import worker
from explorer.view import events
from explorer.view.comparison import UNSUPPORTED, Row, result_row
from explorer.view.events import Event
from explorer.view.run_events import PastRun
from explorer.view.session import IN_SEQUENCE, PAIR
from explorer.web.contract.backend import Catalogue, KindEntry, ModelEntry, PlannerEntry, TargetEntry
from solvers.evaluation.evaluate import evaluate
from solvers.evaluation.simulation import simulate
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result, Status, StopReason
from solvers.problem.cluster import Wires, two_level_cluster
from solvers.problem.problem import Contiguity, Problem
from solvers.schedules.assemble import assemble
from tests.browser.fakes import fake_runs
from tests.explorer.view.lattice import lattice_problem, lattice_workload, operator_plan
from tests.explorer.view.small import (
    GIB,
    branches_problem,
    branches_workload,
    chain_problem,
    chain_workload,
    even_plan,
    pair_plans,
)

LATTICES = {"lattice": (4, 3, 4), "lattice-large": (20, 6, 6)}
"""Blocks, branches and their length."""
IMPROVES_S = 0.6
"""When "slow" finds a lattice's better plan."""
BUSY_S = 60.0
"""How long the planner "slow" pretends to search."""


def worked(job: Work) -> Callable[..., None]:
    """A real kind of job, as a worker would run it."""
    return lambda request, on_event, stop: worker.run(job, request, on_event, stop.is_set)


class FakeBackend:
    """Plans the chain at once; "slow" improves its plan until it is cancelled or its time is up."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._stops: dict[str, threading.Event] = {}

    def catalogue(self) -> Catalogue:
        return Catalogue(
            (
                ModelEntry("chain", "8 blocks of 12 operators"),
                ModelEntry("branches", "three branches and a join"),
                ModelEntry("lattice", "blocks of branches, planned operator by operator"),
                ModelEntry("lattice-large", "the same with 2,280 operators"),
                ModelEntry("broken", "does not load"),
            ),
            (
                PlannerEntry("auto", "exact", "hand-made"),
                *(
                    PlannerEntry(name, "heuristic", "hand-made")
                    for name in ("slow", "single", "round", *(member.removesuffix(IN_SEQUENCE) for member in PAIR))
                ),
            ),
            (KindEntry("V100-16GB", 16 * GIB), KindEntry("H100-80GB", 80 * GIB)),
            tuple(TargetEntry(name, "a pretence") for name in fake_runs.NAMES),
        )

    def expect_file(self) -> None:
        pass

    def start(self, request: Request, on_event: Callable[[Event], None], visitor: str = "") -> str:
        return self._begin(self._job_of(request), request, on_event)

    def _job_of(self, request: Request) -> Callable[..., None]:
        """Hand-made answers to questions, and real work of runs, files and plans."""
        targets = fake_runs.FakeTargets()
        match request:
            case SolveRequest():
                return self._run
            case CompareRequest():
                return self._compare
            case PrepareRequest():
                return worked(partial(run_kinds.prepare_job, targets=targets))
            case RunPlanRequest():
                return worked(partial(run_kinds.run_job, targets=targets))
            case ReplanRequest():
                return worked(partial(replan_job, targets=targets))
            case ShowRunRequest():
                return worked(partial(run_kinds.show_run_job, targets=targets))
            case ReadRequest():
                return worked(read_job)
        return worked(KINDS[KIND_OF[type(request)].name])

    def past_runs(self, model: str) -> list[PastRun]:
        return past_runs(model)

    def may_run(self, model: str) -> bool:
        return True

    def _begin(self, run: Callable[..., None], request: object, on_event: Callable[[Event], None]) -> str:
        job = f"job{next(self._numbers)}"
        stop = self._stops[job] = threading.Event()
        threading.Thread(target=self._guarded, args=(run, request, on_event, stop), daemon=True).start()
        return job

    def cancel(self, job: str) -> None:
        if job in self._stops:
            self._stops[job].set()

    def close(self) -> None:
        for stop in self._stops.values():
            stop.set()

    def _guarded(
        self, run: Callable[..., None], request: object, on_event: Callable[[Event], None], stop: threading.Event
    ) -> None:
        try:
            run(request, on_event, stop)
        except Exception as error:
            on_event(events.failed(f"{type(error).__name__}: {error}"))
            raise

    def _run(self, request: SolveRequest, on_event: Callable[[Event], None], stop: threading.Event) -> None:
        if request.model == "broken":
            on_event(events.failed("broken: this model is here to fail"))
            return
        problem = self._problem(request)
        on_event(events.model(self._workload(request)))
        plan = self._plan(request, problem)
        schedule = simulate(problem, plan)
        objective, started = schedule.makespan_s, time.perf_counter()
        if max(schedule.peak_bytes()) > problem.cluster.devices[0].memory_bytes:
            none = Result(problem, None, Status.INFEASIBLE, StopReason.FINISHED, math.inf, 0.0, 0.01, request.planner)
            on_event(events.result(none, max(schedule.peak_bytes()) * 1.01, max(schedule.peak_bytes()) * 0.6))
            return
        status, reason, bound = Status.OPTIMAL, StopReason.FINISHED, objective
        trace = [Progress(0.0, math.inf, bound, "bound")]
        if request.planner == "slow":
            status, reason, bound = Status.FEASIBLE, StopReason.TIME_LIMIT, objective * 0.8
            first = operator_plan(problem, alone=True) if request.model in LATTICES else plan
            first_s = simulate(problem, first).makespan_s
            while not stop.wait(0.1):
                elapsed = time.perf_counter() - started
                late = elapsed > IMPROVES_S
                step = Progress(elapsed, objective if late else first_s, bound)
                trace.append(step)
                on_event(events.progress(problem, "slow", step, plan if late else first))
                if elapsed > min(BUSY_S, request.time_limit_s):
                    break
            if stop.is_set():
                reason = StopReason.CANCELLED
        took = time.perf_counter() - started
        trace.append(Progress(took, objective, bound))
        done = Result(problem, plan, status, reason, objective, bound, took, request.planner, trace=tuple(trace))
        on_event(events.result(done, held=hold(done, self._workload(request).reference)))

    def _compare(self, request: CompareRequest, on_event: Callable[[Event], None], stop: threading.Event) -> None:
        problem = self._problem(request)
        on_event(events.model(self._workload(request)))
        if request.planners:
            rows = [
                self._row(problem, name, self._plan(request, problem), Status.FEASIBLE, on_event)
                for name in request.planners
            ]
            on_event(events.compared(rows, len(rows)))
            return
        single = assemble(problem, [(0,)] * len(problem.graph), problem.micro_batches)
        rows = []
        for contiguity in request.contiguities or (request.settings.contiguity or Contiguity.ACYCLIC,):
            question = replace(problem, contiguity=contiguity)
            rows.append(Row("round", contiguity.value, "heuristic", "hand-made", UNSUPPORTED, reason="it is square"))
            on_event(events.row(rows[-1], problem.objective, None))
            for planner, plan, status in (
                ("single", single, Status.FEASIBLE),
                ("auto", even_plan(problem), Status.OPTIMAL),
            ):
                rows.append(self._row(question, planner, plan, status, on_event))
        if request.time_limit_s > 60:
            step = Progress(0.1, simulate(problem, single).makespan_s, 0.0)
            on_event(events.comparing(4, 4, "slow", step))
            stop.wait(BUSY_S)
            rows.append(self._row(problem, "slow", single, Status.FEASIBLE, on_event))
        on_event(events.compared(rows, len(rows)))

    @staticmethod
    def _row(problem: Problem, planner: str, plan: Plan, status: Status, on_event: Callable[[Event], None]) -> Row:
        metrics = evaluate(problem, plan)
        took = metrics.iteration_s
        bound = took if status is Status.OPTIMAL else took / 10
        result = Result(problem, plan, status, StopReason.FINISHED, took, bound, 0.01, planner)
        row = result_row(planner, "exact", "hand-made", result, metrics)
        on_event(events.row(row, problem.objective, result))
        return row

    @staticmethod
    def _workload(request: SolveRequest | CompareRequest) -> Workload:
        if request.model in LATTICES:
            return lattice_workload(*LATTICES[request.model])
        return branches_workload() if request.model == "branches" else chain_workload()

    @staticmethod
    def _plan(request: SolveRequest | CompareRequest, problem: Problem) -> Plan:
        if request.model in LATTICES:
            return operator_plan(problem)
        if request.model != "branches":
            return even_plan(problem)
        return pair_plans(problem)[request.settings.in_sequence]

    @staticmethod
    def _problem(request: SolveRequest | CompareRequest) -> Problem:
        settings = request.settings
        if request.model in LATTICES:
            return lattice_problem(settings.devices or 4, *LATTICES[request.model], settings.links is Wires.SHARED)
        if request.model == "branches":
            return branches_problem(
                7, settings.micro_batches or 8, settings.pipeline, 2 if settings.devices_per_node else 1
            )
        devices = settings.devices or 4
        own = 16 * GIB if settings.device_kind in (None, "V100-16GB") else 80 * GIB
        mini = settings.mini_batch or 16
        micro = settings.micro_batches or math.gcd(mini, 8)
        problem = chain_problem(devices, settings.memory_bytes or own, mini, micro, settings.pipeline)
        if settings.devices_per_node:
            placed = [replace(d, node=i // settings.devices_per_node) for i, d in enumerate(problem.cluster.devices)]
            problem = replace(problem, cluster=two_level_cluster(placed, 25e9, 5e-6, 25e9, 5e-6))
        return replace(
            problem, training=settings.training is not False, contiguity=settings.contiguity or Contiguity.ACYCLIC
        )
