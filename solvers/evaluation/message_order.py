"""The order in which links serve their messages, where a plan states it.

A stated order is kept as the order of a device is: every transfer waits for the one before it, so a link idles
rather than overtakes. All-reduces are no messages: a link serves one as soon as it is ready and the link is free.
The order is that of the schedule which the problem's objective asks for, an iteration or one unsplit pass; in the
other one links serve the transfer whose reader comes first.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import NoReturn

import numpy as np

from solvers.errors import InvalidPlan
from solvers.evaluation.columns import has_wire, plan_columns, wire_name, wire_names
from solvers.evaluation.tasks import SYNC, Tasks
from solvers.kernels.arrays import Ints, starts
from solvers.plan.plan import ACTION_KINDS, Action, Message, Plan
from solvers.problem.problem import Problem, Transfers

MAX_NAME = 80
SHOWN = 8
"""How many links a message lists."""


def turns_of(problem: Problem, plan: Plan, tasks: Tasks, used: Ints) -> tuple[Ints, ...]:
    """The transfers of every link of ``plan.messages`` in the stated order. used: the wires of `Lowered`.

    Raises InvalidPlan, with the place in plan.json, what was expected and what was found, if transfers do not
    occupy links, a link is not there, or a row names what does not cross it, repeats or lacks something.
    """
    wires = _wires(problem, plan, used)
    columns, named = plan_columns(plan), named_transfers(problem, tasks)
    by_wire = np.searchsorted(named[0], [*wires, *(wire + 1 for wire in wires)])
    turns = []
    for row, (begin, end) in enumerate(pairwise(columns.message_start.tolist())):
        low, high = by_wire[row], by_wire[row + len(wires)]
        stated, there = columns.message[:, begin:end], named[1:6, low:high]
        order = np.lexsort(stated[::-1])
        if stated.shape != there.shape or (stated[:, order] != there).any():
            _refuse(plan, row, there)
        turn = np.empty(len(order), np.int64)
        turn[order] = named[6, low:high]
        turns.append(turn)
    return tuple(turns)


def named_transfers(problem: Problem, tasks: Tasks) -> Ints:
    """What crosses links: wire, stage, kind, micro-batch, receiver and number as in `plan.Message`, and the task of
    each, [7, transfers], ascending."""
    first = 3 * len(problem.cluster)
    crosses = (tasks.to_device != tasks.device) & (tasks.kind != SYNC)  # not to the host
    task = np.flatnonzero((tasks.resource >= first) & crosses)
    keys = (tasks.resource - first, tasks.stage, tasks.kind, tasks.micro_batch, tasks.to_device)
    names = np.stack([key[task] for key in keys])
    order = np.lexsort(names[::-1])  # stable: of one name in the order of tasks
    names, task = names[:, order], task[order]
    begins = np.ones(len(task), np.bool_)
    begins[1:] = (names[:, 1:] != names[:, :-1]).any(axis=0)
    since = np.maximum.accumulate(np.where(begins, np.arange(len(task)), 0))
    return np.concatenate([names, (np.arange(len(task)) - since)[None], task[None]])


def with_turns(tasks: Tasks, turns: tuple[Ints, ...]) -> Tasks:
    """The tasks, of which every transfer of a turn waits for the one before it."""
    earlier = np.concatenate([np.zeros(0, np.int64), *(turn[:-1] for turn in turns)])
    later = np.concatenate([np.zeros(0, np.int64), *(turn[1:] for turn in turns)])
    count = len(tasks.seconds)
    source = np.concatenate([np.repeat(np.arange(count), np.diff(tasks.after_start)), earlier])
    after = np.concatenate([tasks.after, later])[np.argsort(source, kind="stable")]
    return tasks._replace(
        after_start=starts(np.bincount(source, minlength=count)),
        after=after,
        waits=tasks.waits + np.bincount(later, minlength=count).astype(np.int64),
    )


def _wires(problem: Problem, plan: Plan, used: Ints) -> list[int]:
    """The numbers of the links whose order is stated: positions in ``used``, and from its length up for those over
    which nothing goes."""
    if problem.transfers is not Transfers.LINKS:
        raise InvalidPlan(
            f"messages: their order is stated, but the transfer model is {problem.transfers.value}, in which they do"
            " not occupy links; leave messages out, or plan again"
        )
    cluster = problem.cluster
    number = {wire_name(cluster, wire): i for i, wire in enumerate(used.tolist())}
    numbers: list[int] = []
    for link, _ in plan.messages:
        if link not in number and not has_wire(cluster, link):
            first = [name[:MAX_NAME] for name in islice(wire_names(cluster), SHOWN + 1)]
            shown = ", ".join(first[:SHOWN] + ["..."] * (len(first) > SHOWN))
            raise InvalidPlan(
                f"messages[{link[:MAX_NAME]!r}]: there is no such link; expected one of {shown or 'none'}; leave it"
                " out, or plan again"
            )
        wire = number.setdefault(link, len(number))
        if wire in numbers:
            raise InvalidPlan(f"messages[{link[:MAX_NAME]!r}]: is there twice; leave one out, or plan again")
        numbers.append(wire)
    return numbers


def _refuse(plan: Plan, row: int, there: Ints) -> NoReturn:
    """Say what is wrong with a row; there: names of what crosses the link, [5, transfers]."""
    link, stated = plan.messages[row]
    at = f"messages[{link[:MAX_NAME]!r}]"
    crossing = [
        Message(Action(stage, ACTION_KINDS[kind], micro_batch), to_device, number)
        for stage, kind, micro_batch, to_device, number in there.T.tolist()
    ]
    expected, seen = set(crossing), dict[Message, int]()
    for place, message in enumerate(stated):
        if message not in expected:
            raise InvalidPlan(
                f"{at}[{place}]: {message} does not cross this link; expected one of {_shown(crossing)}; leave it out,"
                " or plan again"
            )
        if message in seen:
            raise InvalidPlan(
                f"{at}[{place}]: {message} is there twice (first at {at}[{seen[message]}]); leave one out, or plan"
                " again"
            )
        seen[message] = place
    missing = next(message for message in crossing if message not in seen)
    raise InvalidPlan(
        f"{at}: {missing} is missing: it crosses this link, as {_shown(crossing)} do; put it in, or plan again"
    )


def _shown(crossing: list[Message]) -> str:
    if len(crossing) <= 3:
        return ", ".join(map(str, crossing)) or "none"
    return f"{len(crossing):,} ({', '.join(map(str, crossing[:2]))}, ...)"
