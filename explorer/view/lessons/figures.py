"""The figures of a plan that a lesson may tell and compare, by name. The list is all there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NotRequired

from explorer.view.plan_types import PlanView, Report, used_devices
from explorer.words import text

Metric = Literal["iteration_s", "throughput_per_s", "max_load_s", "makespan_s", "bubble", "cut_bytes"]


class View(PlanView):
    """ran: the comparison with the plan's run, if there was one."""

    ran: NotRequired[Report | None]


@dataclass(frozen=True, slots=True)
class Figure:
    """name: in a sentence. value: of a plan's view, None where it has none. words: a value as text."""

    name: str
    value: Callable[[View], float | None]
    words: Callable[[float], str]


def _metric(key: Metric) -> Callable[[View], float | None]:
    return lambda plan: plan["metrics"][key]


def _bubble_of_a_chain(plan: View) -> float:
    """(p - 1) / (m + p - 1): what p stages of equal time, one after the other, idle with m micro-batches."""
    stages, micro_batches = _depth(plan), _micro_batches(plan)
    return (stages - 1) / (micro_batches + stages - 1)


def _depth(plan: View) -> float:
    return max((stage["depth"] for stage in plan["stages"]), default=1)


def _micro_batches(plan: View) -> float:
    return max((plan["mini_batch"] / stage["micro_batch_size"] for stage in plan["stages"]), default=1)


def _peak(plan: View) -> float:
    return max((curve["peak_bytes"] for curve in plan["memory"]), default=0.0)


def _peak_share(plan: View) -> float | None:
    pairs = zip(plan["memory"], plan["devices"], strict=True)
    shares = [curve["peak_bytes"] / device["memory_bytes"] for curve, device in pairs if device["memory_bytes"]]
    return max(shares, default=None)


def _used(plan: View) -> list[float]:
    return [busy for busy in plan["busy_s"] if busy > 0]


def _imbalance(plan: View) -> float | None:
    used = _used(plan)
    return max(used) * len(used) / sum(used) if used else None


def _members(plan: View) -> float:
    return max((device.get("members", 1) for device in plan["devices"]), default=1)


def _exchange(plan: View) -> float:
    """Share of the bottleneck's step in which it exchanges within its group."""
    return plan["breakdown"].get("exchange", 0.0) / plan["span_s"] if plan["span_s"] else 0.0


def _gap(plan: View) -> float | None:
    return 1 - plan["bound_s"] / plan["objective_s"] if plan["bound_s"] and plan["objective_s"] else None


def _measured(plan: View) -> float | None:
    ran = plan.get("ran")
    return None if ran is None else ran["measured_s"]


def _measured_ratio(plan: View) -> float | None:
    measured_s = _measured(plan)
    return measured_s / plan["objective_s"] if measured_s is not None and plan["objective_s"] else None


FIGURES: Mapping[str, Figure] = {
    "iteration": Figure("iteration time", _metric("iteration_s"), text.seconds),
    "throughput": Figure("throughput", _metric("throughput_per_s"), text.rate),
    "max_load": Figure("max-load", _metric("max_load_s"), text.seconds),
    "makespan": Figure("makespan", _metric("makespan_s"), text.seconds),
    "bubble": Figure("bubble", _metric("bubble"), text.percent),
    "formula": Figure("(p−1)/(m+p−1)", _bubble_of_a_chain, text.percent),
    "peak_memory": Figure("peak memory", _peak, text.nbytes),
    "peak_share": Figure("use of the memory cap", _peak_share, text.percent),
    "cut_bytes": Figure("bytes between devices", _metric("cut_bytes"), text.nbytes),
    "imbalance": Figure("busiest device over the mean", _imbalance, lambda value: f"{value:.2f}"),
    "bound": Figure("lower bound", lambda plan: plan["bound_s"] or None, text.seconds),
    "gap": Figure("gap", _gap, text.percent),
    "devices": Figure("devices used", used_devices, text.count),
    "stages": Figure("stages", lambda plan: len(plan["stages"]), text.count),
    "depth": Figure("depth", _depth, text.count),
    "in_flight": Figure(
        "micro-batches in flight", lambda plan: max((s["in_flight"] for s in plan["stages"]), default=0), text.count
    ),
    "micro_batches": Figure("micro-batches", _micro_batches, text.count),
    "mini_batch": Figure("mini-batch", lambda plan: plan["mini_batch"], text.count),
    "members": Figure("devices that divide tensors", _members, text.count),
    "exchange": Figure("exchange in the group", _exchange, text.percent),
    "measured": Figure("measured time", _measured, text.seconds),
    "measured_ratio": Figure("measured over predicted", _measured_ratio, lambda value: f"{value:.3g}"),
}


def figures_of(plan: View) -> dict[str, float | None]:
    """Every figure of a plan."""
    return {name: figure.value(plan) for name, figure in FIGURES.items()}


def figure_text(name: str, value: float | None) -> str:
    return text.NOTHING if value is None else FIGURES[name].words(value)
