"""The controls around a plan: what they say, and what may be chosen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from explorer.costs.devices import DEVICES
from explorer.notebook.hearing import SETTABLE
from explorer.question.accelerators import DEFAULT_KIND
from explorer.question.settings import STAGE
from explorer.words import text
from solvers.planners.registry import PLANNERS
from solvers.problem.cluster import CPU_KIND
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.search.effort import Effort

OBJECTIVES = {"": "default", Objective.ITERATION.value: "iteration time", Objective.MAX_LOAD.value: "max-load",
              Objective.MAKESPAN.value: "makespan"}  # fmt: skip
PIPELINES = {
    Pipeline.ONE_F_ONE_B.value: "1F1B",
    Pipeline.GPIPE.value: "GPipe",
    Pipeline.INTERLEAVED.value: "interleaved 1F1B",
    Pipeline.ZERO_BUBBLE.value: "zero-bubble",
    Pipeline.PLANNER.value: "planner's own",
}

Choice = tuple[str, str, str]
"""Value, label and title."""


@cache
def choices() -> dict[str, list[Choice]]:
    """What each choice offers, the default first."""
    planners = sorted(PLANNERS.items(), key=lambda item: item[0] != "auto")
    kinds = [name for name in DEVICES if name != CPU_KIND]
    return {
        "planner": [(name, name, f"{planner.guarantee}; {planner.source}") for name, planner in planners],
        "objective": [(value, label, "") for value, label in OBJECTIVES.items()],
        "pipeline": [(value, label, "") for value, label in PIPELINES.items()],
        "effort": [(effort.value, effort.value, "") for effort in Effort],
        "device_kind": [(name, name, "") for name in sorted(kinds, key=lambda name: name != DEFAULT_KIND)],
    }


def controls(written: Mapping[str, Any], problem: Problem, given: bool) -> dict[str, Any]:
    """values as text, defaults shown where nothing is set, and choices. written: settings by name, as they were set;
    given: whether the problem was handed in whole, so that the controls do not describe it."""
    planner = written["planner"]
    kinds = list(dict.fromkeys(problem.cluster.devices[i].kind for i in problem.cluster.accelerators))
    kind = kinds[0] if len(kinds) == 1 else ", ".join(kinds)
    caps = dict.fromkeys(problem.cluster.devices[i].memory_bytes for i in problem.cluster.accelerators)
    speeds = dict.fromkeys(link.bandwidth_bytes_per_s for link in problem.cluster.links)
    values = {name: _text(written[name]) for name in SETTABLE} | {
        "devices": str(len(problem.cluster.accelerators)),
        "device_kind": kind,
        "memory": _size(written["memory"]),
        "planner": planner if isinstance(planner, str) else planner.name,
        "bandwidth": _rate(written["bandwidth"]),
        "recompute": written["recompute"] in (True, STAGE),
    }
    found = {name: list(offered) for name, offered in choices().items()}
    for name, value in values.items():
        if name in found and all(value != offered for offered, _, _ in found[name]):
            found[name].insert(0, (str(value), str(value), ""))
    return {
        "values": values,
        "defaults": {
            "memory": text.nbytes(next(iter(caps))) if len(caps) == 1 else "",
            "mini_batch": f"{problem.mini_batch:,}",
            "micro_batches": "auto",
            "bandwidth": f"{text.digits(next(iter(speeds)) / 1e9)} GB/s" if len(speeds) == 1 else "",
        },
        "choices": found,
        "given": given,
    }


def _text(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _size(memory: object) -> str:
    if isinstance(memory, str):
        return memory
    if isinstance(memory, int | float):
        return text.nbytes(memory)
    return "" if memory is None else ", ".join(map(_size, memory)) if isinstance(memory, list | tuple) else ""


def _rate(bandwidth: object) -> str:
    if isinstance(bandwidth, int | float):
        return f"{text.digits(bandwidth / 1e9)} GB/s"
    return bandwidth if isinstance(bandwidth, str) else ""
