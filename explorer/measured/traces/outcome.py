"""The traces of all ranks of a run as its outcome, which is laid over the plan as that of a run of ours is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from explorer.costs.times.trace_events import MICROSECOND, Trace
from explorer.measured.traces.actions import TimedAction, actions_of, operator_seconds
from explorer.measured.traces.clocks import shifts
from explorer.measured.traces.files import RankFile, rank_files
from explorer.measured.traces.memory import MemoryPeak
from explorer.measured.traces.messages import Crossing, crossings, edges, messages
from explorer.measured.traces.passes import Matched, matched
from explorer.runner.bundles.outcome import MAX_ROWS, Environment, MeasuredAction, MeasuredMessage, Outcome, RunStatus
from explorer.words import text
from solvers.errors import InvalidProblem
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem

NOT_STATED = "not stated"
LIKELY = 0.9
"""Less of a plan's calls is found where the run was cut elsewhere."""
SHOWN = 5
"""Kinds of operators that a note names."""
LEAST_SHIFT_S = 1e-6


@dataclass(frozen=True, slots=True)
class _Rank:
    """One rank's trace, laid beside the plan. iterations: its actions by the number of the iteration, by a clock that
    all ranks of a host share."""

    name: str
    match: Matched
    iterations: Mapping[int, Sequence[TimedAction]]
    devices: tuple[str, ...]
    on_device: bool
    host: str
    backend: str
    peak: MemoryPeak | float | None = None


@dataclass
class _Gathered:
    """What the files of a run hold. traced: file and rank of each trace, in order; held: memory by rank; seconds: by
    operator."""

    ranks: dict[int, _Rank] = field(default_factory=dict)
    held: dict[int, MemoryPeak] = field(default_factory=dict)
    seconds: dict[int, list[float]] = field(default_factory=dict)


def traced_outcome(
    problem: Problem, plan: Plan, path: str, *, hardware: str | None = None, torch: str | None = None
) -> Outcome:
    """What torch.profiler saw of a run of ``plan`` elsewhere. path: a folder or a .zip with a trace of every rank, in
    which rank 0 has the first of the devices in use, or the one trace of a plan for one device; and memory timelines
    beside them. hardware, torch: what ran it, where that is not in the traces. Raises InvalidProblem."""
    devices = plan.devices_used()
    gathered = _gathered(problem, plan, devices, path)
    ranks = [gathered.ranks[rank] for rank in sorted(gathered.ranks)]
    numbers = sorted(set.intersection(*(set(rank.iterations) for rank in ranks)))
    if not numbers:
        raise InvalidProblem(f"{path}: no iteration is whole on all {len(ranks)} ranks; trace the same ones on each")
    if sum(len(rank.iterations[number]) for rank in ranks for number in numbers) > MAX_ROWS:
        raise InvalidProblem(f"{path}: more than {MAX_ROWS:,} actions; trace fewer iterations")
    crossing = crossings(problem, plan)
    put_on, clock_note = _clocks(crossing, ranks, numbers)
    one_clock = len({rank.host for rank in ranks}) == 1
    actions: list[MeasuredAction] = []
    sent: list[MeasuredMessage] = []
    lengths = []
    for at, number in enumerate(numbers):
        moved = [[_moved(one, put_on[rank]) for one in ranks[rank].iterations[number]] for rank in range(len(ranks))]
        start = min(one.start_us for each in moved for one in each)
        lengths.append((max(one.end_us for each in moved for one in each) - start) * MICROSECOND)
        here = [action for rank, each in enumerate(moved) for action in _measured(rank, at, each, start)]
        keys = [(one.action.stage, one.action.kind, one.action.micro_batch) for each in moved for one in each]
        actions += here
        sent += messages(crossing, here, keys) if one_clock else ()
    names = [operator.name for operator in problem.graph.operators]
    peak_bytes, peak_parts = _peaks(ranks)
    return Outcome(
        RunStatus.DONE,
        environment=_environment(ranks, hardware, torch),
        iterations_s=tuple(lengths),
        actions=tuple(actions),
        messages=tuple(sent[:MAX_ROWS]),
        segments=tuple((stage,) for stage in range(len(plan.stages))),
        rank_devices=devices,
        peak_bytes=peak_bytes,
        peak_parts=peak_parts,
        operators_s={names[o]: median(times) for o, times in gathered.seconds.items()},
        notes=tuple(_notes(ranks, numbers, clock_note)),
    )


def _gathered(problem: Problem, plan: Plan, devices: Sequence[int], path: str) -> _Gathered:
    """Every file read and laid beside the plan, one at a time: traces are large."""
    gathered = _Gathered()
    traced: list[str] = []
    for file in rank_files(path):
        if isinstance(file.held, MemoryPeak):
            if file.rank is not None:
                gathered.held[file.rank] = file.held
            continue
        rank = len(traced) if file.rank is None else file.rank
        traced.append(file.name)
        if rank >= len(devices):
            raise InvalidProblem(
                f"{path}: {file.name} is of rank {rank}, but the plan has {text.plural(len(devices), 'device')} in use"
            )
        if rank in gathered.ranks:
            raise InvalidProblem(f"{path}: {gathered.ranks[rank].name} and {file.name} are both of rank {rank}")
        gathered.ranks[rank] = _laid(problem, plan, devices[rank], file, file.held, gathered.seconds)
    if missing := [rank for rank in range(len(devices)) if rank not in gathered.ranks]:
        raise InvalidProblem(
            f"{path}: has the traces of {text.plural(len(traced), 'rank')}, the plan has {len(devices)} devices in use;"
            f" that of rank {missing[0]} is missing"
        )
    for rank, peak in gathered.held.items():
        if rank in gathered.ranks:
            gathered.ranks[rank] = replace(gathered.ranks[rank], peak=peak)
    return gathered


def _laid(
    problem: Problem, plan: Plan, device: int, file: RankFile, trace: Trace, seconds: dict[int, list[float]]
) -> _Rank:
    match = matched(problem, plan, device, trace, file.name)
    operator_seconds(problem, list(match.iterations.values()), trace, seconds)
    iterations = {
        number: [_moved(one, trace.base_us) for one in actions_of(problem, plan, device, iteration, trace)]
        for number, iteration in match.iterations.items()
    }
    return _Rank(
        file.name, match, iterations, trace.devices, trace.on_device, trace.host, trace.backend, trace.peak_bytes
    )


def _moved(one: TimedAction, by_us: float) -> TimedAction:
    return TimedAction(one.action, one.start_us + by_us, one.end_us + by_us)


def _measured(rank: int, iteration: int, actions: Sequence[TimedAction], start_us: float) -> Iterator[MeasuredAction]:
    """The actions of one rank in one iteration; it waits for whatever lies between two."""
    before_us = start_us
    for one in actions:
        begin = (max(one.start_us, before_us) - start_us) * MICROSECOND
        wait_s = max(0.0, one.start_us - before_us) * MICROSECOND
        end = max(begin, (one.end_us - start_us) * MICROSECOND)
        yield MeasuredAction(rank, iteration, str(one.action), begin, end, wait_s)
        before_us = max(before_us, one.end_us)


def _clocks(
    crossing: Mapping[Crossing, float], ranks: Sequence[_Rank], numbers: Sequence[int]
) -> tuple[list[float], str]:
    """Microseconds to add to every rank's clock, and what to say of that: nothing on one host."""
    if len({rank.host for rank in ranks}) < 2:
        return [0.0] * len(ranks), ""
    known = [edge for number in numbers for edge in edges(crossing, [rank.iterations[number] for rank in ranks])]
    offsets = shifts(len(ranks), known)
    if offsets is None:
        return [0.0] * len(ranks), "the clocks of the hosts drift: some messages arrive before they were sent"
    largest = max(offsets) * MICROSECOND
    words = f"clocks of hosts were put on by up to {text.seconds(largest)}, so that nothing arrives before it was sent"
    return offsets, words if largest >= LEAST_SHIFT_S else ""


def _environment(ranks: Sequence[_Rank], hardware: str | None, torch: str | None) -> Environment | None:
    """Where it ran; None where nobody says on what."""
    if hardware is None and not all(rank.on_device and rank.devices for rank in ranks):
        return None
    names = tuple(hardware or rank.devices[0] for rank in ranks)
    backend = next((rank.backend for rank in ranks if rank.backend), "nccl" if ranks[0].on_device else "gloo")
    hosts = tuple(rank.host or NOT_STATED for rank in ranks)
    return Environment(hosts, names, backend, torch or NOT_STATED, NOT_STATED, 1, NOT_STATED)


def _peaks(ranks: Sequence[_Rank]) -> tuple[tuple[float, ...], tuple[Mapping[str, float], ...]]:
    """Bytes of every rank at its peak, and what they are made of, where all ranks have them."""
    peaks = [rank.peak for rank in ranks if rank.peak is not None]
    if len(peaks) < len(ranks):
        return (), ()
    whole = tuple(peak.nbytes if isinstance(peak, MemoryPeak) else peak for peak in peaks)
    return whole, tuple(peak.parts if isinstance(peak, MemoryPeak) else {} for peak in peaks)


def _notes(ranks: Sequence[_Rank], numbers: Sequence[int], clock_note: str) -> Iterator[str]:
    share = min(rank.match.share for rank in ranks)
    yield (
        f"from traces of torch.profiler: {text.plural(len(numbers), 'iteration')} of {text.plural(len(ranks), 'rank')};"
        f" at least {text.percent(share)} of the plan's calls were found on every rank, by name and order"
    )
    if share < LIKELY:
        yield "the run may have had other stages than the plan: a tenth of the plan's calls and more is missing"
    missing: dict[str, int] = {}
    for rank in ranks:
        for name, times in rank.match.missing:
            missing[name] = missing.get(name, 0) + times
    if missing:
        most = sorted(missing, key=lambda name: (-missing[name], name))
        yield f"not found: {text.listing([f'{name} ({missing[name]:,} times)' for name in most], SHOWN)}"
    if torn := sum(rank.match.torn for rank in ranks):
        yield f"{text.plural(torn, 'iteration')} of a rank left out: less than half of the calls were found"
    if clock_note:
        yield clock_note
    on_device = all(rank.on_device for rank in ranks)
    timed = "of kernels" if on_device else "of calls, with the profiler's own work in them"
    yield f"times are {timed}; a rank is taken to wait for all that lies between two of its actions"
    if len({rank.host for rank in ranks}) > 1:
        yield "links are as planned: between hosts, whose clocks differ, nobody knows when a message was on its way"
