"""The questions of a review, one function each: a plan's numbers in, lines out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from explorer.costs.interval import interval
from explorer.costs.roofline import runs_named
from explorer.costs.times.share import share
from explorer.costs.trained_in import tied_notes
from explorer.reviews.lines import Line, Verdict
from explorer.reviews.transfers import Transfer
from explorer.view.graph.stage_boxes import device_words
from explorer.view.plan_types import PlanView
from explorer.view.timeline.charts import parts_words
from explorer.view.timeline.exchanges import tensor_placements
from explorer.view.timeline.sent import sent_bytes
from explorer.words import text
from solvers.evaluation.evaluate import MEMORY_SLACK, Metrics
from solvers.evaluation.memory_parts import memory_parts
from solvers.plan.plan import PHASES_OF, Plan
from solvers.plan.result import Result, Status
from solvers.plan.schedule import SPAN_KINDS, Schedule
from solvers.problem.problem import Objective, Optimizer, Precision, Problem

TIGHT = 0.05
"""Share of a cap that should be free: allocators round up and fragment."""
UNEVEN = 1.2
"""The busiest device beside the mean of those in use."""
IDLE = 0.2
"""Share of device time."""
GAP = 0.1
BUSY_LINK = 0.8
"""Share of the schedule in which one link is busy."""
LARGEST = 3
"""Transfers named in the line; the table has more."""
ROUNDING = 1e-6
STATES = {
    Optimizer.MOMENTUM: "velocities",
    Optimizer.ADAM: "Adam's two moments",
    Optimizer.ADAMW: "AdamW's two moments",
    Optimizer.ADAFACTOR: "Adafactor's row and column sums",
}
ESTIMATED = ("roofline", "estimated")
MEASURED = ("measured",)
GUESSED = 0.1
"""Share of the operators' time whose estimate is worth a warning where the rest is measured."""


def placed(problem: Problem, plan: Plan) -> Line:
    """Whether every operator is in a stage, and in one only unless it may repeat."""
    operators = problem.graph.operators
    times = Counter(operator for stage in plan.stages for operator in stage.operators)
    missing = [o.name for i, o in enumerate(operators) if not times[i]]
    twice = [o.name for i, o in enumerate(operators) if times[i] > 1 and not o.replicable]
    if missing or twice:
        problems = [f"{text.plural(len(names), 'operator')} {how}: {text.listing(names, 3)}" for names, how in
                ((missing, "in no stage"), (twice, "in several stages")) if names]  # fmt: skip
        return Line("operators placed", Verdict.FAIL, "; ".join(problems))
    phases = Counter(str(operator.phase).replace("_", " ") for operator in operators)
    parts = ", ".join(f"{count:,} {phase}" for phase, count in phases.items())
    where = f"{text.plural(len(plan.stages), 'stage')} on {text.plural(len(plan.devices_used()), 'device')}"
    return Line("operators placed", Verdict.PASS, f"all {len(operators):,} ({parts}) in {where}")


def counted(problem: Problem, plan: Plan, metrics: Metrics, sent: Sequence[Transfer]) -> list[Line]:
    """Whether the bytes on devices and between them are those of the graph, added up here once more."""
    sizes = held_words(problem) if problem.stated_bytes is None else "sizes stated by the workload"
    expected = _held(problem, plan)
    held = math.fsum(metrics.static_bytes)
    same = math.isclose(expected, held, rel_tol=ROUNDING, abs_tol=1.0)
    words = f"{sizes}: {text.nbytes(held)} on the devices"
    copies = sum(len(stage.devices) > 1 for stage in plan.stages)
    words += ", replicas counted once each" if copies and not problem.zero else ""
    words += f", sharded over replicas (ZeRO-{problem.zero})" if copies and problem.zero else ""
    held_line = Line("bytes held", Verdict.PASS if same else Verdict.FAIL,
                words if same else f"{words}, but their operators hold {text.nbytes(expected)}")  # fmt: skip
    if problem.transfer_s is not None:
        return [held_line, Line("bytes sent", Verdict.WARN,
                           "the workload states seconds in place of bytes, so bytes are not counted")]  # fmt: skip
    moved = math.fsum(transfer.total_bytes for transfer in sent)
    same = math.isclose(moved, metrics.cut_bytes, rel_tol=ROUNDING, abs_tol=1.0)
    tensors = text.plural(len(sent), "tensor")
    words = f"{text.nbytes(metrics.cut_bytes)} a mini-batch between devices, in {tensors} sent for every micro-batch"
    if not sent:
        words = "nothing is sent between devices"
    words = words if same else f"{words}, which are {text.nbytes(moved)} one by one"
    return [held_line, Line("bytes sent", Verdict.PASS if same else Verdict.FAIL, words)]


def _held(problem: Problem, plan: Plan) -> float:
    """B that all devices together hold all the time."""
    shared = {len(stage.devices) for stage in plan.stages}
    sizes = {replicas: (problem.static_bytes(replicas), problem.gathered_bytes(replicas)) for replicas in shared}
    held = []
    for stage in plan.stages:
        replicas, operators = len(stage.devices), list(stage.operators)
        static, gathered = sizes[replicas]
        held.append(replicas * float(static[operators].sum() + gathered[operators].max(initial=0.0)))
    return math.fsum(held)


def held_words(problem: Problem) -> str:
    """What is held all the time: "parameters, gradients and Adam's two moments"."""
    parts = ["parameters"]
    if problem.training and problem.optimizer is not Optimizer.NONE:
        parts += ["gradients"]
        parts += ["fp32 masters"] if problem.precision is not Precision.PURE else []
        parts += [STATES[problem.optimizer]] if problem.optimizer in STATES else []
    parts += ["module buffers"] if any(operator.buffer_bytes for operator in problem.graph.operators) else []
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def divided(problem: Problem, plan: Plan) -> list[Line]:
    """Over how many devices tensors are divided, how many operators have which placement, and what a member of a
    group sends in an iteration; nothing where tensors are whole."""
    placements = tensor_placements(problem)
    if placements is None:
        return []
    times = Counter(placements.values()).most_common()
    words = f"over {' and '.join(map(str, sorted(set(problem.graph.degrees))))} devices"
    if times:
        words += "; outputs " + ", ".join(f"{placement} {count:,}" for placement, count in times)
    if problem.objective is Objective.ITERATION:
        sent = {kind: float(nbytes.max()) for kind, nbytes in sent_bytes(problem, plan).items()}
        sizes = [f"{text.nbytes(most)} {kind.replace('_', '-')}" for kind, most in sent.items() if most]
        words += f"; a member sends at most {', '.join(sizes)} in an iteration" if sizes else ""
    stated = problem.as_traced.graph.division
    if stated is None or stated.saved is None:
        checked = "what is saved for the backward" if stated is not None else "placements and what they ask for"
        words += f"; its file does not state {checked}, so that was not checked"
    return [Line("tensors divided", Verdict.PASS, words)]


def memory(problem: Problem, plan: Plan, peaks: Sequence[float], names: Sequence[str]) -> list[Line]:
    """Of every device its peak, its cap, what is left, and what the peak is made of. peaks: [devices] B."""
    lines = []
    parts = memory_parts(problem, plan, peaks)
    for name, device, peak, held in zip(names, problem.cluster.devices, peaks, parts, strict=True):
        cap = device.memory_bytes
        made_of = f" ({parts_words(list(held.items()))})" if len(held) > 1 else ""
        if math.isinf(cap):
            verdict = Verdict.PASS if device.is_cpu else Verdict.WARN
            lines.append(Line(f"memory {name}", verdict, f"{text.nbytes(peak)} at its peak; it has no cap{made_of}"))
            continue
        free = (cap - peak) / cap
        use = f"{text.nbytes(peak)} of {text.nbytes(cap)} at its peak"
        if peak > cap * (1 + MEMORY_SLACK):
            lines.append(Line(f"memory {name}", Verdict.FAIL, f"{use}: {text.nbytes(peak - cap)} too much{made_of}"))
        elif free < TIGHT:
            lines.append(
                Line(f"memory {name}", Verdict.WARN, f"{use}: only {text.percent(max(0.0, free))} free{made_of}")
            )
        else:
            lines.append(Line(f"memory {name}", Verdict.PASS, f"{use}: {text.percent(free)} free{made_of}"))
    return lines


def waiting(problem: Problem, plan: Plan, schedule: Schedule) -> Line:
    """Whether all actions of the plan's order ran in it to their end. A circle of waits ends the simulation before."""
    ran = {(span.device, span.action) for span in schedule.spans if not span.is_transfer}
    single = problem.objective is Objective.MAKESPAN
    phases = [{problem.graph.operators[o].phase for o in stage.operators} for stage in plan.stages]
    planned = [
        (device, str(action))
        for device, row in enumerate(plan.order)
        for action in row
        if not (single and action.micro_batch) and phases[action.stage] & set(PHASES_OF[action.kind])
    ]
    missing = [f"{action} on device {device}" for device, action in planned if (device, action) not in ran]
    if missing:
        return Line(
            "no deadlock", Verdict.FAIL, f"{text.plural(len(missing), 'action')} never ran: {text.listing(missing, 3)}"
        )
    received = (schedule.columns.to_device >= 0) & (schedule.columns.to_device != schedule.columns.device)
    messages = int((received & (schedule.columns.kind != SPAN_KINDS.index("S"))).sum())
    stated = sum(len(row) for _, row in plan.messages)
    order = f", {stated:,} of them in an order that the plan states" if stated else ""
    outcome = f"{text.plural(len(planned), 'action')} ran in the plan's order"
    outcome += f", and {text.plural(messages, 'transfer')} arrived{order}" if messages else ""
    return Line("no deadlock", Verdict.PASS, f"{outcome}: nothing waits in a cycle")


def largest(sent: Sequence[Transfer], view: PlanView) -> Line:
    """The largest transfers, and whether some link hardly rests."""
    if not sent and not view["links"]:
        return Line("largest transfers", Verdict.PASS, "none: no tensor crosses devices")
    names = [device["name"] for device in view["devices"]]
    transfers = [
        f"{text.nbytes(one.nbytes) if one.nbytes else 'the output'} of {text.short(one.producer, 48)},"
        f" {device_words(one.source, names, brief=True)} → {device_words(one.target, names, brief=True)}"
        + (f", {one.times:,} times" if one.times > 1 else "")
        for one in sent[:LARGEST]
    ]
    words = "; ".join(transfers)
    span = view["span_s"]
    busiest = max(view["links"], key=lambda use: use["busy_s"], default=None)
    if busiest is None or not span:
        return Line("largest transfers", Verdict.PASS, words)
    share = busiest["busy_s"] / span
    words += f"{'; ' if words else ''}{busiest['label']} is the busiest link, {text.percent(share)} of the time"
    return Line("largest transfers", Verdict.WARN if share > BUSY_LINK else Verdict.PASS, words)


def balance(view: PlanView, metrics: Metrics) -> list[Line]:
    """How evenly devices work, which do nothing, and how much they idle."""
    names, busy, span = [device["name"] for device in view["devices"]], view["busy_s"], view["span_s"]
    used = [i for i in range(len(names)) if busy[i] > 0]
    unused = [names[i] for i in range(len(names)) if busy[i] <= 0 and not names[i].startswith("CPU")]
    lines = []
    if used:
        most, least = max(used, key=lambda i: busy[i]), min(used, key=lambda i: busy[i])
        mean = math.fsum(busy[i] for i in used) / len(used)
        ratio = busy[most] / mean
        words = (
            f"{names[most]} computes {text.seconds(busy[most])}, {names[least]} {text.seconds(busy[least])};"
            f" the busiest has {text.digits(ratio)} times the mean"
        )
        if len(used) == 1:
            words = f"{names[most]} does all the work"
        lines.append(Line("balance", Verdict.WARN if ratio > UNEVEN else Verdict.PASS, words))
    if unused:
        lines.append(Line("devices in use", Verdict.WARN, f"nothing runs on {text.listing(unused, 4)}"))
    if used and span:
        idle = 1 - math.fsum(busy[i] for i in used) / (span * len(used))
        if view["objective"] == "max-load":
            idle = metrics.bubble
        words = f"{text.percent(max(0.0, idle))} of the time of the devices in use"
        lines.append(Line("idle time", Verdict.WARN if idle > IDLE else Verdict.PASS, words))
    return lines


def proved(result: Result | None) -> Line:
    """How far from the best the plan can be."""
    if result is None:
        return Line("distance to the best", Verdict.WARN, "the file holds no result, so no bound is known")
    if result.status is Status.OPTIMAL:
        return Line("distance to the best", Verdict.PASS, "proved optimal by the file's result (a claim of its own)")
    if not result.bound_s > 0:
        return Line("distance to the best", Verdict.WARN, "no lower bound was proved")
    words = f"{text.from_best(result.objective_s, result.bound_s)}, by the bound in the file"
    words += f" ({text.seconds(result.bound_s)})"
    return Line("distance to the best", Verdict.WARN if result.gap > GAP else Verdict.PASS, words)


def known(problem: Problem, plan: Plan, seconds: float = math.nan) -> list[Line]:
    """What is estimated, what was measured, what a file states, and who holds what is tied. seconds: of the
    objective, of which is stated how far off it may be."""
    source = problem.costs_from
    measured = source.startswith(MEASURED)
    shares = share(problem, plan)
    if shares is not None:
        verdict = Verdict.WARN if shares.estimated > GUESSED else Verdict.PASS
        compute = Line("compute times", verdict, f"{shares.words()}; {source}")
    elif source.startswith(ESTIMATED):
        within = interval(problem, plan, seconds)
        words = "" if within is None else f"; held-out kernels put {text.seconds(seconds)} at {within.words()}"
        beside = "" if runs_named(source) else "; one kernel an operator, nothing beside (--stack)"
        compute = Line("compute times", Verdict.WARN, f"estimated: {source}{beside}{words}; `calibrate` measures them")
    elif measured:
        compute = Line("compute times", Verdict.PASS, source)
    else:
        compute = Line("compute times", Verdict.PASS, f"{source}; not measured here")
    if problem.transfer_s is not None:
        links = Line("transfer times", Verdict.PASS, "stated in the workload; not measured here")
    elif len(problem.cluster) == 1:
        links = Line("transfer times", Verdict.PASS, "none are needed: there is one device")
    elif measured:
        links = Line("transfer times", Verdict.PASS, "latency and bandwidth of links as measured, or as asked for")
    else:
        links = Line("transfer times", Verdict.WARN, "estimated: latency and bandwidth as asked for, or the defaults")
    if problem.stated_bytes is not None:
        held = Line("memory sizes", Verdict.PASS, "a sum of sizes stated for every operator; not measured here")
    else:
        held = Line("memory sizes", Verdict.WARN, "estimated: counted tensor by tensor; allocators need some more")
    copies = tied_notes(problem, plan.placement())
    return [compute, links, held, *(Line("tied parameters", Verdict.PASS, note) for note in copies)]
