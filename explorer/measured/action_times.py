"""How long the actions of a run took: medians over iterations, by segment, kind and device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from explorer.measured.all_reduce import sync_seconds
from explorer.runner.bundles.outcome import MeasuredAction, Outcome
from explorer.runner.scripts.script import MESSAGES, Do, Step, parse_step
from solvers.errors import InvalidPlan

BACKWARD = "BIW"
SYNC = Do.SYNC.value


@dataclass(frozen=True, slots=True)
class ActionTimes:
    """seconds: (segment, kind, device) -> of one action: the median over iterations of each micro-batch, then
    their mean, so that a slow first micro-batch counts once an iteration as it does in the run. The engine's own
    time before an action counts as the action's: the device could not do anything else.
    backward_s: (segment, device) -> of all backward actions (B, I and W) of one micro-batch. sync_s: see
    `explorer.measured.all_reduce.sync_seconds`."""

    seconds: Mapping[tuple[int, str, int], float]
    backward_s: Mapping[tuple[int, int], float]
    sync_s: Mapping[int, float]

    def places(self) -> set[tuple[int, int]]:
        """(segment, device) pairs that computed."""
        return {(segment, device) for segment, kind, device in self.seconds if kind != SYNC}


def step_of(action: MeasuredAction, outcome: Outcome) -> tuple[Step, int]:
    """The step of an action and the device it ran on. Raises InvalidPlan for one that is none of the run's."""
    step = parse_step(action.action)
    if step.do in MESSAGES or step.index >= len(outcome.segments):
        raise InvalidPlan(
            f"the run measured {action.action!r}, which is no action of its {len(outcome.segments)} segments"
        )
    if not 0 <= action.rank < len(outcome.rank_devices):
        raise InvalidPlan(f"the run measured rank {action.rank}, but has {len(outcome.rank_devices)} ranks")
    return step, outcome.rank_devices[action.rank]


def action_times(outcome: Outcome) -> ActionTimes:
    """The times of all actions of an outcome. Raises InvalidPlan, see `step_of`."""
    each: dict[tuple[int, str, int, int], list[float]] = defaultdict(list)
    for action in outcome.actions:
        step, device = step_of(action, outcome)
        took = max(0.0, action.end_s - action.start_s) + max(0.0, action.engine_s)
        each[step.index, step.do.value, device, step.number].append(took)
    middle = {key: median(values) for key, values in each.items()}
    of_kind: dict[tuple[int, str, int], list[float]] = defaultdict(list)
    together: dict[tuple[int, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for (segment, kind, device, micro_batch), seconds in middle.items():
        of_kind[segment, kind, device].append(seconds)
        if kind in BACKWARD:
            together[segment, device][micro_batch] += seconds
    return ActionTimes(
        {key: fmean(values) for key, values in of_kind.items()},
        {key: fmean(by_micro_batch.values()) for key, by_micro_batch in together.items()},
        sync_seconds(outcome),
    )


def iteration_numbers(actions: Sequence[MeasuredAction]) -> list[int]:
    """The numbers of the measured iterations, ascending; the first is that of ``iterations_s[0]``."""
    return sorted({action.iteration for action in actions})
