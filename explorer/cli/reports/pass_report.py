"""One pass of single operators for people: what devices and links do with their time, and what decides the end."""

from __future__ import annotations

import math

from explorer.cli.terminal.command import print_table
from explorer.view.timeline.exchanges import of_spans
from explorer.view.timeline.lanes import endpoints, link_uses
from explorer.view.timeline.path import heaviest, path_parts, sentence
from explorer.words import text
from explorer.words.actions import KIND_WORDS
from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule
from solvers.problem.problem import Execution, Objective, Problem

LINKS = 24
"""Links listed, the busiest first."""
SENTENCE = 6
"""Parts of the makespan listed one by one."""


def is_pass_of_operators(problem: Problem) -> bool:
    """Whether the schedule of a plan is one pass in which every operator is scheduled by itself."""
    return problem.objective is Objective.MAKESPAN and problem.execution is Execution.OPERATOR


def print_pass(problem: Problem, plan: Plan, schedule: Schedule) -> None:
    """A table of devices, one of links, and the critical path in two lines."""
    _print_devices(problem, schedule)
    names = [device.name for device in problem.cluster.devices]
    _print_links(schedule, names)
    print()
    for line in path_lines(problem, plan, schedule):
        print(line)


def path_lines(problem: Problem, plan: Plan, schedule: Schedule) -> list[str]:
    """What the makespan is made of, and the longest spans of the critical path."""
    names = [device.name for device in problem.cluster.devices]
    moves = sum(schedule.spans[i].is_transfer for i in schedule.critical)
    parts = path_parts(schedule, of_spans(problem, plan))
    lines = [
        f"step       {sentence(parts, schedule.makespan_s, names, SENTENCE).removeprefix('Step ')}",
        f"path       {text.plural(len(schedule.critical) - moves, 'operator')} and {text.plural(moves, 'transfer')}"
        " one after the other",
    ]
    for heavy in heaviest(schedule, endpoints(schedule)):
        name = text.short(problem.graph.operators[heavy.operator].name, 60) if heavy.operator >= 0 else "a stage"
        what = f"{name}, {KIND_WORDS[heavy.kind]}, on {names[heavy.device]}"
        if heavy.to_device >= 0:
            what = f"{text.nbytes(heavy.nbytes)} of {name}, {names[heavy.device]} to {names[heavy.to_device]}"
        lines.append(f"longest    {text.seconds(heavy.seconds)}  {what}")
    return lines


def idle_share(schedule: Schedule) -> float:
    """Share of the time of the devices that compute at all in which they do not."""
    busy = [seconds for seconds in schedule.busy_per_device_s() if seconds > 0]
    whole = schedule.makespan_s * len(busy)
    return max(0.0, 1 - sum(busy) / whole) if whole else 0.0


def _print_devices(problem: Problem, schedule: Schedule) -> None:
    rows = [["device", "operators", "compute", "busy", "peak memory", "of cap"]]
    ran = [0] * len(problem.cluster)
    for span in schedule.spans:
        ran[span.device] += not span.is_transfer
    busy, peaks = schedule.busy_per_device_s(), schedule.peak_bytes()
    for index, device in enumerate(problem.cluster.devices):
        cap = device.memory_bytes
        rows.append(
            [
                f"{index} {device.name}",
                text.count(ran[index]),
                text.seconds(busy[index]),
                text.percent(busy[index] / schedule.makespan_s if schedule.makespan_s > 0 else math.nan),
                text.nbytes(peaks[index]),
                "no cap" if math.isinf(cap) else text.percent(peaks[index] / cap),
            ]
        )
    print_table(rows, right=frozenset(range(1, 6)))


def _print_links(schedule: Schedule, names: list[str]) -> None:
    uses = sorted(link_uses(schedule, names), key=lambda use: -use["busy_s"])
    if not uses:
        return
    rows = [["link", "transfers", "bytes", "time", "busy"]]
    for use in uses[:LINKS]:
        share = use["busy_s"] / schedule.makespan_s if schedule.makespan_s > 0 else math.nan
        rows.append(
            [
                use["label"],
                text.count(use["transfers"]),
                text.nbytes(use["nbytes"]),
                text.seconds(use["busy_s"]),
                text.percent(share),
            ]
        )
    print()
    print_table(rows, right=frozenset(range(1, 5)))
    if len(uses) > LINKS:
        rest = uses[LINKS:]
        moved = text.nbytes(sum(use["nbytes"] for use in rest))
        print(f"... {len(rest)} more, {moved} in {text.plural(sum(use['transfers'] for use in rest), 'transfer')}")
