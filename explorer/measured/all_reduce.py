"""The all-reduce of replicas in a run: S only begins it, and the update waits for its end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from statistics import median

from explorer.runner.bundles.outcome import MeasuredAction, Outcome
from explorer.runner.scripts.script import Do, parse_step

_Where = tuple[int, int]
"""A segment and an iteration."""


def settled(outcome: Outcome) -> Outcome:
    """The outcome with what is surely waiting taken off updates: no sum over replicas is there before the last of
    them has given its part, so until then an update that has begun only waits."""
    given: dict[_Where, float] = {}
    for action, segment in _of(outcome, Do.SYNC):
        where = (segment, action.iteration)
        given[where] = max(given.get(where, 0.0), action.end_s)
    changed = []
    for action in outcome.actions:
        step = parse_step(action.action)
        last_s = given.get((step.index, action.iteration)) if step.do is Do.UPDATE else None
        if last_s is not None and last_s > action.start_s:
            start_s = min(last_s, action.end_s)
            action = replace(action, start_s=start_s, wait_s=action.wait_s + start_s - action.start_s)
        changed.append(action)
    return replace(outcome, actions=tuple(changed))


def sync_seconds(outcome: Outcome) -> dict[int, float]:
    """Segment -> seconds of its all-reduce, the median over iterations.

    From when the last replica begins to until an update that had to wait for it begins; of several the first. Where
    no update had to wait, what S took of the replica that was quickest, since the others wait in it for the last.
    """
    begun: dict[_Where, float] = {}
    took: dict[_Where, list[float]] = defaultdict(list)
    done: dict[_Where, list[float]] = defaultdict(list)
    for action, segment in _of(outcome, Do.SYNC):
        where = (segment, action.iteration)
        begun[where] = max(begun.get(where, 0.0), action.start_s)
        took[where].append(action.end_s - action.start_s)
    for action, segment in _of(outcome, Do.UPDATE):
        if action.wait_s > 0:
            done[segment, action.iteration].append(action.start_s)
    seconds: dict[int, list[float]] = defaultdict(list)
    for where, each in took.items():
        seconds[where[0]].append(max(0.0, min(done[where]) - begun[where]) if done[where] else max(0.0, min(each)))
    return {segment: median(values) for segment, values in seconds.items()}


def _of(outcome: Outcome, do: Do) -> list[tuple[MeasuredAction, int]]:
    """The actions of a kind, with their segments."""
    steps = ((action, parse_step(action.action)) for action in outcome.actions)
    return [(action, step.index) for action, step in steps if step.do is do]
