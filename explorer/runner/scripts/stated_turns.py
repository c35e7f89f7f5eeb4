"""The messages of a script in the order that the plan states for each link."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.runner.scripts.script import Segment
from solvers.plan.plan import Action, Message, Plan


@dataclass(frozen=True, slots=True)
class Sending:
    """A message of a script. task: its number; makers: (segment, forward operator) whose forward, or backward
    (``back``), of a micro-batch makes what it carries; first: (tensor, piece) that tell apart what is made at once."""

    task: int
    wire: str
    to_device: int
    makers: tuple[tuple[int, int], ...]
    micro_batch: int
    back: bool
    first: tuple[int, int]


def stated_turns(plan: Plan, segments: Sequence[Segment], sendings: Sequence[Sending]) -> list[list[int]]:
    """For every link whose order the plan states its tasks in that order.

    A message of the script is the plan's of the same action to the same device. Where one action sends
    several they are matched in order; where segments send at once what stages send apart, they come where the last
    of these does. What the plan does not name (it joins what the simulation keeps apart) is left out.
    """
    stages_of: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, segment in enumerate(segments):
        for stage in segment.stages:
            for operator in plan.stages[stage].operators:
                stages_of[index, operator].append(stage)
    by_wire: dict[str, list[Sending]] = defaultdict(list)
    for sending in sendings:
        by_wire[sending.wire].append(sending)
    return [_turn(row, by_wire.get(link, ()), stages_of) for link, row in plan.messages]


def _turn(
    row: Sequence[Message], sendings: Sequence[Sending], stages_of: dict[tuple[int, int], list[int]]
) -> list[int]:
    places: dict[tuple[Action, int], list[tuple[int, int]]] = defaultdict(list)
    for place, message in enumerate(row):
        places[message.action, message.to_device].append((message.number, place))
    by_action: dict[tuple[Action, int], list[Sending]] = defaultdict(list)
    for sending in sendings:
        stages = sorted({stage for maker in sending.makers for stage in stages_of[maker]}, reverse=True)
        names = [
            (Action(stage, kind, sending.micro_batch), sending.to_device)
            for stage in stages
            for kind in ("BI" if sending.back else "F")
        ]
        name = next((name for name in names if name in places), None)
        if name is not None:
            by_action[name].append(sending)
    tasks: list[tuple[int, tuple[int, int], int]] = []
    for name, alike in by_action.items():
        alike.sort(key=lambda sending: sending.first)
        at = [place for _, place in sorted(places[name])]
        if len(at) != len(alike):
            at = [max(at)] * len(alike)
        tasks += [(place, sending.first, sending.task) for place, sending in zip(at, alike, strict=True)]
    return [task for _, _, task in sorted(tasks)]
