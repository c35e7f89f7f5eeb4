"""Whether a plan's order runs what its stages hold: every action once, on the devices of its stage."""

from __future__ import annotations

from collections import defaultdict

from solvers.errors import InvalidPlan
from solvers.plan.plan import ACTION_KINDS, Action, Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Objective, Problem

KINDS_OF = {
    Phase.FORWARD: "F",
    Phase.BACKWARD_INPUT: "BI",
    Phase.BACKWARD_WEIGHT: "BW",
    Phase.UPDATE: "U",
}
"""Which kinds of action run a phase; `units.PHASES_OF` the other way round."""
MAX_NAME = 80

Done = list[dict[tuple[int, str], set[int]]]
"""Per device, (stage, kind) -> the micro-batches that are in its row."""


def check_order(problem: Problem, plan: Plan, objective: Objective | None = None) -> None:
    """Raises InvalidPlan, with the place in plan.json, what was expected and what was found, unless ``plan.order``

    has a row for every device; names only stages that are there, on their own devices, and micro-batches
    that they have; repeats nothing and does nothing twice (B beside I or W); and has all actions of every kind
    that it uses, and the kinds that all operators of every stage need. objective: as in `units.unroll`, by
    default the problem's. One unsplit pass (MAKESPAN) needs micro-batch 0 alone; others may be there, for they
    are not run. Looks at every action once.
    """
    single = (objective or problem.objective) is Objective.MAKESPAN
    if len(plan.order) != len(problem.cluster):
        rows = f"{len(plan.order):,} device{'' if len(plan.order) == 1 else 's'}"
        raise InvalidPlan(f"order: has a row for {rows}, but there are {len(problem.cluster):,}; expected one each")
    counts = _micro_batches(problem, plan, single)
    done = [_row(plan, device, counts) for device in range(len(plan.order))]
    _check_whole(problem, plan, counts, done, single)


def _micro_batches(problem: Problem, plan: Plan, single: bool) -> list[int]:
    """Of every stage, how many there are."""
    counts = []
    for index, stage in enumerate(plan.stages):
        count, rest = divmod(problem.mini_batch, stage.micro_batch_size)
        if rest and not single:
            raise InvalidPlan(
                f"stages[{index}]: the mini-batch of {problem.mini_batch} samples does not divide into micro-batches"
                f" of {stage.micro_batch_size}"
            )
        counts.append(count + bool(rest))
    return counts


def _row(plan: Plan, device: int, counts: list[int]) -> dict[tuple[int, str], set[int]]:
    """What a device does. Raises InvalidPlan for what it cannot, or does twice."""
    done: dict[tuple[int, str], set[int]] = {}
    for place, action in enumerate(plan.order[device]):
        key = (action.stage, action.kind)
        seen = done.get(key)
        if seen is None:
            if trouble := _misplaced(plan, device, action, done):
                raise InvalidPlan(f"order[{device}][{place}]: {action} {trouble}")
            seen = done[key] = set()
        number = action.micro_batch
        if not 0 <= number < (1 if action.kind == "U" else counts[action.stage]):
            count = counts[action.stage]
            raise InvalidPlan(
                f"order[{device}][{place}]: {action} names micro-batch {number}, but stage {action.stage} has"
                f" {count:,} (0 to {count - 1:,}); leave it out, or plan again"
            )
        if number in seen:
            first = plan.order[device].index(action)
            raise InvalidPlan(
                f"order[{device}][{place}]: {action} is there twice (first at order[{device}][{first}]);"
                " leave one out, or plan again"
            )
        seen.add(number)
    return done


def _misplaced(plan: Plan, device: int, action: Action, done: dict[tuple[int, str], set[int]]) -> str:
    """Why a device cannot do actions of this stage and kind; "" if it can."""
    stages, kind = len(plan.stages), action.kind
    if not 0 <= action.stage < stages:
        there = f"are {stages:,} stages (0 to {stages - 1:,})" if stages > 1 else f"is {stages:,} stage"
        return f"names stage {action.stage}, but there {there}; leave it out, or plan again"
    if kind not in ACTION_KINDS:
        return f"is of an unknown kind; expected one of {', '.join(ACTION_KINDS)}"
    homes = plan.stages[action.stage].devices
    if device not in homes:
        shown = ", ".join(map(str, homes[:4])) + (", ..." if len(homes) > 4 else "")
        return (
            f"is on device {device}, but stage {action.stage} runs on device{'s' if len(homes) > 1 else ''} {shown};"
            " move it there, or plan again"
        )
    whole = {"B": "IW", "I": "B", "W": "B"}.get(kind, "")
    for other in whole:
        if (action.stage, other) in done:
            how = "whose part that is" if kind == "B" else "of which it is a part"
            return f"beside {Action(action.stage, other)}, {how}, would run twice; keep one or the other"
    return ""


def _check_whole(problem: Problem, plan: Plan, counts: list[int], done: Done, single: bool) -> None:
    kinds: dict[int, set[str]] = defaultdict(set)
    for actions in done:
        for number, kind in actions:
            kinds[number].add(kind)
    operators = problem.graph.operators
    for index, stage in enumerate(plan.stages):
        on = f"device{'s' if len(stage.devices) > 1 else ''} {', '.join(map(str, stage.devices[:4]))}"
        lacking = {phase for phase, able in KINDS_OF.items() if kinds[index].isdisjoint(able)}
        for operator in (operators[number] for number in stage.operators if lacking):
            if operator.phase in lacking:
                name, expected = operator.name[:MAX_NAME], " or ".join(KINDS_OF[operator.phase])
                raise InvalidPlan(
                    f"stages[{index}]: no action in the order runs operator {name!r}; expected {expected} on {on};"
                    " plan again"
                )
        for kind in filter(kinds[index].__contains__, ACTION_KINDS):
            count = 1 if single or kind == "U" else counts[index]
            for device in stage.devices:
                seen = done[device].get((index, kind), set()) if device < len(done) else set()
                if len(seen) < count or (single and 0 not in seen):
                    missing = next(number for number in range(count) if number not in seen)
                    which = "once" if count == 1 else f"for micro-batches 0 to {count - 1:,} once each"
                    raise InvalidPlan(
                        f"order[{device}]: {Action(index, kind, missing)} is missing: stage {index} does {kind} on"
                        f" device {device} {which}; put it in, or plan again"
                    )
