"""Single faults of a simulation: of what it reads (problem or plan), and of what it gives (spans, memory).

A fault takes a case, the schedule that is true of it, and a source of chance; it gives a schedule that
differs, or None where there is nothing to spoil. That a spoiled schedule differs at all is for
`differs` to say.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import numpy as np

from solvers.errors import PlacementError
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Plan, Stage
from solvers.plan.schedule import SPAN_KINDS, MemoryCurve, Schedule, SpanColumns
from solvers.problem.cluster import Cluster
from solvers.problem.graph import NOTHING, Amount, Operator, Tensor
from solvers.problem.problem import ComputeTable, Execution, Optimizer, Plain, Precision, Problem, Transfers
from solvers.problem.regions import recomputing
from tests.solvers.verify.valid_plans import Case

Fault = Callable[[Case, Schedule, random.Random], Schedule | None]
FAULTS: dict[str, Fault] = {}
OF_REGIONS: dict[str, Fault] = {}
"""Those of what runs again by region."""
NOTICEABLE = 1e-4
"""Relative difference from which on a fault must be noticed: well above the verifier's tolerance."""


def fault(name: str) -> Callable[[Fault], Fault]:
    def register(function: Fault) -> Fault:
        FAULTS[name] = function
        return function

    return register


# -- what the simulation reads --------------------------------------------------------------------


def simulated(problem: Problem, plan: Plan) -> Schedule | None:
    try:
        return simulate(problem, plan)
    except (PlacementError, IndexError):
        return None


def of_problem(
    name: str, spoil: Callable[[Problem, random.Random], Problem | None], faults: dict[str, Fault] = FAULTS
) -> None:
    def spoiled(case: Case, true: Schedule, rng: random.Random) -> Schedule | None:
        problem = spoil(case.problem, rng)
        return None if problem is None else simulated(problem, case.plan)

    faults[name] = spoiled


def of_plan(name: str, spoil: Callable[[Case, random.Random], Plan | None]) -> None:
    def spoiled(case: Case, true: Schedule, rng: random.Random) -> Schedule | None:
        plan = spoil(case, rng)
        return None if plan is None else simulated(case.problem, plan)

    FAULTS[name] = spoiled


def without_gathers(case: Case) -> Schedule | None:
    with patch("solvers.evaluation.units.gathering", lambda *question: None):
        return simulated(case.problem, case.plan)


def with_compute(problem: Problem, factor: float, only: int = -1) -> Problem:
    rows = np.ones((len(problem.graph), 1))
    rows[slice(None) if only < 0 else only] = factor
    tables = {kind: table * rows for kind, table in problem.compute.seconds.items()}
    return replace(problem, compute=ComputeTable(problem.compute.samples, tables))


def with_links(problem: Problem, slower: float, latency: float, resource: bool = True) -> Problem:
    links = tuple(
        replace(
            link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / slower, latency_s=link.latency_s * latency,
            resource=link.resource if resource else "",
        )
        for link in problem.cluster.links
    )  # fmt: skip
    stated = None if problem.transfer_s is None else tuple(s * slower for s in problem.transfer_s)
    return replace(problem, cluster=Cluster(problem.cluster.devices, links), transfer_s=stated)


def with_tensors(problem: Problem, spoil: Callable[[int, Tensor], Tensor | None]) -> Problem:
    tensors = [(t, new) for t, old in enumerate(problem.graph.tensors) if (new := spoil(t, old)) is not None]
    stated = None if problem.transfer_s is None else tuple(problem.transfer_s[t] for t, _ in tensors)
    graph = replace(problem.graph, tensors=tuple(new for _, new in tensors))
    return replace(problem, graph=graph, transfer_s=stated)


def with_operators(problem: Problem, spoil: Callable[[int, Operator], Operator]) -> Problem:
    operators = tuple(spoil(number, operator) for number, operator in enumerate(problem.graph.operators))
    return replace(problem, graph=replace(problem.graph, operators=operators))


def of_regions(name: str, spoil: Callable[[Problem, Plain], Problem]) -> None:
    of_problem(name, lambda p, rng: p.plain and spoil(p, p.plain), OF_REGIONS)


def again(problem: Problem, spoil: Callable[[Operator], Operator]) -> Problem:
    """With other regions."""
    traced = problem.as_traced
    plain = replace(problem, graph=traced.graph, compute=traced.compute, plain=None)
    return recomputing(with_operators(plain, lambda i, o: spoil(o)))


def times(amount: Amount, factor: float) -> Amount:
    return Amount(amount.fixed * factor, amount.per_sample * factor)


of_problem("compute x 0.9", lambda p, rng: with_compute(p, 0.9))
of_problem("one operator takes no time", lambda p, rng: with_compute(p, 0.0, rng.randrange(len(p.graph))))
of_problem("transfers gone", lambda p, rng: with_links(p, 1e-12, 0.0))
of_problem("transfers halved", lambda p, rng: with_links(p, 0.5, 0.5))
of_problem("transfers doubled", lambda p, rng: with_links(p, 2.0, 2.0))
of_problem("latency gone", lambda p, rng: with_links(p, 1.0, 0.0))
of_problem("wires not shared", lambda p, rng: with_links(p, 1.0, 1.0, resource=False))
of_problem("tensors halved", lambda p, rng: with_tensors(p, lambda t, x: replace(x, nbytes=times(x.nbytes, 0.5))))
of_problem("tensors doubled", lambda p, rng: with_tensors(p, lambda t, x: replace(x, nbytes=times(x.nbytes, 2.0))))
of_problem("sums travel in parts", lambda p, rng: with_tensors(p, lambda t, x: replace(x, sum_group=None)))
of_problem("workspace gone", lambda p, rng: with_operators(p, lambda i, o: replace(o, workspace_bytes=NOTHING)))
of_problem("saved activations gone", lambda p, rng: with_operators(p, lambda i, o: replace(o, saved_bytes=NOTHING)))
of_problem(
    "parameters gone",
    lambda p, rng: with_operators(p, lambda i, o: replace(o, param_bytes=0.0, frozen_bytes=0.0, factorable_bytes=0.0)),
)
of_problem("frozen parameters trained", lambda p, rng: with_operators(p, lambda i, o: replace(o, frozen_bytes=0.0)))
of_problem("all parameters frozen", lambda p, rng: with_operators(
    p, lambda i, o: replace(o, frozen_bytes=o.param_bytes, factorable_bytes=0.0)
))  # fmt: skip
of_regions("nothing takes time to run again", lambda p, plain: replace(p, compute=plain.compute))
of_regions("what runs again is kept too", lambda p, plain: with_operators(
    p, lambda i, o: replace(o, saved_bytes=o.saved_bytes + plain.graph.operators[i].saved_bytes)
))  # fmt: skip
of_regions("what runs again needs no room", lambda p, plain: with_operators(
    p, lambda i, o: replace(o, workspace_bytes=plain.graph.operators[i].workspace_bytes)
))  # fmt: skip
of_regions("nothing is cached", lambda p, plain: again(p, lambda o: replace(o, cached=False)))
of_regions("all is one region", lambda p, plain: again(p, lambda o: replace(o, checkpoint="all")))
of_problem("optimizer states gone", lambda p, rng: replace(p, optimizer=Optimizer.SGD))
of_problem("another optimizer", lambda p, rng: replace(
    p, optimizer=rng.choice([each for each in Optimizer if each is not p.optimizer])
))  # fmt: skip
of_problem("another precision", lambda p, rng: replace(
    p, precision=rng.choice([each for each in Precision if each is not p.precision])
))  # fmt: skip
of_problem("nothing is sharded over replicas", lambda p, rng: replace(p, zero=0))
of_problem("another stage of ZeRO", lambda p, rng: replace(p, zero=rng.choice([z for z in range(4) if z != p.zero])))
FAULTS["no micro-batch waits for parameters"] = lambda case, true, rng: without_gathers(case)
of_problem("nothing is factored", lambda p, rng: with_operators(p, lambda i, o: replace(o, factorable_bytes=0.0)))
of_problem("buffers gone", lambda p, rng: with_operators(p, lambda i, o: replace(o, buffer_bytes=0.0)))
of_problem("gradients of several uses gone", lambda p, rng: with_operators(
    p, lambda i, o: replace(o, gradient_sum_bytes=0.0)
))  # fmt: skip
of_problem("no training", lambda p, rng: replace(p, training=not p.training))
of_problem("unsplit pass run otherwise", lambda p, rng: replace(
    p, execution=Execution.CALL if p.execution is Execution.OPERATOR else Execution.OPERATOR
))  # fmt: skip
of_problem("sizes stated, not counted", lambda p, rng: replace(
    p, stated_bytes=None if p.stated_bytes else tuple(map(float, p.static_bytes()))
))  # fmt: skip


def _another_model(p: Problem, rng: random.Random) -> Problem:
    return replace(p, transfers=rng.choice([mode for mode in Transfers if mode is not p.transfers]))


def _tensor_dropped(p: Problem, rng: random.Random) -> Problem | None:
    gone = rng.randrange(len(p.graph.tensors)) if p.graph.tensors else -1
    return with_tensors(p, lambda t, x: None if t == gone else x)


def _reader_dropped(p: Problem, rng: random.Random) -> Problem | None:
    if not p.graph.messages:
        return None
    group = rng.choice(p.graph.messages)
    gone = rng.choice(p.graph.tensors[group[0]].consumers)

    def without(t: int, tensor: Tensor) -> Tensor:
        return replace(tensor, consumers=tuple(c for c in tensor.consumers if c != gone)) if t in group else tensor

    return with_tensors(p, without)


def _saved_less(p: Problem, rng: random.Random) -> Problem:
    one = rng.randrange(len(p.graph))
    return with_operators(
        p, lambda i, o: replace(o, saved_bytes=times(o.saved_bytes, 0.5), workspace_bytes=o.workspace_bytes)
        if i == one else o,
    )  # fmt: skip


of_problem("another transfer model", _another_model)
of_problem("a tensor dropped", _tensor_dropped)
of_problem("a reader dropped", _reader_dropped)
of_problem("one operator saves half", _saved_less)


def _swapped(case: Case, rng: random.Random) -> Plan | None:
    orders = [list(order) for order in case.plan.order]
    long = [order for order in orders if len(order) > 1]
    if not long:
        return None
    order = rng.choice(long)
    at = rng.randrange(len(order) - 1)
    order[at], order[at + 1] = order[at + 1], order[at]
    return replace(case.plan, order=tuple(map(tuple, orders)))


def _with_stage(case: Case, rng: random.Random, spoil: Callable[[Stage], Stage]) -> Plan:
    at = rng.randrange(len(case.plan.stages))
    stages = tuple(spoil(stage) if number == at else stage for number, stage in enumerate(case.plan.stages))
    return replace(case.plan, stages=stages)


def _moved(case: Case, rng: random.Random) -> Plan | None:
    """Two devices change places: all that they run. Replicas of one stage would only break ties otherwise."""
    a, b = rng.sample(range(len(case.problem.cluster)), 2)
    if all((a in stage.devices) == (b in stage.devices) for stage in case.plan.stages):
        return None
    new = {a: b, b: a}
    stages = tuple(replace(s, devices=tuple(new.get(d, d) for d in s.devices)) for s in case.plan.stages)
    order = tuple(case.plan.order[new.get(device, device)] for device in range(len(case.plan.order)))
    return replace(case.plan, stages=stages, order=order)


def _operator_elsewhere(case: Case, rng: random.Random) -> Plan | None:
    """An operator, and those that mirror it, run in another stage."""
    graph, stages = case.problem.graph, case.plan.stages
    root = rng.randrange(len(graph))
    moves = {o for o in range(len(graph)) if graph.operators[o].forward_of == root} | {root}
    target = rng.randrange(len(stages))
    rank = {operator: position for position, operator in enumerate(graph.topological_order)}
    new = []
    for number, stage in enumerate(stages):
        members = set(stage.operators) - moves | (moves if number == target else set())
        if not members:
            return None
        new.append(replace(stage, operators=tuple(sorted(members, key=rank.__getitem__))))
    return replace(case.plan, stages=tuple(new))


of_plan("two actions swapped", _swapped)
of_plan(
    "recomputation the other way", lambda c, rng: _with_stage(c, rng, lambda s: replace(s, recompute=not s.recompute))
)
of_plan("two devices changed places", _moved)
of_plan("an operator in another stage", _operator_elsewhere)


# -- what the simulation gives --------------------------------------------------------------------


def spoiled_columns(true: Schedule, **columns: object) -> Schedule | None:
    """The schedule with other columns, rows in order; None if spans overlap (the type refuses that)."""
    new = true.columns._replace(**columns)  # type: ignore[arg-type]
    order = np.lexsort((new.end_s, new.start_s))
    try:
        return Schedule(SpanColumns(*(column[order] for column in new)), true.resources, true.memory, (), true.shared)
    except PlacementError:
        return None


def without(true: Schedule, row: int) -> Schedule:
    columns = SpanColumns(*(np.delete(column, row) for column in true.columns))
    return Schedule(columns, true.resources, true.memory, (), true.shared)


def some_row(true: Schedule, rng: random.Random, which: np.ndarray) -> int | None:
    rows = np.flatnonzero(which)
    return int(rng.choice(rows.tolist())) if len(rows) else None


def lasting(true: Schedule) -> np.ndarray:
    return true.columns.end_s > true.columns.start_s


def is_transfer(true: Schedule) -> np.ndarray:
    return true.columns.to_device >= 0


def is_reduce(true: Schedule) -> np.ndarray:
    return true.columns.kind == SPAN_KINDS.index("S")


def of_row(name: str, which: Callable[[Schedule], np.ndarray]) -> Callable[..., None]:
    """Register a fault of one span among ``which``."""

    def register(spoil: Callable[[Case, Schedule, random.Random, int], Schedule | None]) -> None:
        def spoiled(case: Case, true: Schedule, rng: random.Random) -> Schedule | None:
            row = some_row(true, rng, which(true))
            return None if row is None else spoil(case, true, rng, row)

        FAULTS[name] = spoiled

    return register


of_row("a transfer missing", is_transfer)(lambda case, true, rng, row: without(true, row))
of_row("an all-reduce missing", is_reduce)(lambda case, true, rng, row: without(true, row))
of_row("an update missing", lambda true: true.columns.kind == SPAN_KINDS.index("U"))(
    lambda case, true, rng, row: without(true, row)
)
of_row("a computation missing", lambda true: ~is_transfer(true))(lambda case, true, rng, row: without(true, row))


def _changed(true: Schedule, row: int, column: str, value: float) -> Schedule | None:
    values = getattr(true.columns, column).copy()
    values[row] = value
    return spoiled_columns(true, **{column: values})


def _shifted(true: Schedule, row: int, by_s: float) -> Schedule | None:
    start, end = true.columns.start_s.copy(), true.columns.end_s.copy()
    start[row] += by_s
    end[row] += by_s
    return None if start[row] < 0 else spoiled_columns(true, start_s=start, end_s=end)


@of_row("a transfer late", is_transfer)
def _transfer_late(case: Case, true: Schedule, rng: random.Random, row: int) -> Schedule | None:
    return _shifted(true, row, 0.05 * true.makespan_s)


@of_row("a transfer early", is_transfer)
def _transfer_early(case: Case, true: Schedule, rng: random.Random, row: int) -> Schedule | None:
    return _shifted(true, row, -0.05 * true.makespan_s)


@of_row("an all-reduce early", is_reduce)
def _reduce_early(case: Case, true: Schedule, rng: random.Random, row: int) -> Schedule | None:
    return _shifted(true, row, -0.1 * true.makespan_s)


@of_row("a transfer on another resource", is_transfer)
def _other_resource(case: Case, true: Schedule, rng: random.Random, row: int) -> Schedule | None:
    others = [r for r in range(len(true.resources)) if r != true.columns.resource[row]]
    return _changed(true, row, "resource", rng.choice(others)) if others else None


@of_row("a transfer to another device", is_transfer)
def _other_device(case: Case, true: Schedule, rng: random.Random, row: int) -> Schedule | None:
    others = [d for d in range(len(case.problem.cluster)) if d != true.columns.to_device[row]]
    return _changed(true, row, "to_device", rng.choice(others))


@of_row("a transfer of half the bytes", is_transfer)
def _half_bytes(case: Case, true: Schedule, rng: random.Random, row: int) -> Schedule | None:
    return _changed(true, row, "nbytes", true.columns.nbytes[row] / 2)


@of_row("a transfer cut short", lambda true: is_transfer(true) & lasting(true))
def _cut_short(case: Case, true: Schedule, rng: random.Random, row: int) -> Schedule | None:
    c = true.columns
    return _changed(true, row, "end_s", (c.start_s[row] + c.end_s[row]) / 2)


@of_row("a computation cut short", lambda true: ~is_transfer(true) & lasting(true))
def _compute_short(case: Case, true: Schedule, rng: random.Random, row: int) -> Schedule | None:
    c = true.columns
    return _changed(true, row, "end_s", 0.1 * c.start_s[row] + 0.9 * c.end_s[row])


@of_row("a pause", lasting)
def _pause(case: Case, true: Schedule, rng: random.Random, row: int) -> Schedule | None:
    """From some span on everything, memory included, happens later."""
    moment, by = true.columns.start_s[row], 0.03 * true.makespan_s
    start, end = (np.where(t >= moment, t + by, t) for t in (true.columns.start_s, true.columns.end_s))
    memory = tuple(
        replace(m, times_s=tuple(t + by if t >= moment and t > 0 else t for t in m.times_s)) for m in true.memory
    )
    new = spoiled_columns(true, start_s=start, end_s=end)
    return None if new is None else replace(new, memory=memory)


@fault("two computations exchanged")
def _exchanged(case: Case, true: Schedule, rng: random.Random) -> Schedule | None:
    """Two spans of one device and of one length take each other's times."""
    c = true.columns
    took = np.round(c.end_s - c.start_s, 9)
    pairs = [
        (a, b)
        for a in np.flatnonzero((c.to_device < 0) & lasting(true)).tolist()
        for b in np.flatnonzero((c.resource == c.resource[a]) & (took == took[a]) & (c.to_device < 0)).tolist()
        if c.start_s[b] > c.start_s[a]
    ]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    start, end = c.start_s.copy(), c.end_s.copy()
    start[[a, b]], end[[a, b]] = start[[b, a]], end[[b, a]]
    return spoiled_columns(true, start_s=start, end_s=end)


def of_curve(name: str, spoil: Callable[[MemoryCurve, random.Random], MemoryCurve | None]) -> None:
    """Register a fault of the memory of one device."""

    def spoiled(case: Case, true: Schedule, rng: random.Random) -> Schedule | None:
        device = rng.randrange(len(true.memory))
        curve = spoil(true.memory[device], rng)
        if curve is None:
            return None
        return replace(true, memory=(*true.memory[:device], curve, *true.memory[device + 1 :]))

    FAULTS[name] = spoiled


def _event_dropped(curve: MemoryCurve, rng: random.Random) -> MemoryCurve | None:
    if len(curve.times_s) < 2:
        return None
    at = rng.randrange(1, len(curve.times_s))
    return replace(
        curve, times_s=curve.times_s[:at] + curve.times_s[at + 1 :], nbytes=curve.nbytes[:at] + curve.nbytes[at + 1 :]
    )


of_curve("memory x 0.9", lambda curve, rng: replace(
    curve, nbytes=tuple(0.9 * b for b in curve.nbytes), static_bytes=0.9 * curve.static_bytes
))  # fmt: skip
of_curve("peak cut off", lambda curve, rng: replace(
    curve, nbytes=tuple(min(b, 0.95 * curve.peak_bytes) for b in curve.nbytes)
))  # fmt: skip
of_curve("a change of memory dropped", _event_dropped)


@fault("buffers gone")
def _buffers_gone(case: Case, true: Schedule, rng: random.Random) -> Schedule | None:
    """Tensors take as long, yet no room: all that is held of them, in buffers and between operators, is gone."""
    nothing = 1e-9
    p = with_links(case.problem, 1 / nothing, 1.0)
    p = with_tensors(p, lambda t, x: replace(x, nbytes=times(x.nbytes, nothing)))
    small = simulated(replace(p, transfer_s=case.problem.transfer_s), case.plan)
    if small is None or is_reduce(true).any():
        return None
    return replace(true, memory=small.memory)


# -- whether a fault changed anything -------------------------------------------------------------


def differs(true: Schedule, other: Schedule) -> bool:
    """Whether two schedules tell something else: spans, their times and bytes, or memory."""
    a, b = _sorted(true), _sorted(other)
    if len(a) != len(b) or [row[:7] for row in a] != [row[:7] for row in b]:
        return True
    numbers = (np.array([row[7:] for row in rows]).reshape(-1, 3) for rows in (a, b))
    one, two = numbers
    scale = np.array([true.makespan_s, true.makespan_s, max(true.columns.nbytes.max(initial=0.0), 1e-300)])
    if (np.abs(one - two) > NOTICEABLE * scale).any():
        return True
    return any(_curves_differ(x, y, true.makespan_s) for x, y in zip(true.memory, other.memory, strict=True))


def _sorted(schedule: Schedule) -> list[tuple[object, ...]]:
    c = schedule.columns
    names = [schedule.resources[r] for r in c.resource]
    labels = (c.stage, c.kind, c.micro_batch, c.operator, c.device, c.to_device)
    rows = zip(*(column.tolist() for column in labels), names, c.start_s, c.end_s, c.nbytes, strict=True)
    return sorted(rows)


def _curves_differ(a: MemoryCurve, b: MemoryCurve, makespan_s: float) -> bool:
    tolerance = NOTICEABLE * max(a.peak_bytes, 1e-300)
    if abs(a.peak_bytes - b.peak_bytes) > tolerance or abs(a.static_bytes - b.static_bytes) > tolerance:
        return True
    moments = np.unique([*a.times_s, *b.times_s])
    middle = ((moments[1:] + moments[:-1]) / 2)[np.diff(moments) > NOTICEABLE * makespan_s]
    levels = [np.array(c.nbytes)[np.searchsorted(c.times_s, middle, "right") - 1] for c in (a, b)]
    return bool((np.abs(levels[0] - levels[1]) > tolerance).any())
