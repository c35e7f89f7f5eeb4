"""A plan made ready to run: every rank's steps, messages included, in one order that cannot deadlock.

Why not. The event loop of `solvers.evaluation` runs the tasks of `waits`. Each compute step stands on its rank's list
where it ends, and each message, at one instant, on the lists of both its ranks (an average over replicas on the lists
of all of them). So there is one order in time of everything that happens, of which every list is a part; a message
comes after the steps that make what it carries, and before the end of those that read it. Take the first thing in that
order that has not happened: all that stands before it on its ranks' lists has, and what it reads is there, so it can
happen, even where sends and receives block in the order of the lists. And since steps are listed when they end, a
message stands before the steps that its two ranks run while it is under way: it is posted first, and moves
while they compute.

Where the plan states the order of messages on a link, each waits for the one before it, as in the simulation
(`solvers.evaluation`). Segments that join stages may wait for more than these do; should that order then deadlock, a
link takes the first of the messages that are ready.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from explorer.runner.scripts.channels import channels_of, gradients_of
from explorer.runner.scripts.script import Do, Script, Step
from explorer.runner.scripts.segments import Layout, lay_out
from explorer.runner.scripts.stated_turns import stated_turns
from explorer.runner.scripts.waits import Waits
from solvers.errors import InvalidPlan
from solvers.evaluation.list_schedule_kernel import list_schedule
from solvers.evaluation.simulation import run
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem

_list_schedule = until_worth_it(list_schedule)


def make_script(problem: Problem, plan: Plan, gradients: Sequence[frozenset[int]] | None = None) -> Script:
    """Everything the ranks do in one iteration (objectives ITERATION, MAX_LOAD) or one pass (MAKESPAN).

    gradients: per tensor of the graph the consumers that send a gradient back over it; None: as the graph
    itself has them (`gradients_of`). Raises InvalidPlan if the plan is incomplete, states an order of messages that is
    not whole, needs a link that is not there, or deadlocks (the message shows where every rank is stuck), RunError
    if it cannot be run at all.
    """
    if plan.messages:
        run(problem, plan)  # says if they are not whole or deadlock, also where joined segments would not
    graph = problem.graph
    sends: Sequence[frozenset[int]] = ()
    if graph.trains:
        sends = gradients_of(graph) if gradients is None else gradients
    layout = lay_out(problem, plan, sends)
    late: frozenset[int] = frozenset()
    try:
        script = _ordered(problem, plan, layout, sends)
    except InvalidPlan:
        late = _late(problem, layout, sends)
        if not late:
            raise
        layout = lay_out(problem, plan, sends, at_weights=late)
        script = _ordered(problem, plan, layout, sends)
    if layout.unordered:  # now that there is an order, neighbours in it can be joined
        ran = dict(zip(script.devices, script.steps, strict=True))
        layout = lay_out(problem, plan, sends, at_weights=late, ran=(layout, ran))
        script = _ordered(problem, plan, layout, sends)
    return script


def _ordered(problem: Problem, plan: Plan, layout: Layout, gradients: Sequence[frozenset[int]]) -> Script:
    graph = problem.graph
    channels = channels_of(graph, layout.segments, gradients, problem.mini_batch, by_operator=layout.by_operator)
    devices = plan.devices_used()
    unordered = frozenset(rank for rank, device in enumerate(devices) if device in layout.unordered)
    waits = Waits(problem, layout, channels, devices)
    turns = stated_turns(plan, layout.segments, waits.sendings)
    waits.keep_turns(turns)
    try:
        steps = run_events(waits, unordered).steps()
    except InvalidPlan:
        if not turns:
            raise
        waits = Waits(problem, layout, channels, devices)
        waits.prefer_turns(turns)
        steps = run_events(waits, unordered).steps()
    return Script(layout.segments, channels, devices, steps, problem.mini_batch, graph.trains)


def _late(problem: Problem, layout: Layout, gradients: Sequence[frozenset[int]]) -> frozenset[int]:
    """Segments with gradients apart, some of which come from elsewhere and go to parameters alone: the plan may
    mean to make those of inputs before they arrive, which a segment, called once for all inputs, cannot."""
    operators = problem.graph.operators
    with_inputs = {o.forward_of for o in operators if o.phase is Phase.BACKWARD_INPUT}
    split = {step.index for steps in layout.order for step in steps if step.do is Do.BACKWARD_WEIGHT}
    channels = channels_of(problem.graph, layout.segments, gradients, problem.mini_batch)
    return frozenset(
        channel.source
        for channel in channels
        for t, flows in zip(channel.tensors, channel.gradient, strict=True)
        if flows and channel.source in split and problem.graph.tensors[t].producer not in with_inputs
    )


def text(script: Script) -> str:
    """A readable grid, a line a rank: ``rank 0 on device 2: 0F0 3SEND0 ...``."""
    return "\n".join(
        f"rank {rank} on device {device}: " + " ".join(map(str, steps))
        for rank, (device, steps) in enumerate(zip(script.devices, script.steps, strict=True))
    )


@dataclass(frozen=True, eq=False)
class EventRun:
    """The tasks of a plan as the engine's event loop ran them. start_s, end_s: [tasks] s, inf where it never came to
    that; cause: [tasks] the task whose end let each start, -1 for none."""

    waits: Waits
    start_s: Floats
    end_s: Floats
    cause: Ints

    @property
    def length_s(self) -> float:
        return float(self.end_s.max(initial=0.0))

    def steps(self) -> tuple[tuple[Step, ...], ...]:
        """The steps of every rank in the order of events. Of those at one time a step that ends comes before a message
        that starts: it may be what the message waited for."""
        lists: list[list[Step]] = [[] for _ in self.waits.order]
        rounds = self._rounds()
        events = []
        for number, task in enumerate(self.waits.tasks):
            starts = bool(task.wire) or len(task.ranks) > 1
            kind = 0 if not starts else 1 if task.wire else 2
            at = rounds.get(int(self.cause[number]), 0) if starts else rounds.get(number, 0)
            events.append(((self.start_s if starts else self.end_s)[number], at, kind, number))
        for *_, number in sorted(events):
            task = self.waits.tasks[number]
            for place, rank in enumerate(task.ranks):
                lists[rank].append(task.arrives_as if place and task.arrives_as is not None else task.step)
        return tuple(map(tuple, lists))

    def _rounds(self) -> dict[int, int]:
        """Of tasks that take no time how many such tasks, each let start by the one before, end at their time up to
        them: what happens at one time has an order, too."""
        rounds: dict[int, int] = {}
        for number in range(len(self.waits.tasks)):
            chain, at = [], number
            while at >= 0 and at not in rounds and self.start_s[at] == self.end_s[at]:
                chain.append(at)
                at = int(self.cause[at])
            before = rounds.get(at, 0)
            rounds.update({each: before + place for place, each in enumerate(reversed(chain), 1)})
        return rounds

    def picture(self) -> str:
        """What every stuck rank waits for, in one line; below it every rank's list with the stuck step marked."""
        reasons, lines = [], []
        tasks = self.waits.tasks
        for order, device in zip(self.waits.order, self.waits.devices, strict=True):
            left = [number for number in order if self._stuck(number)]
            shown = [str(tasks[number].step) for number in order if not self._stuck(number)]
            shown += [f">{tasks[n].step}<" if n == left[0] else str(tasks[n].step) for n in left]
            if left:
                causes = ", ".join(f"{step} on device {there}" for step, there in sorted(self._causes(left[0]))[:3])
                reasons.append(f"{tasks[left[0]].step} on device {device} waits for {causes}")
            lines.append(f"device {device}: " + " ".join(shown))
        return "; ".join([f"the order deadlocks: {'; '.join(reasons)}", *lines])

    def _stuck(self, number: int) -> bool:
        return not math.isfinite(self.start_s[number])

    def _causes(self, number: int) -> set[tuple[Step, int]]:
        """The compute steps, and their devices, that a stuck step waits for."""
        causes: set[tuple[Step, int]] = set()
        for earlier in self.waits.tasks[number].before:
            task = self.waits.tasks[earlier]
            if task.wire or len(task.ranks) > 1:
                causes |= self._causes(earlier)
            elif self._stuck(earlier):
                causes.add((task.step, self.waits.devices[task.ranks[0]]))
        return causes


def run_events(waits: Waits, unordered: frozenset[int]) -> EventRun:
    """Ranks take their steps in order (loose ones the first that is ready), wires the most urgent message. Raises
    InvalidPlan if they deadlock."""
    number: dict[str, int] = {}
    resource, before, priority = [], [set(task.before) for task in waits.tasks], []
    for task in waits.tasks:
        if task.wire:
            resource.append(len(waits.order) + number.setdefault(task.wire, len(number)))
        else:
            resource.append(task.ranks[0] if len(task.ranks) == 1 else -1)
        priority.append(float(task.urgency))
    for rank, order in enumerate(waits.order):
        for earlier, later in pairwise(order) if rank not in unordered else ():
            before[later].add(earlier)
    after: list[list[int]] = [[] for _ in before]
    for later, earliers in enumerate(before):
        for earlier in earliers:
            after[earlier].append(later)
    start, end, cause, done, _, _ = _list_schedule(
        np.array([task.seconds for task in waits.tasks]), np.array(resource, np.int64), len(waits.order) + len(number),
        np.cumsum([0, *map(len, after)]), np.array([task for each in after for task in each], np.int64),
        np.array([len(each) for each in before], np.int64), np.array(priority),
    )  # fmt: skip
    event_run = EventRun(waits, start, end, cause)
    if done < len(before):
        raise InvalidPlan(event_run.picture())
    return event_run
