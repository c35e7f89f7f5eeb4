"""From a plan to segments, and what every device computes in which order. No torch here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.runner.scripts.joining import Atom, Item, joined
from explorer.runner.scripts.script import Do, Segment, Step
from solvers.errors import RunError
from solvers.plan.order_check import check_order
from solvers.plan.plan import PHASES_OF, Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Execution, Objective, Problem
from solvers.problem.regions import regions_of


@dataclass(frozen=True, slots=True)
class Layout:
    """Segments, and per device of the cluster the compute steps of one iteration in order.

    unordered: devices whose order is only a wish, since the plan lets them run any number of steps at once.
    by_operator: whether the plan is one of single operators.
    """

    segments: tuple[Segment, ...]
    order: tuple[tuple[Step, ...], ...]
    unordered: frozenset[int]
    by_operator: bool


def lay_out(
    problem: Problem,
    plan: Plan,
    gradients: Sequence[frozenset[int]],
    *,
    at_weights: frozenset[int] = frozenset(),
    ran: tuple[Layout, Mapping[int, Sequence[Step]]] | None = None,
) -> Layout:
    """The segments of a plan.

    A stage is a segment. In one unsplit pass of single operators (`solvers.evaluation.units`) every forward
    operator with its mirrors is a unit of its own, and neighbours in the order of a device are joined where
    nothing is lost by it (`joining`). Gradients of inputs (I) and of parameters (W) that follow one
    another directly, or without the other, are one backward step (B); a stage of which something runs again does all
    its backward at its I, a segment of ``at_weights`` at its W. ran: an earlier layout, and the steps of its loose
    devices as they came, which are an order now. Raises InvalidPlan if the order is incomplete, RunError if a
    stage cannot be run.
    """
    check_order(problem, plan)  # says what is missing or repeated
    _refuse(problem, plan)
    single = problem.objective is Objective.MAKESPAN
    atoms, number = _atoms(problem, plan, single)
    items = [_items(problem, plan, device, number, single) for device in range(len(plan.order))]
    calls = single and problem.execution is Execution.CALL
    unordered = frozenset(
        d for d, device in enumerate(problem.cluster.devices) if device.concurrency is None or (calls and device.is_cpu)
    )
    if ran is not None:
        before, steps = ran
        for device in unordered:
            items[device] = _as_ran(items[device], atoms, before, steps.get(device, ()))
        unordered = frozenset()
    groups = joined(problem, atoms, items, unordered, gradients)
    segment_of = {atom: segment for segment, group in enumerate(groups) for atom in group}
    segments = tuple(_segment(problem, [atoms[a] for a in group]) for group in groups)
    order = tuple(tuple(_steps(of_device, segment_of, segments, at_weights)) for of_device in items)
    return Layout(segments, order, unordered, any(atom.single for atom in atoms))


def _as_ran(items: list[Item], atoms: Sequence[Atom], before: Layout, steps: Sequence[Step]) -> list[Item]:
    """The items of a device in the order in which an earlier layout of them ran."""
    place = {step: position for position, step in enumerate(steps)}
    segment_of = {(stage, o): i for i, s in enumerate(before.segments) for stage in s.stages for o in s.operators}

    def when(item: Item) -> int:
        segment = segment_of[atoms[item.atom].stage, atoms[item.atom].operators[0]]
        own = Step(segment, Do(item.kind), item.micro_batch)
        return place[own] if own in place else place[Step(segment, Do.BACKWARD, item.micro_batch)]

    return sorted(items, key=when)


def _refuse(problem: Problem, plan: Plan) -> None:
    operators = problem.graph.operators
    for index, stage in enumerate(plan.stages):
        members = set(stage.operators)
        if all(operators[o].phase is not Phase.FORWARD for o in stage.operators):
            raise RunError(f"stage {index} holds no forward operator: nothing of the model can be run there")
        if stage.micro_batch_size % len(stage.devices):
            raise RunError(
                f"stage {index}: {len(stage.devices)} replicas cannot share a micro-batch of {stage.micro_batch_size}"
                " samples equally; plan with another number of micro-batches"
            )
        for o in stage.operators:
            operator = operators[o]
            if operator.phase is not Phase.FORWARD and operator.forward_of not in members:
                raise RunError(
                    f"stage {index}: operator {operator.name!r} is there without its forward operator; only plans of"
                    " graphs traced from a model can be run"
                )


def _atoms(problem: Problem, plan: Plan, single: bool) -> tuple[list[Atom], dict[tuple[int, int], int]]:
    """The atoms, and (stage, forward operator) -> its atom."""
    rank = {operator: place for place, operator in enumerate(problem.graph.topological_order)}
    atoms: list[Atom] = []
    number: dict[tuple[int, int], int] = {}
    for index, stage in enumerate(plan.stages):
        forward = [o for o in stage.operators if problem.graph.operators[o].phase is Phase.FORWARD]
        on_cpu = problem.cluster.devices[stage.devices[0]].is_cpu
        by_operator = single and (problem.execution is Execution.OPERATOR or on_cpu)
        size = problem.mini_batch if single else stage.micro_batch_size
        if size % len(stage.devices):
            raise RunError(f"stage {index}: {len(stage.devices)} replicas cannot share {size} samples equally")
        for operators in [(o,) for o in forward] if by_operator else [tuple(sorted(forward, key=rank.__getitem__))]:
            number.update({(index, o): len(atoms) for o in operators})
            offload = tuple(o for o in operators if o in stage.offload)
            atoms.append(Atom(index, operators, stage.devices, size, stage.recompute, by_operator, offload))
    return atoms, number


def _items(problem: Problem, plan: Plan, device: int, number: dict[tuple[int, int], int], single: bool) -> list[Item]:
    """The order of a device in atoms; of a stage taken apart, operator by operator. Actions that run nothing are
    left out."""
    operators = problem.graph.operators
    kind_of = {phase: kind for kind in "FIWU" for phase in PHASES_OF[kind]}
    items: dict[Item, None] = {}
    for action in plan.order[device]:
        if single and action.micro_batch:
            continue
        for o in plan.stages[action.stage].operators:
            operator = operators[o]
            if operator.phase in PHASES_OF[action.kind]:
                atom = number[action.stage, o if operator.forward_of is None else operator.forward_of]
                items.setdefault(Item(atom, kind_of[operator.phase], action.micro_batch))
    return _inputs_first(list(items))


def _inputs_first(items: list[Item]) -> list[Item]:
    """Gradients of inputs before those of parameters: the two change places where a plan has them the other way
    round, as it may for single operators. Both read the same, and nobody but an update waits for the latter."""
    place = {item: position for position, item in enumerate(items)}
    for item, inputs in place.items():
        weights = place.get(Item(item.atom, "W", item.micro_batch), inputs) if item.kind == "I" else inputs
        if weights < inputs:
            items[weights], items[inputs] = items[inputs], items[weights]
    return items


def _segment(problem: Problem, atoms: list[Atom]) -> Segment:
    first = atoms[0]
    operators = tuple(o for atom in atoms for o in atom.operators)
    of = {} if problem.plain is None else regions_of(problem.plain.graph).of
    regions = tuple((o, of[o], problem.graph.operators[o].cached) for o in operators if o in of)
    return Segment(
        operators,
        first.devices,
        first.size,
        tuple(sorted({atom.stage for atom in atoms})),
        first.recompute,
        regions,
        tuple(o for atom in atoms for o in atom.offload),
    )


def _steps(
    items: list[Item], segment_of: dict[int, int], segments: Sequence[Segment], at_weights: frozenset[int]
) -> list[Step]:
    """What a device computes, segment by segment; see `lay_out` for backward steps."""
    before_update = [item for item in items if item.kind != "U"]
    backward: dict[tuple[int, int], dict[str, list[int]]] = defaultdict(lambda: {"I": [], "W": []})
    for position, item in enumerate(before_update):
        if item.kind in "IW":
            backward[segment_of[item.atom], item.micro_batch][item.kind].append(position)
    whole = set()
    for key, at in backward.items():
        every = at["I"] + at["W"]
        together = max(every) - min(every) + 1 == len(every)
        again = segments[key[0]].recompute or segments[key[0]].regions
        if together or not at["I"] or not at["W"] or again or key[0] in at_weights:
            whole.add(key)
    last_update = {segment_of[item.atom]: item for item in items if item.kind == "U"}
    steps: dict[Step, None] = {}
    for item in items:
        segment = segment_of[item.atom]
        if item.kind == "U":
            if item is last_update[segment]:
                steps.setdefault(Step(segment, Do.UPDATE))
        elif item.kind in "IW" and (segment, item.micro_batch) in whole:
            if item.kind == "I" and segment in at_weights and backward[segment, item.micro_batch]["W"]:
                continue
            steps.setdefault(Step(segment, Do.BACKWARD, item.micro_batch))
        else:
            steps.setdefault(Step(segment, Do(item.kind), item.micro_batch))
    return list(steps)
