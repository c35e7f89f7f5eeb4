"""A plan: stages, the order of their actions on each device and of messages on each link, and their pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from solvers.errors import InvalidPlan
from solvers.problem.displayed import Displayed
from solvers.problem.graph import Phase
from solvers.problem.names import clean_names
from solvers.problem.rebuilt import Rebuilt

ACTION_KINDS = "FBIWU"
PHASES_OF = {
    "F": (Phase.FORWARD,),
    "B": (Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT),
    "I": (Phase.BACKWARD_INPUT,),
    "W": (Phase.BACKWARD_WEIGHT,),
    "U": (Phase.UPDATE,),
}
"""Which phases an action runs."""
_ACTION = re.compile(r"^(\d+)([FBIWU])(\d*)$")
_MESSAGE = re.compile(r"^(\d+[FBIWU]\d*)>(\d+)(?:#(\d+))?\Z", re.ASCII)
NOT_COPIED = 2
"""Where fewer actions of a device run between a forward and its backward, what is saved stays: it would come back while
the first of them runs, or the last."""
_MOST = 2**31
"""No part of a message's name is as large: names are compared as 64 bit integers."""


@dataclass(frozen=True, slots=True, order=True)
class Action:
    """One stage doing one thing for one micro-batch; "2F0" is stage 2, forward, micro-batch 0.

    kind: F forward, B whole backward, I input gradients, W weight gradients, U update (once per
    mini-batch; its micro_batch is 0 and its text is "2U").
    """

    stage: int
    kind: str
    micro_batch: int = 0

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}" + ("" if self.kind == "U" else str(self.micro_batch))


def parse_action(text: str) -> Action:
    """The action that ``str(action)`` gave. Raises InvalidPlan."""
    match = _ACTION.match(text)
    if match is None or (match[3] == "") != (match[2] == "U"):
        raise InvalidPlan(f"{text!r} is not an action; expected stage, one of {ACTION_KINDS}, micro-batch: 2F0")
    return Action(int(match[1]), match[2], int(match[3] or 0))


@dataclass(frozen=True, slots=True, order=True)
class Message:
    """What an action sends to a device; "2F0>1" is what stage 2's forward of micro-batch 0 sends to device 1.

    Of what several actions make together, the action is that of the highest stage, then the last kind. number
    distinguishes what crosses one link under one name: "2F0>1#1" is the second of these, in the order of the
    graph's messages, then of the senders, then of the micro-batches that read them.
    """

    action: Action
    to_device: int
    number: int = 0

    def __post_init__(self) -> None:
        if max(self.action.stage, self.action.micro_batch, self.to_device, self.number) >= _MOST:
            raise InvalidPlan(f"a number in the name of a message is larger than {_MOST - 1:,}")

    def __str__(self) -> str:
        return f"{self.action}>{self.to_device}" + (f"#{self.number}" if self.number else "")


def parse_message(text: str) -> Message:
    """The message that ``str(message)`` gave. Raises InvalidPlan."""
    match = _MESSAGE.match(text)
    if match is None or (match[3] is not None and not match[3].strip("0")):
        raise InvalidPlan(f"{text!r} is not a message; expected an action, > and a device: 2F0>1, or 2F0>1#1")
    return Message(parse_action(match[1]), int(match[2]), int(match[3] or 0))


MessageOrder = tuple[tuple[str, tuple[Message, ...]], ...]
"""The name of a link's resource, and all that crosses it in the order in which it is served."""


class Region(NamedTuple):
    """Forward operators of a stage that run again, as one, before their backward.

    cached: those among them that keep what they make, and do not run again.
    """

    operators: tuple[int, ...]
    cached: tuple[int, ...] = ()


def regions_among(regions: Iterable[Region], operators: Set[int]) -> tuple[Region, ...]:
    """The parts of regions that are among ``operators``, where anything of them runs again."""
    parts = (Region(*(tuple(o for o in some if o in operators) for some in region)) for region in regions)
    return tuple(part for part in parts if len(part.operators) > len(part.cached))


@dataclass(frozen=True, slots=True)
class Stage:
    """Operators that run as a unit, on one device or on a group of replicas.

    operators: positions in the graph, in the order in which they run. devices: more than one means
    replicated, each replica taking an equal share of every micro-batch. micro_batch_size: samples.
    in_flight: most micro-batches whose forward is done and whose backward, gradients of parameters (W)
    included, is not. recompute: of every micro-batch in flight only what the stage receives is kept; its
    forward runs again before the backward. offload: forward operators; what they save goes to the host's memory and
    comes back for the backward, of every micro-batch with at least `NOT_COPIED` actions between the two. regions:
    operators that run again, where the problem leaves that to its plans (`solvers.plan.regions`).
    """

    operators: tuple[int, ...]
    devices: tuple[int, ...]
    micro_batch_size: int = 1
    in_flight: int = 1
    recompute: bool = False
    offload: tuple[int, ...] = ()
    regions: tuple[Region, ...] = ()

    def __post_init__(self) -> None:
        if not self.operators:
            raise InvalidPlan("a stage has no operators")
        if not self.devices:
            raise InvalidPlan("a stage has no device")
        if len(set(self.devices)) != len(self.devices):
            raise InvalidPlan(f"a stage lists a device twice: {list(self.devices)}")
        if self.micro_batch_size < 1 or self.in_flight < 1:
            raise InvalidPlan("a stage's micro_batch_size and in_flight must be at least 1")
        if self.recompute and self.offload:
            raise InvalidPlan("a stage recomputes and offloads what its forward saves; choose one of the two")
        if self.recompute and self.regions:
            raise InvalidPlan("a stage recomputes as a whole and by regions; choose one of the two")
        if not set(self.offload) <= set(self.operators) or len(set(self.offload)) != len(self.offload):
            raise InvalidPlan("a stage offloads what an operator saves that it has not, or offloads it twice")
        if not self.regions:
            return
        inside = [operator for region in self.regions for operator in region.operators]
        if len(set(inside)) != len(inside) or not set(inside) <= set(self.operators):
            raise InvalidPlan("regions of a stage share an operator, or have one that the stage has not")
        if any(not set(region.cached) <= set(region.operators) for region in self.regions):
            raise InvalidPlan("a region of a stage caches what an operator outside it makes")
        if not set(inside).isdisjoint(self.offload):
            raise InvalidPlan("a stage offloads what an operator saves that is in a region; choose one of the two")

    def holding(self, operators: tuple[int, ...]) -> Stage:
        """The stage with other operators; what becomes of what they save is as before."""
        members = set(operators)
        offload = tuple(o for o in self.offload if o in members)
        return replace(self, operators=operators, offload=offload, regions=regions_among(self.regions, members))

    @property
    def again(self) -> tuple[int, ...]:
        """Operators that run again by region, in the order of the regions."""
        return tuple(o for region in self.regions for o in region.operators if o not in region.cached)


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Displayed, Rebuilt):
    """Stages and, per device, the order of their actions.

    Every operator is in exactly one stage (replicable ones may repeat); several stages may share a
    device. order has one entry per device of the cluster. messages: for links whose order the plan states, all
    that crosses them in the schedule that the problem's objective asks for (`evaluation.message_order`); other
    links serve the transfer whose reader comes first. The plan holds no objective: `evaluate` computes it.
    Whether it fits a problem is for `check` to say.
    """

    stages: tuple[Stage, ...]
    order: tuple[tuple[Action, ...], ...]
    pipeline: str = "none"
    messages: MessageOrder = ()
    _derived: list[Any] = field(init=False, repr=False, compare=False, default_factory=list)
    """What others derive from the plan once (`evaluation.columns`)."""

    def __post_init__(self) -> None:
        clean_names(self, "pipeline")

    def __repr__(self) -> str:
        actions = sum(map(len, self.order))
        return f"Plan({self.pipeline}: {len(self.stages):,} stages on {len(self.order):,} devices, {actions:,} actions)"

    def placement(self) -> dict[int, tuple[int, ...]]:
        """Operator -> devices."""
        where: dict[int, tuple[int, ...]] = {}
        for stage in self.stages:
            for operator in stage.operators:
                where[operator] = where.get(operator, ()) + stage.devices
        return where

    def devices_used(self) -> tuple[int, ...]:
        """The devices that have a stage, ascending."""
        return tuple(sorted({device for stage in self.stages for device in stage.devices}))
