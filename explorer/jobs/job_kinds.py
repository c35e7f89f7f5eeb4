"""What a worker can be asked to do. Imported in the worker only: this is where torch may load."""

from __future__ import annotations

import gc
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from explorer.jobs.comparison import Entry, compare, entries
from explorer.jobs.held_plans import hold
from explorer.jobs.replan_kind import replan_job
from explorer.jobs.requests import CompareRequest, Emit, SolveRequest, Work
from explorer.jobs.run_kinds import prepare_job, run_job, show_run_job
from explorer.jobs.telling import REDRAW_S, Telling
from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.view import events
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Status
from solvers.planners.infeasibility import explain_infeasible
from solvers.planners.solve import solve

KEPT = 8
"""Traced models a worker keeps."""

_workloads: OrderedDict[tuple[str, bool, str | None], Workload] = OrderedDict()


def workload_of(model: str, training: bool, dtype: str | None, emit: Emit) -> Workload:
    """The traced model, from memory if it was asked for before."""
    key = (model, training, dtype)
    if key in _workloads:
        _workloads.move_to_end(key)
        return _workloads[key]
    emit(events.loading(f"tracing {model}"))
    _workloads[key] = load(model, training=training, dtype=dtype)
    gc.freeze()  # torch and the graph: hundreds of thousands of objects that stay
    while len(_workloads) > KEPT:
        _workloads.popitem(last=False)
    return _workloads[key]


def applicable(settings: Settings, workload: Workload) -> Settings:
    """The settings that mean something for this workload: the page always sends all of them.

    A file is for training or not, and one that states its own times knows no device kinds of ours.
    """
    kind = None if workload.compute is not None else settings.device_kind
    return replace(settings, training=None, device_kind=kind)


def solve_job(request: SolveRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Trace or fetch the model, solve, and emit model, progress and result events."""
    workload = workload_of(request.model, request.settings.training is not False, request.settings.dtype, emit)
    problem = make_problem(workload, applicable(request.settings, workload))
    emit(events.model(workload, request.known))

    def tell(step: Progress, plan: Plan | None, since: Sequence[Progress]) -> None:
        emit(events.progress(problem, request.planner, step, plan, since))

    telling = Telling(tell)

    def stops() -> bool:
        telling.beat()
        return should_stop()

    outcome = solve(
        problem,
        request.planner,
        time_limit_s=request.time_limit_s,
        seed=request.seed,
        effort=request.effort,
        should_stop=stops,
        on_progress=telling.step,
    )
    fits = bound = None
    if outcome.plan is None and not should_stop() and outcome.status is not Status.OPTIMAL:
        emit(events.loading("looking for the smallest memory cap that fits"))
        found = explain_infeasible(problem, should_stop=should_stop)
        fits, bound = found.smallest_cap_bytes, found.cap_lower_bound_bytes
    emit(events.result(outcome, fits, bound, hold(outcome, workload.reference)))


def compare_job(request: CompareRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Trace or fetch the model, run one planner after the other, and emit model, comparing, row and
    compared events. A stop keeps the rows that are there, and the plan of the run at hand."""
    workload = workload_of(request.model, request.settings.training is not False, request.settings.dtype, emit)
    problem = make_problem(workload, applicable(request.settings, workload))
    emit(events.model(workload, request.known))
    family = entries(problem, request.planners, request.contiguities)
    position, planner, told = 0, "", 0.0

    def on_begin(which: int, entry: Entry) -> None:
        nonlocal position, planner, told
        position, planner, told = which + 1, entry.planner, 0.0

    def on_progress(step: Progress, _: Plan | None) -> None:
        nonlocal told
        now = time.perf_counter()
        if now - told >= REDRAW_S:
            told = now
            emit(events.comparing(position, len(family), planner, step))

    done = []
    for compared in compare(
        family,
        time_limit_s=request.time_limit_s,
        seed=request.seed,
        effort=request.effort,
        should_stop=should_stop,
        on_begin=on_begin,
        on_progress=on_progress,
    ):
        done.append(compared.row)
        held = "" if compared.result is None else hold(compared.result, workload.reference)
        emit(events.row(compared.row, problem.objective, compared.result, held))
    emit(events.compared(done, len(family)))


KINDS: dict[str, Work] = {
    "solve": solve_job,
    "compare": compare_job,
    "prepare": prepare_job,
    "run": run_job,
    "show-run": show_run_job,
    "replan": replan_job,
}
