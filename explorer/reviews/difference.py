"""What differs between two plans of one graph: what moved, and what that does to times, memory and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from explorer.costs.interval import distinguishable
from explorer.reviews import shown
from explorer.reviews.by_device import by_device, divides_otherwise, member_kind, shared_operators
from explorer.reviews.matching import Change, Moved, matched_devices, moved_modules, renamed
from explorer.reviews.plan_hash import plan_hash
from explorer.view.figures import Figures, figures_of
from explorer.view.graph.stage_boxes import device_words
from explorer.view.plan_view import devices
from explorer.view.versus import is_one_question, verdict
from explorer.words import text
from solvers.errors import InvalidProblem, earlier_names
from solvers.evaluation.evaluate import Metrics, evaluate
from solvers.formats.json_text import finite_or_none
from solvers.formats.op_graph_json import graph_hash
from solvers.plan.plan import Plan
from solvers.problem.cluster import Cluster
from solvers.problem.graph import OpGraph
from solvers.problem.problem import Problem

SAME = 1e-9
"""Relative difference below which two numbers count as equal."""
SHOWN_HASH = 12
NUMBERS = (
    ("iteration", "s", "iteration_s"),
    ("throughput", "per s", "per_s"),
    ("makespan", "s", "makespan_s"),
    ("max-load", "s", "max_load_s"),
    ("bubble", "share", "idle"),
    ("bytes between devices", "bytes", "cut_bytes"),
    ("bytes between nodes", "bytes", "between_nodes_bytes"),
    ("peak memory, fullest device", "bytes", "peak_bytes"),
)
"""What is shown of both plans: in words, its unit, and its name in `Figures`."""


class DeviceNumbers(TypedDict):
    """A device in two plans: its name in each (None where it has none), peak memory and compute of an iteration."""

    first: str | None
    second: str | None
    peak_bytes: tuple[float | None, float | None]
    busy_s: tuple[float | None, float | None]


MovedModule = TypedDict("MovedModule", {"module": str, "from": str, "to": str, "operators": int, "of": int})


class NumberPair(TypedDict):
    """unit: "s", "bytes" or ""."""

    what: str
    unit: str
    first: float | None
    second: float | None


class DifferenceView(TypedDict):
    """See `difference_object`."""

    plan_sha256: list[str]
    same_plan: bool
    same_question: bool
    verdict: str | None
    told_apart: bool | None
    operators: int
    moved_operators: int
    questions_differ: list[str]
    devices_matched: dict[str, int]
    devices_renamed: dict[str, int]
    moved: list[MovedModule]
    numbers: list[NumberPair]
    devices: list[DeviceNumbers]
    micro_batches: list[list[int]]
    stages: list[int]


@dataclass(frozen=True)
class Difference:
    """Of two plans, the first and the second.

    questions: what was asked otherwise, a line each. match: device of the first -> of the second, where it has a
    counterpart. moved: see `moved_modules`; places have the second plan's labels. elsewhere: the operators that
    moved. figures, metrics, micro_batches, stages, names: of each plan; names: of its devices. hashes: of the plans.
    distinguishable: whether their times differ by more than estimates of what they do differently are off
    (`costs.interval.distinguishable`), None where that is not known, or they answer different questions.
    """

    operators: int
    questions: tuple[str, ...]
    match: Mapping[int, int]
    moved: tuple[Moved, ...]
    elsewhere: tuple[int, ...]
    figures: tuple[Figures, Figures]
    metrics: tuple[Metrics, Metrics]
    micro_batches: tuple[tuple[int, ...], tuple[int, ...]]
    stages: tuple[int, int]
    names: tuple[tuple[str, ...], tuple[str, ...]]
    hashes: tuple[str, str]
    distinguishable: bool | None = None

    if not TYPE_CHECKING:  # which is to know no other attributes
        __getattr__ = earlier_names(told_apart="distinguishable")

    @property
    def moved_operators(self) -> int:
        return len(self.elsewhere)

    @property
    def is_same_plan(self) -> bool:
        return self.hashes[0] == self.hashes[1]

    @property
    def renamed(self) -> dict[int, int]:
        """Devices whose label changed, first -> second."""
        return renamed(self.match)

    @property
    def is_one_question(self) -> bool:
        """Whether both answer it, so that one of them may be called better."""
        return is_one_question(*self.figures)

    @property
    def verdict(self) -> str | None:
        """What the second is beside the first, "1.23× faster"; None for plans that answer different questions."""
        return verdict(self.figures[1], self.figures[0]) if self.is_one_question else None

    @property
    def numbers(self) -> list[tuple[str, str, float | None, float | None]]:
        """(what, unit, of the first plan, of the second); unit: see `explorer.words.text.quantity`."""
        first, second = self.figures
        return [(what, unit, getattr(first, name), getattr(second, name)) for what, unit, name in NUMBERS]

    @property
    def device_numbers(self) -> list[DeviceNumbers]:
        """A row for every device of either plan, matched ones together: names (None where there is none), peak memory
        and compute of an iteration in each plan."""
        back = {j: i for i, j in self.match.items()}
        pairs: list[tuple[int | None, int | None]] = [(back.get(j), j) for j in range(len(self.names[1]))]
        pairs += [(i, None) for i in range(len(self.names[0])) if i not in self.match]
        first, second = self.metrics
        return [
            {
                "first": None if i is None else self.names[0][i],
                "second": None if j is None else self.names[1][j],
                "peak_bytes": (_at(first.peak_memory_bytes, i), _at(second.peak_memory_bytes, j)),
                "busy_s": (_at(first.busy_s, i), _at(second.busy_s, j)),
            }
            for i, j in pairs
        ]

    def __str__(self) -> str:
        return "\n".join([shown.moved_words(self), *shown.lines(self)])

    def _repr_html_(self) -> str:
        """A card, for notebooks."""
        return shown.html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The plain text form, for IPython."""
        printer.text("..." if cycle else str(self))


def difference(first: tuple[Problem, Plan], second: tuple[Problem, Plan]) -> Difference:
    """Compare two plans, of different devices and micro-batches maybe, but of one graph; or of one model whose tensors
    they divide over groups of different sizes: then by the operators that compute, on single devices.

    Raises InvalidProblem, in one line that shows both hashes, for plans of different graphs, and InvalidPlan for one
    that cannot be simulated.
    """
    (problem, plan), (other_problem, other) = first, second
    otherwise = divides_otherwise(problem.graph, other_problem.graph)
    if not otherwise:
        _check_graphs(problem, other_problem)
    questions = _questions(problem, other_problem)
    metrics = evaluate(problem, plan), evaluate(other_problem, other)
    figures = figures_of(problem, metrics[0]), figures_of(other_problem, metrics[1])
    graph = problem.graph
    names: tuple[tuple[str, ...], ...]
    if otherwise:
        if len(questions) == 1:  # that alone: both answer how to run one model on the same devices
            figures = figures[0], replace(figures[1], question=figures[0].question, graph=figures[0].graph)
        shared, position = shared_operators(graph, other_problem.graph), graph.index_of()
        paths = [graph.operators[position[name]].module_path for name in shared]
        seen = by_device(problem, plan, metrics[0], shared), by_device(other_problem, other, metrics[1], shared)
        plans, specs = (seen[0].plan, seen[1].plan), (seen[0].devices, seen[1].devices)
        names, metrics = (seen[0].names, seen[1].names), (seen[0].metrics, seen[1].metrics)
    else:
        paths = [operator.module_path for operator in graph.operators]
        plans, specs = (plan, other), (problem.cluster.devices, other_problem.cluster.devices)
        names = tuple(tuple(device["name"] for device in devices(each)) for each in (problem, other_problem))
    match = matched_devices(plans, specs)
    changes = _changes(*plans, match, (names[0], names[1]), len(paths))
    seconds = tuple(each.objective_s(problem.objective) for each in metrics)
    distinct = (
        distinguishable(problem, plan, other, *seconds)
        if not otherwise and is_one_question(*figures) and all(map(np.isfinite, seconds))
        else None
    )
    return Difference(
        len(paths),
        tuple(questions),
        match,
        moved_modules(paths, changes),
        tuple(i for i, change in enumerate(changes) if change is not None),
        figures,
        metrics,
        (_micro_batches(problem, plan), _micro_batches(other_problem, other)),
        (len(plan.stages), len(other.stages)),
        (names[0], names[1]),
        (plan_hash(problem, plan), plan_hash(other_problem, other)),
        distinct,
    )


def difference_object(difference: Difference) -> DifferenceView:
    """A difference as JSON, numbers in seconds and bytes; "second" and "first" are the plans."""
    return {
        "plan_sha256": list(difference.hashes),
        "same_plan": difference.is_same_plan,
        "same_question": difference.is_one_question,
        "verdict": difference.verdict,
        "told_apart": difference.distinguishable,
        "operators": difference.operators,
        "moved_operators": difference.moved_operators,
        "questions_differ": list(difference.questions),
        "devices_matched": {str(i): j for i, j in difference.match.items()},
        "devices_renamed": {str(i): j for i, j in difference.renamed.items()},
        "moved": [
            {"module": one.module, "from": one.source, "to": one.target, "operators": one.operators, "of": one.of}
            for one in difference.moved
        ],
        "numbers": [
            {"what": what, "unit": unit, "first": a, "second": b} for what, unit, a, b in difference.numbers
        ],
        "devices": difference.device_numbers,
        "micro_batches": [list(counts) for counts in difference.micro_batches],
        "stages": list(difference.stages),
    }  # fmt: skip


def _at(values: Sequence[float], position: int | None) -> float | None:
    return None if position is None else finite_or_none(values[position])


def _check_graphs(first: Problem, second: Problem) -> None:
    if first.graph is second.graph:
        return
    hashes = [graph_hash(problem.as_traced.graph) for problem in (first, second)]
    if hashes[0] != hashes[1]:
        graphs = " and ".join(
            f"{text.short(problem.graph.name, 40)} ({text.plural(len(problem.graph), 'operator')}"
            f"{_divided(problem)}, sha256"
            f" {sha256[:SHOWN_HASH]}...)"
            for problem, sha256 in zip((first, second), hashes, strict=True)
        )
        raise InvalidProblem(f"the plans are of different graphs: {graphs}; compare plans of one model, traced alike")


def _divided(problem: Problem) -> str:
    degree = problem.graph.tensor_parallel
    return f" divided over {degree}" if degree > 1 else ""


def _changes(
    first: Plan, second: Plan, match: Mapping[int, int], names: tuple[Sequence[str], Sequence[str]], operators: int
) -> list[Change | None]:
    """How every operator moved. Devices of the first plan are named by their counterparts' labels."""
    before, after = first.placement(), second.placement()
    changes: list[Change | None] = []
    for operator in range(operators):
        on, to = set(before.get(operator, ())), set(after.get(operator, ()))
        counterparts = {match[device] for device in on if device in match}
        gone = sorted(device for device in on if device not in match)
        if not gone and counterparts == to:
            changes.append(None)
            continue
        parts = [device_words(sorted(counterparts), names[1])] if counterparts else []
        parts += [f"{device_words(gone, names[0])} of the first plan"] if gone else []
        changes.append((" and ".join(parts) or "nowhere", device_words(sorted(to), names[1]) if to else "nowhere"))
    return changes


def _micro_batches(problem: Problem, plan: Plan) -> tuple[int, ...]:
    """How many, ascending; several where stages differ."""
    return tuple(sorted({max(1, problem.mini_batch // stage.micro_batch_size) for stage in plan.stages}))


def _questions(first: Problem, second: Problem) -> list[str]:
    """What was asked otherwise."""
    otherwise = divides_otherwise(first.graph, second.graph)
    rows: list[tuple[str, object, object]] = [
        ("tensors divided over", _sizes(first.graph), _sizes(second.graph)),
        ("devices", _kinds(first), _kinds(second)),
        ("memory caps", _caps(first.cluster), _caps(second.cluster)),
        *([] if otherwise else [("links", _links(first.cluster), _links(second.cluster))]),
        ("nodes", _nodes(first.cluster), _nodes(second.cluster)),
        ("pinned operators", len(first.pins), len(second.pins)),
        ("micro-batches", first.micro_batches or "any number", second.micro_batches or "any number"),
    ]
    for what, key in (
        ("objective", "objective"), ("pipeline", "pipeline"), ("mini-batch", "mini_batch"), ("transfers", "transfers"),
        ("execution", "execution"), ("contiguity", "contiguity"), ("optimizer", "optimizer"),
        ("precision", "precision"), ("ZeRO stage", "zero"),
        ("replicas allowed", "max_replicas"), ("recomputation", "recompute"), ("operators recomputed as plans say",
        "recompute_operators"), ("sizes of micro-batches may differ",
        "mixed_micro_batches"), ("stages per accelerator", "subgraphs_per_device"), ("training", "training"),
        ("copies of tied parameters", "copy_tied"), ("costs", "costs_from"),
    ):  # fmt: skip
        if not (otherwise and key == "max_replicas"):  # at most as many as there are groups
            rows.append((what, getattr(first, key), getattr(second, key)))
    differences = [f"{what}: {a}, then {b}" for what, a, b in rows if a != b]
    if len(first.pins) == len(second.pins) and first.pins != second.pins:
        differences.append("operators are pinned otherwise")
    if not otherwise and first.costs_from == second.costs_from and not _same_times(first, second):
        differences.append("compute times of the same kind of device differ")
    return differences


def _sizes(graph: OpGraph) -> str:
    return text.listing([str(size) for size in sorted(set(graph.degrees))], 8)


def _kinds(problem: Problem) -> str:
    """Of single devices, whatever groups they make."""
    devices = problem.cluster.devices
    sizes = [device.members or problem.graph.tensor_parallel for device in devices]
    return text.counted(member_kind(device) for device, size in zip(devices, sizes, strict=True) for _ in range(size))


def _nodes(cluster: Cluster) -> int:
    return len({device.node for device in cluster.devices})


def _caps(cluster: Cluster) -> str:
    """One for all, or the different ones."""
    caps = dict.fromkeys(text.nbytes(device.memory_bytes) for device in cluster.devices if not device.is_cpu)
    return text.listing(list(caps), 4)


def _links(cluster: Cluster) -> str:
    """The different speeds, the fastest first."""
    speeds = sorted({(-link.bandwidth_bytes_per_s, link.latency_s) for link in cluster.speeds})
    rates = [
        f"{text.nbytes(-rate)}/s and {text.seconds(wait)}"
        if text.known(rate)
        else f"unlimited and {text.seconds(wait)}"
        for rate, wait in speeds
    ]
    return text.listing(rates, 3) if rates else "none"


def _same_times(first: Problem, second: Problem) -> bool:
    a, b = first.compute, second.compute
    if a is b:
        return True
    shared = set(a.seconds) & set(b.seconds)
    if a.samples != b.samples:
        return not shared
    return all(np.allclose(a.seconds[kind], b.seconds[kind], rtol=SAME, atol=0.0) for kind in shared)
