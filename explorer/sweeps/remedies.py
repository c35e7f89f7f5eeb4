"""Remedies where nothing fits: the question with a little changed, each answered by a search of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from explorer.costs.devices import DEVICES, DeviceKind
from explorer.costs.regions import Recompute
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.sweeps.execution.questions import Limits
from explorer.sweeps.helps import LIMITS, Change
from explorer.words import text
from solvers.errors import InvalidProblem, UnsupportedProblem
from solvers.evaluation.simulation import run
from solvers.formats.workload import Workload
from solvers.plan.result import Result
from solvers.planners.solve import solve
from solvers.problem.problem import Objective, Precision, Problem
from solvers.search.monitor import never
from solvers.search.planner import Planner

MOST = 4
"""Remedies that are offered."""
NOTE = "a remedy where nothing fitted, with {effort} effort"


@dataclass(frozen=True)
class Remedy:
    """A change of a question that has no plan, to one that has. peak_bytes: of the fullest accelerator."""

    change: Change
    result: Result
    peak_bytes: float

    @property
    def seconds(self) -> float:
        return self.result.objective_s

    def as_object(self) -> dict[str, object]:
        """As JSON, without the plan."""
        return {
            "change": self.change.words,
            "flags": self.change.flags,
            "objective_s": self.seconds,
            "peak_memory_bytes": self.peak_bytes,
        }


def remedies(problem: Problem, settings: Settings, most_devices: int) -> list[Change]:
    """Changes that may make room, the cheapest first: those that cost nothing, time, devices, other devices.

    problem: the one that has no plan, of ``settings``. most_devices: accelerators that may be asked for.
    """
    changes: list[Change] = []

    def add(words: str, flags: str, controls: Mapping[str, object], **changed: object) -> None:
        changes.append(Change(words, replace(settings, **changed), controls, flags))  # type: ignore[arg-type]

    kind = _kind(problem)
    cap = settings.memory_bytes
    capped = kind is not None and isinstance(cap, int | float) and cap < kind.memory_bytes
    if kind is not None and capped:
        words = f"all {text.nbytes(kind.memory_bytes)} of each {kind.name}"
        add(words, f"--memory {kind.memory_bytes:.0f}", {"memory": kind.memory_bytes}, memory_bytes=None)
    pipelined = problem.objective is not Objective.MAKESPAN
    again = problem.training and not problem.recompute
    splits = settings.micro_batches is not None and pipelined and settings.micro_batches < problem.mini_batch
    if splits:
        add("more micro-batches", "without --micro-batches", {"micro_batches": "auto"}, micro_batches=None)
    if again:
        add("recompute activations", "--recompute", {"recompute": "stage"}, recompute=Recompute.STAGE)
    if splits and again:
        add(
            "recompute activations, more micro-batches", "--recompute, without --micro-batches",
            {"micro_batches": "auto", "recompute": "stage"}, micro_batches=None, recompute=Recompute.STAGE,
        )  # fmt: skip
    if kind is not None and problem.iterates_counted and problem.training:
        if not problem.host_links:
            add("offload activations", "--offload", {"offload": True}, offload=True)
        if not problem.state_links and not problem.zero and problem.copies.streamed and not problem.copies.factored:
            add(
                "offload optimizer states", "--offload-optimizer", {"offload_optimizer": True}, offload_optimizer=True
            )  # fmt: skip
    if problem.training and settings.dtype in (None, "fp32") and problem.precision is Precision.PURE:
        add(
            "train in mixed precision (bf16)", "--dtype bf16 --precision mixed",
            {"dtype": "bf16", "precision": Precision.MIXED.value}, dtype="bf16", precision=Precision.MIXED,
        )  # fmt: skip
    devices = len(problem.cluster.accelerators)
    if again and pipelined and devices > 1 and not problem.zero and problem.stated_bytes is None:
        add(
            "replicate, share everything (ZeRO-3), recompute", "--replicate --zero 3 --recompute",
            {"max_replicas": "all", "zero": "3", "recompute": "stage"}, max_replicas=0, zero=3,
            recompute=Recompute.STAGE,
        )  # fmt: skip
    changes += _more_devices(problem, settings, devices, most_devices, again=again)
    if kind is not None and not capped and isinstance(settings.device_kind, str | None) and settings.cluster is None:
        larger = sorted((one for one in DEVICES.values() if _larger(one, kind)), key=lambda one: one.memory_bytes)
        for other in larger[:2]:
            words = f"{devices} × {other.name} ({text.nbytes(other.memory_bytes)} each)"
            changed = {"device_kind": other.name, "memory_bytes": None}
            add(
                words,
                f"--device-kind {other.name}",
                {"device_kind": other.name, "memory": other.memory_bytes},
                **changed,
            )
    return changes


def _more_devices(problem: Problem, settings: Settings, devices: int, most: int, *, again: bool) -> Iterator[Change]:
    """A device more, twice as many, and those recomputing, where settings describe equal devices."""
    given = isinstance(settings.device_kind, tuple) or isinstance(settings.memory_bytes, tuple)
    if given or settings.cluster is not None or settings.profile is not None:
        return
    for count in dict.fromkeys((devices + 1, 2 * devices)):
        if count <= most:
            words = "1 GPU more" if count == devices + 1 else f"{count} GPUs"
            changed = replace(settings, devices=count)
            yield Change(words, changed, {"devices": count}, f"--devices {count}")
            if again and count == 2 * devices:
                yield Change(
                    f"{words}, recompute activations", replace(changed, recompute=Recompute.STAGE),
                    {"devices": count, "recompute": "stage"}, f"--devices {count} --recompute",
                )  # fmt: skip


def ways_out(
    workload: Workload,
    changes: list[Change],
    planner: Planner,
    limits: Limits = LIMITS,
    *,
    traced_in: Callable[[str], Workload] | None = None,
    should_stop: Callable[[], bool] = never,
    solver: Callable[..., Result] = solve,
) -> Iterator[Remedy]:
    """Those changes under which a plan is found, at most `MOST`, in order; what contains another that does is left out.

    limits: of each search. traced_in: the model in another dtype; None leaves out changes that need one. solver: what
    solves a problem.
    """
    done: list[Change] = []
    for change in changes:
        if should_stop() or len(done) == MOST:
            return
        if any(one.controls.items() <= change.controls.items() for one in done):
            continue
        dtype = change.controls.get("dtype")
        if dtype is not None and traced_in is None:
            continue
        try:
            subject = workload if dtype is None or traced_in is None else traced_in(str(dtype))
            problem = make_problem(subject, change.settings)
            result = solver(problem, planner, should_stop=should_stop, **asdict(limits))
        except (InvalidProblem, UnsupportedProblem):
            continue
        if result.plan is None:
            continue
        peaks = run(problem, result.plan).peak_bytes()
        peak = max((float(peaks[d]) for d in problem.cluster.accelerators), default=math.nan)
        noted = replace(result, notes=(*result.notes, NOTE.format(effort=limits.effort.value)))
        done.append(change)
        yield Remedy(change, noted, peak)


def _kind(problem: Problem) -> DeviceKind | None:
    """Of the accelerators, if they are of one kind that is known."""
    kinds = {problem.cluster.devices[i].kind for i in problem.cluster.accelerators}
    return DEVICES.get(kinds.pop()) if len(kinds) == 1 else None


def _larger(one: DeviceKind, than: DeviceKind) -> bool:
    """Whether it has more memory and is as fast, so that no one waits longer for what fits."""
    fast = max(one.peak_flops_per_s.values()) >= max(than.peak_flops_per_s.values())
    return fast and one.memory_bytes > than.memory_bytes
