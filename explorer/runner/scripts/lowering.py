"""A plan made ready to run: every rank's steps, messages included, in one order that cannot deadlock.

Why not. The event simulation puts each compute step on its rank's list when it ends, and each message, at
one instant, on the lists of both its ranks (an average over replicas on the lists of all of them). So there is
one order in time of everything that happens, of which every list is a part; a message comes after the steps
that make what it carries, and before the end of those that read it. Take the first thing in that order that has
not happened: all that stands before it on its ranks' lists has, and what it reads is there, so it can happen,
even where sends and receives block in the order of the lists. And since steps are listed when they end, a
message stands before the steps that its two ranks run while it is under way: it is posted first, and moves
while they compute.

Where the plan states the order of messages on a link, each waits for the one before it, as in the telling
(`solvers.evaluation`). Segments that join stages may wait for more than these do; should that order then deadlock, a
link takes the first of the messages that are ready.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

from explorer.runner.scripts.channels import channels_of, gradients_of
from explorer.runner.scripts.script import Do, Script, Step
from explorer.runner.scripts.segments import Layout, lay_out
from explorer.runner.scripts.stated_turns import stated_turns
from explorer.runner.scripts.waits import Waits
from solvers.errors import InvalidPlan
from solvers.evaluation.simulation import run
from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem


def make_script(problem: Problem, plan: Plan, gradients: Sequence[frozenset[int]] | None = None) -> Script:
    """Everything the ranks do in one iteration (objectives ITERATION, MAX_LOAD) or one pass (MAKESPAN).

    gradients: per tensor of the graph the consumers that send a gradient back over it; None: as the graph
    itself tells (`gradients_of`). Raises InvalidPlan if the plan is incomplete, states an order of messages that is
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
    if layout.loose:  # now that there is an order, neighbours in it can be joined
        ran = dict(zip(script.devices, script.steps, strict=True))
        layout = lay_out(problem, plan, sends, at_weights=late, ran=(layout, ran))
        script = _ordered(problem, plan, layout, sends)
    return script


def _ordered(problem: Problem, plan: Plan, layout: Layout, gradients: Sequence[frozenset[int]]) -> Script:
    graph = problem.graph
    channels = channels_of(graph, layout.segments, gradients, problem.mini_batch, by_operator=layout.by_operator)
    devices = plan.devices_used()
    loose = frozenset(rank for rank, device in enumerate(devices) if device in layout.loose)
    waits = Waits(problem, layout, channels, devices)
    turns = stated_turns(plan, layout.segments, waits.sendings)
    waits.keep_turns(turns)
    try:
        steps = EventRun(waits, loose).run()
    except InvalidPlan:
        if not turns:
            raise
        waits = Waits(problem, layout, channels, devices)
        waits.prefer_turns(turns)
        steps = EventRun(waits, loose).run()
    return Script(layout.segments, channels, devices, steps, problem.mini_batch, graph.trains)


def _late(problem: Problem, layout: Layout, gradients: Sequence[frozenset[int]]) -> frozenset[int]:
    """Segments with gradients apart, some of which come from elsewhere and go to parameters alone: the plan may
    mean to make those of inputs before they arrive, which a segment, called once for all inputs, cannot."""
    operators = problem.graph.operators
    with_inputs = {o.forward_of for o in operators if o.phase is Phase.BACKWARD_INPUT}
    apart = {step.index for steps in layout.order for step in steps if step.do is Do.BACKWARD_WEIGHT}
    channels = channels_of(problem.graph, layout.segments, gradients, problem.mini_batch)
    return frozenset(
        channel.source
        for channel in channels
        for t, flows in zip(channel.tensors, channel.gradient, strict=True)
        if flows and channel.source in apart and problem.graph.tensors[t].producer not in with_inputs
    )


def text(script: Script) -> str:
    """A readable grid, a line a rank: ``rank 0 on device 2: 0F0 3SEND0 ...``."""
    return "\n".join(
        f"rank {rank} on device {device}: " + " ".join(map(str, steps))
        for rank, (device, steps) in enumerate(zip(script.devices, script.steps, strict=True))
    )


class EventRun:
    """Ranks take their steps in order (loose ones the first that is ready), wires the most urgent message."""

    def __init__(self, waits: Waits, loose: frozenset[int]) -> None:
        self.waits, self.tasks, self.loose = waits, waits.tasks, loose
        self.missing = [len(task.before) for task in self.tasks]
        self.to_do = [list(reversed(order)) for order in waits.order]
        self.computing = [False] * len(self.to_do)
        self.queued: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.busy: set[str] = set()
        self.averages: list[int] = []
        self.ending: list[tuple[float, int]] = []
        self.lists: list[list[Step]] = [[] for _ in self.to_do]
        self.length_s = 0.0

    def run(self) -> tuple[tuple[Step, ...], ...]:
        """The steps of every rank. Raises InvalidPlan if they deadlock."""
        self._start(0.0)
        while self.ending:
            now = self.length_s = self.ending[0][0]
            while self.ending and self.ending[0][0] == now:
                self._end(heapq.heappop(self.ending)[1], now)
            self._start(now)
        if any(self.to_do):
            raise InvalidPlan(self._picture())
        return tuple(map(tuple, self.lists))

    def _end(self, number: int, now: float) -> None:
        task = self.tasks[number]
        if task.wire:
            self.busy.discard(task.wire)
        elif len(task.ranks) == 1:
            self.computing[task.ranks[0]] = False
            self.lists[task.ranks[0]].append(task.step)
        for later in task.after:
            self.missing[later] -= 1
            if self.missing[later]:
                continue
            other = self.tasks[later]
            if other.wire:
                heapq.heappush(self.queued[other.wire], (other.urgency, later))
            elif len(other.ranks) > 1:
                self.averages.append(later)

    def _start(self, now: float) -> None:
        for wire, queue in self.queued.items():
            if queue and wire not in self.busy:
                _, number = heapq.heappop(queue)
                task = self.tasks[number]
                self.busy.add(wire)
                for rank, step in zip(task.ranks, (task.step, task.arrives_as), strict=True):
                    assert step is not None
                    self.lists[rank].append(step)
                heapq.heappush(self.ending, (now + task.seconds, number))
        while self.averages:
            number = self.averages.pop()
            for rank in self.tasks[number].ranks:
                self.lists[rank].append(self.tasks[number].step)
            heapq.heappush(self.ending, (now + self.tasks[number].seconds, number))
        for rank, to_do in enumerate(self.to_do):
            if self.computing[rank] or not to_do:
                continue
            ready = self._ready(rank, to_do)
            if ready is not None:
                number = to_do.pop(ready)
                self.computing[rank] = True
                heapq.heappush(self.ending, (now + self.tasks[number].seconds, number))

    def _ready(self, rank: int, to_do: list[int]) -> int | None:
        """The place of the step to run; to_do is reversed, the next step last."""
        if rank not in self.loose:
            return None if self.missing[to_do[-1]] else len(to_do) - 1
        return next((place for place in reversed(range(len(to_do))) if not self.missing[to_do[place]]), None)

    def _picture(self) -> str:
        """What every stuck rank waits for, in one line; below it every rank's list with the stuck step marked."""
        reasons, lines = [], []
        for rank, device in enumerate(self.waits.devices):
            left = set(self.to_do[rank])
            shown = [str(self.tasks[n].step) for n in self.waits.order[rank] if n not in left]
            for place, number in enumerate(reversed(self.to_do[rank])):
                step = self.tasks[number].step
                shown.append(f">{step}<" if place == 0 else str(step))
            if left:
                stuck = self.to_do[rank][-1]
                causes = ", ".join(f"{step} on device {there}" for step, there in sorted(self._causes(stuck))[:3])
                reasons.append(f"{self.tasks[stuck].step} on device {device} waits for {causes}")
            lines.append(f"device {device}: " + " ".join(shown))
        return "; ".join([f"the order deadlocks: {'; '.join(reasons)}", *lines])

    def _causes(self, number: int) -> set[tuple[Step, int]]:
        """The compute steps, and their devices, that a stuck step waits for."""
        found: set[tuple[Step, int]] = set()
        for earlier in self.tasks[number].before:
            task = self.tasks[earlier]
            if task.wire or len(task.ranks) > 1:
                found |= self._causes(earlier)
            elif earlier in self.to_do[task.ranks[0]]:
                found.add((task.step, self.waits.devices[task.ranks[0]]))
        return found
