"""What a worker can be asked to do. Imported in the worker only: this is where torch may load."""

from __future__ import annotations

import gc
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from explorer.costs.devices import DEVICES
from explorer.costs.profile_json import load_profile
from explorer.costs.times.library_json import load_library
from explorer.jobs.comparison import Entry, compare, entries
from explorer.jobs.held_plans import carried_picture, file_from, hold, with_carried_note
from explorer.jobs.plan_kinds import differ_job, export_job, hash_job, lean_job, review_job, why_here_job
from explorer.jobs.progress_relay import REDRAW_S, ProgressRelay
from explorer.jobs.read_kind import load_opened, plainly
from explorer.jobs.replan import replan_job
from explorer.jobs.requests import (
    AskRequest,
    CompareRequest,
    Emit,
    Files,
    HelpRequest,
    PlaceRequest,
    RemedyRequest,
    SolveRequest,
    SweepRequest,
    Work,
)
from explorer.jobs.run_kinds import prepare_job, run_job, show_run_job
from explorer.library.cached_solver import noting
from explorer.library.place import graphs_beside, library_path
from explorer.library.question_key import Terms
from explorer.question.cluster_file import load_cluster
from explorer.question.clusters import make_cluster
from explorer.question.expert import load_expert
from explorer.question.graphs.demos import in_dtype
from explorer.question.loading import is_traced, load, traced_already, whole_name
from explorer.question.models.example import of_degree, of_parts, searches_degrees, sizes_of, split_example
from explorer.question.nodes.groups import ANY_MEMBERS, Members, members_of
from explorer.question.packing import packed_result, unpacked_problem
from explorer.question.planner_choice import choose_planner
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.question.tracer import Stopped, Tracer
from explorer.runner.scripts.with_engine import runtime_estimator
from explorer.sweeps.degrees import search_degrees
from explorer.sweeps.execution.questions import Limits
from explorer.sweeps.helps import LIMITS, changes, helped
from explorer.sweeps.points import points, worth_asking
from explorer.sweeps.remedies import remedies, ways_out
from explorer.sweeps.sweep import row_object, sweep_rows
from explorer.view import events
from explorer.view.graph.skeleton import skeleton
from explorer.words import text
from solvers.errors import InvalidProblem, PlacementError
from solvers.evaluation.evaluate import evaluate
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result, Status
from solvers.planners.infeasibility import explain_infeasible
from solvers.planners.shortfall import shortfall
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from solvers.search.planner import Planner

NO_FILES = Files()
MOST_WORKLOADS = 8
"""Traced models a worker keeps."""

MOMENT_S = 1.0
"""A search whose first plan took longer is not made a second time."""

TRACING_S = 0.5
"""Seconds between two reports of a trace's progress."""

Key = tuple[str, bool, str | None, Members]

_tracer = Tracer()
_divided_as: dict[str, str] = {}
"""By models whose degree is searched: that of the last answer."""
_workloads: OrderedDict[Key, Workload] = OrderedDict()


def workload_of(
    model: str,
    training: bool,
    dtype: str | None,
    emit: Emit,
    should_stop: Callable[[], bool],
    members: Members = ANY_MEMBERS,
) -> Workload:
    """The traced model, from memory if it was asked for before; divided, where its name says so, by the times of
    ``members``. Raises Stopped."""
    key = (model, training, dtype, members)
    if key in _workloads:
        _workloads.move_to_end(key)
        return _workloads[key]
    graphs = graphs_beside(library_path())
    if (already := traced_already(model, training, dtype, graphs, members)) is not None:
        return _store(key, already)
    opened = os.path.isabs(model) and os.path.isfile(model)
    whole = members == ANY_MEMBERS
    if dtype is not None and whole and not opened and (derived := _derived(model, training, dtype)) is not None:
        return _store(key, derived)
    name = os.path.basename(model)
    emit(events.loading(f"{'reading' if opened else 'tracing'} {name}"))
    if opened or os.path.isfile(model) or not is_traced(model):
        return _store(
            key, load_opened(model, name, training) if opened else load(model, training=training, dtype=dtype)
        )
    sent_s = 0.0

    def report(calls: int, seconds: float) -> None:
        nonlocal sent_s
        if seconds - sent_s >= TRACING_S:
            sent_s = seconds
            emit(events.loading(f"tracing {name}: {text.plural(calls, 'call')} so far, {seconds:.0f} s"))

    return _store(key, _tracer.trace(model, training, dtype, report, should_stop, graphs, members))


def _derived(model: str, training: bool, dtype: str) -> Workload | None:
    """The model in this dtype, from what was traced of it in its own."""
    own = _workloads.get((model, training, None, ANY_MEMBERS))
    return None if own is None else in_dtype(own, dtype)


def _store(key: Key, workload: Workload) -> Workload:
    _workloads[key] = workload
    gc.freeze()  # torch and the graph: hundreds of thousands of objects that stay
    while len(_workloads) > MOST_WORKLOADS:
        _workloads.popitem(last=False)
    return workload


def applicable(settings: Settings, workload: Workload, files: Files = NO_FILES) -> Settings:
    """The settings that mean something for this workload: the page always sends all of them. files: what takes the
    place of some of them. Raises InvalidProblem.

    A file is for training or not, and one that states its own times knows no device kinds of ours.
    """
    kind = None if workload.compute is not None else settings.device_kind
    applied = replace(settings, training=None, device_kind=kind)
    if files.profile:
        applied = replace(applied, profile=load_profile(files.profile), device_kind=None)
    if files.times:
        applied = replace(applied, times=(load_library(files.times),), device_kind=None)
    if files.cluster:
        cluster = load_cluster(files.cluster)
        applied = replace(applied, cluster=cluster, devices=None, device_kind=None, bandwidth_bytes_per_s=None)
        applied = replace(applied, latency_s=None, devices_per_node=None, links=None, cpus=None)
    return applied


def _question(
    request: SolveRequest | CompareRequest | PlaceRequest, emit: Emit, should_stop: Callable[[], bool]
) -> tuple[Workload, Settings, Problem]:
    """The traced model, the settings that mean something for it, and the problem they make. Raises Stopped."""
    name = request.model
    if searches_degrees(name):
        name = _divided_as.get(name, of_degree(name, 1))
    workload = _divided(request, name, emit, should_stop)
    settings = applicable(request.settings, workload, request.files)
    return workload, settings, make_problem(workload, settings)


def _divided(
    request: SolveRequest | CompareRequest | PlaceRequest, name: str, emit: Emit, should_stop: Callable[[], bool]
) -> Workload:
    """The traced model, divided as ``name`` says by the times of the devices that are asked about. Raises Stopped."""
    settings, members = request.settings, ANY_MEMBERS
    training = settings.training is not False
    sizes = sizes_of(name)
    if max(sizes) > 1:
        whole = workload_of(whole_name(name), training, settings.dtype, emit, should_stop)
        cluster = make_cluster(whole, applicable(settings, whole, request.files))
        example = split_example(name)[1]
        members = members_of(
            cluster, max(sizes), name, in_parts=len(sizes) > 1, axis=example.axis, outer_degree=example.outer_degree
        )
    return workload_of(name, training, settings.dtype, emit, should_stop, members)


def _terms(request: SolveRequest | AskRequest | CompareRequest) -> Terms:
    return {"time_limit_s": request.time_limit_s, "seed": request.seed, "effort": request.effort}


def solve_job(request: SolveRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Trace or fetch the model, solve, and emit model, progress and result events."""
    if searches_degrees(request.model):
        if request.first_only:
            raise Stopped
        outcome, held = _over_degrees(request, emit, should_stop)
    else:
        workload, _, problem = _question(request, emit, should_stop)
        emit(events.model(workload))
        outcome, held = _searched(problem, workload.reference, request, emit, should_stop)
    emit(_answered(outcome, held, request, emit, should_stop))


def ask_job(request: AskRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Solve the problem, and emit progress and result events; the result holds the answer itself, packed, too."""
    problem = unpacked_problem(request.question)
    outcome, held = _searched(problem, request.reference, request, emit, should_stop)
    emit(_answered(outcome, held, request, emit, should_stop) | {"packed": packed_result(outcome)})


def _searched(
    problem: Problem, reference: str, request: SolveRequest | AskRequest, emit: Emit, should_stop: Callable[[], bool]
) -> tuple[Result, str]:
    """The answer to a question, and the name under which its plan is held; emits progress events. Raises Stopped with
    the first plan if that is all that is asked for, and was found in a moment: the search is made again."""
    began = time.perf_counter()
    name = request.planner if isinstance(request.planner, str) else request.planner.name
    carried_s = math.inf
    if request.before and (taken := carried_picture(problem, request.before)) is not None:
        carried_s = taken[1]
        carried = Progress(0.0, carried_s, 0.0, "the previous plan")
        emit(events.progress(problem, name, carried, taken[0]))

    def report(step: Progress, plan: Plan | None, since: Sequence[Progress]) -> None:
        shown = plan if step.objective_s <= carried_s else None  # what is drawn gets better only
        emit(events.progress(problem, name, step, shown, since))

    relay = ProgressRelay(report)

    def stops() -> bool:
        relay.poll()
        return should_stop()

    def end_with_first(step: Progress, plan: Plan | None) -> None:
        if plan is None or time.perf_counter() - began > MOMENT_S:
            relay.step(step, plan)
            return
        report(step, plan, ())
        raise Stopped

    first_only = isinstance(request, SolveRequest) and request.first_only
    with noting(library_path(), reference, request.fresh) as (solver, noted):
        outcome = solver(
            problem,
            _chosen(request),
            should_stop=stops,
            on_progress=end_with_first if first_only else relay.step,
            **(_terms(request) | {"second": runtime_estimator(problem)}),
        )
    outcome = with_carried_note(noted(outcome), carried_s)
    return outcome, hold(outcome, reference)


def _over_degrees(request: SolveRequest, emit: Emit, should_stop: Callable[[], bool]) -> tuple[Result, str]:
    """The best answer of all degrees of tensor parallelism, with the name under which its plan is held; emits what is
    being done, the best plans so far, each after the model as it is divided there, and that of the answer in the end.
    Raises Stopped."""
    searched: tuple[Workload, Problem] | None = None
    shown: Workload | None = None

    def traced(degree: int, parts: str | None = None) -> Workload:
        return _divided(request, of_parts(request.model, degree, parts), emit, should_stop)

    def report(step: Progress, plan: Plan | None, since: Sequence[Progress]) -> None:
        nonlocal shown
        assert searched is not None
        workload, problem = searched
        if plan is not None and shown is not workload:
            shown = workload
            emit(events.model(workload))
        emit(events.progress(problem, _chosen(request).name, step, plan, since))

    relay = ProgressRelay(report)

    def hear(workload: Workload, problem: Problem, step: Progress, plan: Plan | None) -> None:
        nonlocal searched
        searched = workload, problem
        relay.step(step, plan)

    def begin(words: str) -> None:
        relay.flush()
        if shown is None:  # afterwards a plan is drawn, and looked at
            emit(events.loading(words))

    def stops() -> bool:
        relay.poll()
        return should_stop()

    settings = applicable(request.settings, traced(1), request.files)
    with noting(library_path(), request.model, request.fresh) as (solver, noted):
        search = search_degrees(
            traced,
            settings,
            make_cluster(traced(1), settings),
            _chosen(request),
            terms=_terms(request),
            should_stop=stops,
            on_progress=hear,
            begin=begin,
            solver=lambda problem, *given, **terms: solver(problem, *given, second=runtime_estimator(problem), **terms),
        )
        outcome = noted(search.result)
    _divided_as[request.model] = search.workload.reference
    if shown is not search.workload:
        emit(events.model(search.workload))
    return outcome, hold(outcome, search.workload.reference)


def _chosen(request: SolveRequest | AskRequest) -> Planner:
    return choose_planner(request.planner) if isinstance(request.planner, str) else request.planner


def _answered(
    outcome: Result, held: str, request: SolveRequest | AskRequest, emit: Emit, should_stop: Callable[[], bool]
) -> events.ResultEvent:
    """The event of an answer; where nothing fits, with the smallest cap that would."""
    fits = bound = lack = None
    explain = not isinstance(request, AskRequest) or request.explain
    if outcome.plan is None and explain and not should_stop() and outcome.status is not Status.OPTIMAL:
        emit(events.loading("looking for the smallest memory cap that fits"))
        why = explain_infeasible(outcome.problem, _chosen(request), should_stop=should_stop)
        fits, bound = why.smallest_cap_bytes, why.cap_lower_bound_bytes
        lack = shortfall(outcome.problem)
    return events.result(outcome, fits, bound, held, lack)


def compare_job(request: CompareRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Trace or fetch the model, run one planner after the other, and emit model, comparing, row and
    compared events. A stop keeps the rows that are there, and the plan of the run at hand."""
    workload, _, problem = _question(request, emit, should_stop)
    emit(events.model(workload))
    family = entries(problem, request.planners, request.contiguities)
    position, planner, sent_s = 0, "", 0.0

    def on_begin(which: int, entry: Entry) -> None:
        nonlocal position, planner, sent_s
        position, planner, sent_s = which + 1, entry.planner, 0.0

    def on_progress(step: Progress, _: Plan | None) -> None:
        nonlocal sent_s
        now = time.perf_counter()
        if now - sent_s >= REDRAW_S:
            sent_s = now
            emit(events.comparing(position, len(family), planner, step))

    done = []
    with noting(library_path(), workload.reference) as (solver, _):
        for compared in compare(
            family,
            should_stop=should_stop,
            on_begin=on_begin,
            on_progress=on_progress,
            solver=solver,
            **_terms(request),
        ):
            done.append(compared.row)
            held = "" if compared.result is None else hold(compared.result, workload.reference)
            emit(events.row(compared.row, problem.objective, compared.result, held))
    emit(events.compared(done, len(family)))


def place_job(request: PlaceRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Judge a placement made by hand, and emit it as a plan. Raises InvalidProblem in one line."""
    workload, _, problem = _question(request, emit, should_stop)
    try:
        expert = load_expert(request.path, workload, problem.cluster)
        outcome = solve(problem, expert, should_stop=should_stop)
    except PlacementError as error:
        raise InvalidProblem(plainly(str(error), request.path, request.name)) from None
    if outcome.plan is None:
        why = outcome.notes[0] if outcome.notes else "it does not fit these devices"
        raise InvalidProblem(f"{request.name}: this placement makes no plan here: {why}")
    held = hold(outcome, workload.reference)
    view = events.held_view(outcome, held)
    assert view is not None
    drawn, words = skeleton(workload), f"placement of {request.name}"
    emit(events.placed({"plan": events.packed(view), "skeleton": drawn, "words": words}))


def help_job(request: HelpRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Tell first how many changes are tried, then the answer to each: words, controls, gain, reason, and the ``result``
    event of its plan as `events.packed_plan` leaves it, None without a plan."""
    search = request.search
    workload, settings, problem = _question(search, emit, should_stop)
    plan = file_from(request.plan).plan
    before_s = evaluate(problem, plan).objective_s(problem.objective)
    tried = changes(problem, settings, _own_memory(problem), request.most_devices)
    emit(events.part({"of": len(tried)}))
    with noting(library_path(), workload.reference) as (solver, _):
        for one in helped(
            workload,
            tried,
            choose_planner(search.planner),
            (problem, before_s),
            plan,
            replace(LIMITS, time_limit_s=search.time_limit_s, seed=search.seed),
            should_stop=should_stop,
            solver=solver,
        ):
            fields = {"words": one.change.words, "controls": dict(one.change.controls), "reason": one.reason}
            answer = None if one.result is None else events.packed_plan(
                events.result(one.result, held=hold(one.result, workload.reference))
            )  # fmt: skip
            emit(events.part(fields | {"gain": one.gain, "answer": answer}))
    emit(events.done({"stopped": should_stop()}))


def remedy_job(request: RemedyRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """A part for every way out of a question that has no plan, see `Remedy.as_object`, with its controls."""
    search = request.search
    workload, settings, problem = _question(search, emit, should_stop)

    def traced_in(dtype: str | None) -> Workload:
        other = replace(search, settings=replace(search.settings, dtype=dtype))
        return _divided(
            other, workload.reference if searches_degrees(search.model) else search.model, emit, should_stop
        )

    with noting(library_path(), workload.reference) as (solver, _):
        for one in ways_out(
            workload,
            remedies(problem, settings, request.most_devices),
            choose_planner(search.planner),
            replace(LIMITS, time_limit_s=search.time_limit_s, seed=search.seed),
            traced_in=traced_in,
            should_stop=should_stop,
            solver=solver,
        ):
            emit(events.part(one.as_object() | {"controls": dict(one.change.controls)}))
    emit(events.done({"stopped": should_stop()}))


def sweep_job(request: SweepRequest, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Tell first the values of the axis, then a row for each, see `explorer.sweeps.sweep.row_object`."""
    search = request.search
    workload, settings, problem = _question(search, emit, should_stop)
    grid = points(worth_asking(request.axis, problem, settings, _own_memory(problem)))
    shown = [point.cell(request.axis) for point in grid]
    emit(events.part({"values": [getattr(point, request.axis) for point in grid], "words": shown}))
    with noting(library_path(), workload.reference) as (solver, _):
        for row in sweep_rows(
            workload,
            settings,
            grid,
            choose_planner(search.planner),
            Limits(search.effort, search.time_limit_s, seed=search.seed),
            should_stop=should_stop,
            solver=solver,
        ):
            emit(events.part({"row": row_object(row)}))
    emit(events.done({"stopped": should_stop()}))


def _own_memory(problem: Problem) -> float | None:
    """Of the accelerators, if they are of one kind that is known."""
    kinds = {problem.cluster.devices[i].kind for i in problem.cluster.accelerators}
    kind = DEVICES.get(kinds.pop()) if len(kinds) == 1 else None
    return None if kind is None else kind.memory_bytes


KINDS: dict[str, Work] = {
    "place": place_job,
    "solve": solve_job,
    "ask": ask_job,
    "compare": compare_job,
    "prepare": prepare_job,
    "run": run_job,
    "show-run": show_run_job,
    "replan": replan_job,
    "export": export_job,
    "review": review_job,
    "lean": lean_job,
    "differ": differ_job,
    "hash": hash_job,
    "help": help_job,
    "remedy": remedy_job,
    "why-here": why_here_job,
    "sweep": sweep_job,
}
