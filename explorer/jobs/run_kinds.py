"""What workers do about runs: look at a plan before it runs, run it, read a past run, plan again.

Imported in workers only. The outcome of whatever ran is sent with the plan it is of, so that a page can
show it long after.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from explorer.jobs.held_plans import file_of, packed_text, text_of, unpacked_text
from explorer.jobs.requests import Emit, PrepareRequest, RunPlanRequest, ShowRunRequest
from explorer.measured.notes import same_hardware
from explorer.runner.bundles.bundle import (
    About,
    Bundle,
    finish_bundle,
    new_folder,
    predicted_s,
    read_about,
    read_bundle,
    read_result,
    write_bundle,
)
from explorer.runner.bundles.history import find_run
from explorer.runner.bundles.outcome import Outcome, RunStatus
from explorer.runner.bundles.reproduce import command_line
from explorer.runner.bundles.request import RunRequest
from explorer.runner.scripts.checks import Level, check
from explorer.runner.scripts.executable import processes
from explorer.runner.targets.registry import Targets, load_targets
from explorer.runner.targets.target import RunProgress
from explorer.runner.targets.target_file import LocalSetup, TargetSetup
from explorer.view import events, run_events
from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_types import MeasuredView, Report, RunView
from explorer.view.plan_view import devices, plan_view
from explorer.words import text
from solvers.errors import InvalidProblem, RunError
from solvers.formats.plan_json import PlanFile, read_plan
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Status
from solvers.problem.problem import Problem

TELL_S = 0.2
"""Progress and lines of the log are sent at most this often."""
LOG_BYTES = 2**16
LOG_LINES = 200
GPUS = Path("/proc/driver/nvidia/gpus")
PROCESSORS = Path("/proc/cpuinfo")


@dataclass
class Teller:
    """Passes on the progress of a run, not too often; what it says is cleaned first."""

    emit: Emit
    clean: Callable[[str], str]
    phase: str = ""
    lines: list[str] = field(default_factory=list)
    sent_at: float = 0.0

    def __call__(self, progress: RunProgress) -> None:
        if progress.line:
            self.lines.append(self.clean(progress.line)[:500])
        now = time.monotonic()
        if progress.phase != self.phase or now - self.sent_at >= TELL_S:
            self.emit(run_events.running(progress.phase, progress.done, progress.of, self.lines[-LOG_LINES:]))
            self.phase, self.sent_at, self.lines = progress.phase, now, []


def prepare_job(
    request: PrepareRequest, emit: Emit, should_stop: Callable[[], bool], targets: Targets | None = None
) -> None:
    """Fetch a plan's file, and check it as a launch would."""
    targets = targets or load_targets()
    setup = targets.setup(request.target)
    file = file_of(request.held) if request.text is None else read_plan(unpacked_text(request.text))
    if should_stop():
        return
    ranks, refused, warnings = checked(file, setup.max_ranks)
    if should_stop():
        return
    packed = request.text if request.text is not None else text_of(file)
    there = elsewhere(file.problem, file.plan, setup)
    emit(run_events.prepared(request.held, request.target, file.reference, packed, ranks, refused, warnings, there))


def run_job(
    request: RunPlanRequest, emit: Emit, should_stop: Callable[[], bool], targets: Targets | None = None
) -> None:
    """Run a plan on one of ``targets`` (by default those declared here); leaves a bundle, however it ends."""
    targets = targets or load_targets()
    target, clean = targets.get(request.target), cleaner(targets.setup(request.target).place, request.target)
    text = unpacked_text(request.text)
    file = read_plan(text)
    settings = replace(
        targets.defaults(request.target),
        steps=request.steps,
        verify=request.verify,
        allow_model=request.allow_model,
        operators=file.problem.graph.tensor_parallel == 1,
    )
    ranks, refused, _ = checked(file, targets.setup(request.target).max_ranks)
    if refused:
        raise RunError(refused[0])
    bundle = write_bundle(new_folder(file.reference), text, settings, request.target, predicted_s=predicted_s(file))
    try:
        outcome = target.run(text, settings, ranks, bundle.folder, Teller(emit, clean), should_stop)
    except (RunError, InvalidProblem) as error:
        outcome = Outcome(RunStatus.FAILED, str(error))
    finish_bundle(bundle, outcome)
    emit(run_events.ran(run_view(request.held, bundle, file, settings, outcome, clean)))


def show_run_job(
    request: ShowRunRequest, emit: Emit, should_stop: Callable[[], bool], targets: Targets | None = None
) -> None:
    """A run that is kept, as it was reported when it ended."""
    folder = find_run(request.bundle).folder
    text, settings = read_bundle(folder)
    bundle, about = Bundle(folder), read_about(folder)
    targets = targets or load_targets()
    path = targets.setups[about.target].place if about.target in targets.setups else ""
    outcome = read_result(bundle) if bundle.result.is_file() else Outcome(RunStatus.FAILED, "it never ended")
    view = run_view(kept_name(request.bundle), bundle, read_plan(text), settings, outcome, cleaner(path, about.target))
    emit(run_events.ran({**view, "text": packed_text(text)}))


def kept_name(bundle: str) -> str:
    """Under which the plan of a bundle is known to pages."""
    return f"run-{bundle}"


def cleaner(path: str, name: str) -> Callable[[str], str]:
    """What a page is sent never says where a target is: only how it is called."""
    if "://" not in path:
        return lambda words: words
    host = path.split("://", 1)[1]
    hostname = host.rsplit(":", 1)[0]
    return lambda words: words.replace(path, name).replace(host, name).replace(hostname, name)


def run_view(
    held: str, bundle: Bundle, file: PlanFile, settings: RunRequest, outcome: Outcome, clean: Callable[[str], str]
) -> RunView:
    """A run as plain data for a page: bundle, its name; held, of its plan; target, planner, model (its
    reference), when, status, reason, notes, log; folder and command, to do it again; devices, their names;
    report: of `explorer.measured.comparison_object`, None where nothing was measured; plan: the packed view of
    the plan; skeleton: of its graph; words: a short line on what this is."""
    about = read_about(bundle.folder)
    return {
        **view_of(held, file, outcome, clean),
        "bundle": bundle.folder.name,
        "target": about.target,
        "when": about.created,
        "log": [clean(line) for line in log_lines(bundle)],
        "folder": str(bundle.folder),
        "command": command_line(bundle.folder),
        "words": f"plan of the run of {when(about)}",
        "text": b"",
    }


def view_of(held: str, file: PlanFile, outcome: Outcome, clean: Callable[[str], str]) -> MeasuredView:
    """What `run_view` has of a plan and of what was measured of it, wherever that was."""
    result, problem = file.result, file.problem
    planner = result.planner if result is not None else "given"
    view = plan_view(
        problem,
        file.plan,
        planner=planner,
        objective_s=result.objective_s if result is not None else predicted_s(file, engine=False),
        bound_s=result.bound_s if result is not None else 0.0,
        status=result.status if result is not None else Status.FEASIBLE,
        runtime_s=result.runtime_s if result is not None else 0.0,
        notes=result.notes if result is not None else (),
    )
    workload = Workload(problem.graph, file.reference, training=problem.training, costs_from=problem.costs_from)
    return {
        "held": held,
        "planner": planner,
        "model": file.reference,
        "status": outcome.status.value,
        "reason": clean(outcome.reason),
        "culprit": outcome.culprit,
        "notes": [clean(note) for note in outcome.notes],
        "devices": [device["name"] for device in devices(problem)],
        "report": compared(file, outcome) if outcome.iterations_s else None,
        "plan": events.packed({**view, "held": held}),
        "skeleton": skeleton(workload),
    }


def when(about: About) -> str:
    """ "2026-11-21T16:07:42Z" in the time of this machine, as people read it: "21 Nov 16:07"."""
    moment = run_events.local_time(about.created)
    return moment if moment else about.created


def compared(file: PlanFile, outcome: Outcome) -> Report:
    from explorer.measured import compare_run, comparison_object

    return comparison_object(compare_run(file.problem, file.plan, outcome))


def log_lines(bundle: Bundle) -> Sequence[str]:
    """The last lines of a run's log."""
    try:
        with bundle.log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - LOG_BYTES))
            data = file.read(LOG_BYTES)
    except OSError:
        return []
    return [line[:500] for line in data.decode("utf-8", "replace").splitlines()[-LOG_LINES:]]


def checked(file: PlanFile, most: int) -> tuple[int, list[str], list[str]]:
    """(processes, why the plan cannot be run, what to know before it is). most: processes of the target."""
    findings = check(file.problem, file.plan, most)
    refused = [finding.message for finding in findings if finding.level is Level.ERROR]
    warnings = [finding.message for finding in findings if finding.level is not Level.ERROR]
    return processes(file.problem, file.plan), refused, warnings


def elsewhere(problem: Problem, plan: Plan, setup: TargetSetup) -> str:
    """ "This plan is for 4 H100-80GB, and local has a Xeon ...": one sentence, or "" where the costs may well be of
    that hardware. Only of this machine is anything known before a run."""
    if not isinstance(setup, LocalSetup):
        return ""
    gpus = _gpus()
    here = gpus[0] if gpus else _processor()
    kinds = Counter(problem.cluster.devices[device].kind for device in plan.devices_used())
    foreign = [
        kind for kind in kinds if not same_hardware(kind, here, problem.costs_from, "nccl" if gpus else "gloo")
    ]  # fmt: skip
    if not foreign:
        return ""
    members = problem.graph.tensor_parallel
    wanted = text.listing([f"{count * members} {kind}" for kind, count in kinds.items()])
    return f"This plan is for {wanted}; {setup.name} has {here if gpus else f'no GPU ({here})'}."


def _gpus() -> list[str]:
    """Names of the GPUs here, as the driver lists them, without loading a library."""
    names = []
    for file in sorted(GPUS.glob("*/information")) if GPUS.is_dir() else ():
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        names += [line.partition(":")[2].strip()[:80] for line in lines if line.startswith("Model:")]
    return names


def _processor() -> str:
    try:
        with PROCESSORS.open(errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()[:80]
    except OSError:
        pass
    return "a processor"
