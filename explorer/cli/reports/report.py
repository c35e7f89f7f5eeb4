"""A result for people and for programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from explorer.cli.reports.pass_report import idle_share, is_pass_of_operators, print_pass
from explorer.cli.terminal.command import print_table
from explorer.costs.devices import DEVICES
from explorer.costs.interval import and_interval, interval
from explorer.costs.roofline import stated_dtype
from explorer.costs.times.share import costs_words, share
from explorer.costs.trained_in import assumed_notes, notes_of_model
from explorer.costs.utilisation import utilisation
from explorer.view.figures import metrics_object
from explorer.view.folded import numbers_words
from explorer.view.timeline.exchanges import exchanges_object, tensor_placements
from explorer.view.timeline.sent import sent_bytes
from explorer.words import text
from solvers.evaluation.evaluate import Metrics, evaluate, examine, host_traffic, judge
from solvers.evaluation.load import loads
from solvers.evaluation.memory_parts import hosted_states_bytes
from solvers.formats.json_text import finite_or_none
from solvers.formats.number_runs import ONE_BY_ONE, runs
from solvers.formats.result_json import degree_json, options_json
from solvers.plan.degrees import pipeline_depth, tensor_degrees
from solvers.plan.plan import Plan
from solvers.plan.result import Result, Status, StopReason
from solvers.problem.collectives import Axis, axes_of
from solvers.problem.problem import Objective, Pipeline, Problem

if TYPE_CHECKING:
    from explorer.sweeps.remedies import Remedy
    from solvers.planners.infeasibility import Infeasibility

OBJECTIVE_WORDS = {
    Objective.MAX_LOAD: "max-load (seconds per sample in steady state)",
    Objective.MAKESPAN: "makespan (one unsplit pass)",
    Objective.ITERATION: "iteration (one mini-batch with flush)",
}


def result_object(
    model: str,
    result: Result,
    why: Infeasibility | None = None,
    notes: Sequence[str] = (),
    ways_out: Sequence[Remedy] | None = None,
) -> dict[str, object]:
    """What ``plan --json`` prints: numbers in seconds and bytes; null where there is none. notes: of the
    workload, reported with those of the result. ways_out: changes under which there is a plan, where there is none and
    somebody looked for them; None where nobody did."""
    problem, plan = result.problem, result.plan
    metrics = None if plan is None else evaluate(problem, plan)
    costs_share = None if plan is None else share(problem, plan)
    within = interval(problem, plan, result.objective_s)
    fields: dict[str, object] = {
        "model": model,
        "planner": result.planner,
        "planner_options": options_json(result.planner_options),
        "status": result.status.value,
        "stop_reason": result.stop_reason.value,
        "objective": problem.objective.value,
        "objective_s": finite_or_none(result.objective_s),
        "interval_s": None if within is None else list(within),
        "seconds_per_sample": finite_or_none(problem.per_sample_s(result.objective_s)),
        "bound_s": result.bound_s if math.isfinite(result.bound_s) else 0.0,
        "gap": finite_or_none(result.gap),
        "runtime_s": result.runtime_s,
        "seed": result.seed,
        "metrics": None if metrics is None else metrics_object(metrics),
        "front": front_object(result),
        "by_degrees": [degree_json(row) for row in result.by_degrees],
        "host": None if plan is None else _host_object(problem, plan),
        "states_on_hosts_bytes": None if plan is None else list(hosted_states_bytes(problem, plan)),
        "degrees": None if plan is None else degrees_object(problem, plan),
        "sent_bytes": None if plan is None else _sent_object(problem, plan),
        "tensor_placements": tensor_placements(problem),
        "exchanges": None if plan is None else exchanges_object(problem, plan),
        "nodes": [device.node for device in problem.cluster.devices],
        "placement": None if plan is None else placement_object(problem, plan),
        "stages": None if plan is None else stages_object(problem, plan),
        "pipeline": None if plan is None else plan.pipeline,
        "mini_batch": problem.mini_batch,
        "dtype": stated_dtype(problem.graph),
        "costs_from": problem.costs_from,
        "run_s": None if plan is None else _run_seconds(problem, plan),
        "model_flops_utilisation": (
            None if plan is None or metrics is None else utilisation(problem, plan, metrics.iteration_s)
        ),
        "costs_share": None if costs_share is None else costs_share.as_object(),
        "notes": [*result.notes, *notes_of_model(problem, notes), *assumed_notes(problem, plan)],
    }
    if plan is None and ways_out is not None:
        fields["ways_out"] = [one.as_object() for one in ways_out]
    if why is not None:
        fields["infeasible"] = _infeasible_object(why)
    return fields


def _infeasible_object(why: Infeasibility) -> dict[str, object]:
    return {
        "operators": list(why.operators),
        "because": why.because,
        "cap_lower_bound_bytes": finite_or_none(why.cap_lower_bound_bytes),
        "smallest_cap_bytes": why.smallest_cap_bytes,
        "searched": why.searched,
    }


def _host_object(problem: Problem, plan: Plan) -> dict[str, object] | None:
    """What stages keep in their hosts' memory: bytes one way in an iteration, seconds; None where nothing."""
    traffic = host_traffic(problem, plan)
    if traffic is None:
        return None
    stages = [index for index, stage in enumerate(plan.stages) if stage.offload]
    return {
        "stages": stages, "bytes": traffic.nbytes, "busiest_s": traffic.busiest_s, "exposed_s": traffic.exposed_s,
        "hidden_s": max(0.0, traffic.busiest_s - traffic.exposed_s),
    }  # fmt: skip


def degrees_object(problem: Problem, plan: Plan) -> dict[str, object]:
    """How many ways the work is divided: replicas of a stage, devices over which its tensors are divided (lists
    where stages differ), stages on the longest way."""
    replicas, tensor = [len(stage.devices) for stage in plan.stages], tensor_degrees(problem, plan)
    return {
        "data": replicas[0] if len(set(replicas)) == 1 else replicas,
        "tensor": tensor[0] if len(set(tensor)) == 1 else tensor,
        "pipeline": pipeline_depth(problem, plan),
    }


def _sent_object(problem: Problem, plan: Plan) -> dict[str, list[float]]:
    """B that each device sends in an iteration, by kind; of a tensor-parallel group, each member of it."""
    return {kind: nbytes.tolist() for kind, nbytes in sent_bytes(problem, plan).items()}


def front_object(result: Result) -> list[dict[str, object]]:
    """The plans beside the answer, fastest first: seconds, peak bytes of the fullest device, where operators are."""
    return [
        {
            "objective_s": finite_or_none(one.objective_s),
            "slower": one.objective_s / result.objective_s - 1 if result.objective_s > 0 else 0.0,
            "peak_memory_bytes": one.peak_bytes,
            "placement": placement_object(result.problem, one.plan),
            "stages": stages_object(result.problem, one.plan),
        }
        for one in result.front
    ]


def placement_object(problem: Problem, plan: Plan) -> dict[str, object]:
    """Operator name -> device, or a list of devices where it is replicated."""
    operators = problem.graph.operators
    return {
        operators[operator].name: devices[0] if len(devices) == 1 else _devices_object(problem, devices)
        for operator, devices in sorted(plan.placement().items())
    }


def stages_object(problem: Problem, plan: Plan) -> list[dict[str, object]]:
    operators = problem.graph.operators
    return [
        {
            "operators": [operators[operator].name for operator in stage.operators],
            "devices": _devices_object(problem, stage.devices),
            "micro_batch_size": stage.micro_batch_size,
            "in_flight": stage.in_flight,
            **({"again": [operators[operator].name for operator in stage.again]} if stage.regions else {}),
            **({"offload": [operators[operator].name for operator in stage.offload]} if stage.offload else {}),
        }
        for stage in plan.stages
    ]


def _devices_object(problem: Problem, devices: Sequence[int]) -> list[int] | list[int | str]:
    """Of many devices by runs, as a plan.json has them: "0-127"."""
    return list(devices) if len(problem.cluster) <= ONE_BY_ONE else runs(devices)


def print_report(
    model: str,
    result: Result,
    why: Infeasibility | None = None,
    notes: Sequence[str] = (),
    ways_out: Sequence[Remedy] = (),
) -> None:
    """The result in a screenful; notes and ways_out: as in `result_object`."""
    problem, plan = result.problem, result.plan
    graph = problem.graph
    assumed = f", {text.plural(len(notes), 'note')} on the model" if notes else ""
    print(f"{model}: {text.plural(len(graph), 'operator')} on {cluster_words(problem)}{assumed}")
    print(f"status     {result.status.value}{_proof_words(result)}")
    print(f"planner    {result.planner}, {text.seconds(result.runtime_s)} ({text.words(result.stop_reason.value)})")
    words = and_interval(problem, plan, result.objective_s)
    print(f"objective  {text.seconds(result.objective_s)}{words}  {OBJECTIVE_WORDS[problem.objective]}")
    if plan is not None:
        print(f"bound      {text.seconds(result.bound_s)}  gap {text.percent(result.gap)}")
        _print_plan(problem, plan)
        _print_front(problem, plan, result)
    _print_degrees(result)
    if why is not None:
        print_infeasibility(problem, why)
    if plan is None:
        _print_shortfall(result, ways_out)
    if (dtype := stated_dtype(graph)) is not None:
        others = [name for name in ("bf16", "fp16", "fp32") if name != dtype]
        print(f"dtype      {dtype}, as traced; another with --dtype {' or '.join(others)} when tracing")
    print(f"costs      {costs_words(problem, plan)}")
    for note in (*result.notes, *notes_of_model(problem, notes), *assumed_notes(problem, plan)):
        print(f"note       {note}")


def _print_front(problem: Problem, plan: Plan, result: Result) -> None:
    """A line for every plan that is nearly as fast and needs less memory."""
    own_bytes = judge(problem, plan).peak_bytes
    for number, one in enumerate(result.front, 1):
        slower = text.percent(one.objective_s / result.objective_s - 1)
        print(
            f"leaner     --front {number}: {slower} slower ({text.seconds(one.objective_s)}),"
            f" {text.nbytes(own_bytes - one.peak_bytes)} less on the fullest device ({text.nbytes(one.peak_bytes)})"
        )


def _print_degrees(result: Result) -> None:
    """The table over degrees: a row for each of replicas, divided tensors and stages."""
    if not result.by_degrees:
        return
    rows = [["data", "tensor", "pipeline", "objective", "peak memory", ""]]
    for one in result.by_degrees:
        planned = ["", ""] if one.reason else [text.seconds(one.objective_s), text.nbytes(one.peak_bytes)]
        mark = "best" if one.objective_s == result.objective_s else ""
        rows.append([*(text.count(d) for d in (one.data, one.tensor, one.pipeline)), *planned, one.reason or mark])
    print_table(rows, right=frozenset(range(5)))
    print()


def _print_plan(problem: Problem, plan: Plan) -> None:
    if is_pass_of_operators(problem):
        _print_pass(problem, plan)
        return
    metrics = evaluate(problem, plan)
    print(
        f"metrics    iteration {text.seconds(metrics.iteration_s)}{_rate_words(problem, metrics, Objective.ITERATION)},"
        f" makespan {text.seconds(metrics.makespan_s)}{_rate_words(problem, metrics, Objective.MAKESPAN)},"
        f" max-load {text.seconds(metrics.max_load_s)},"
        f" bubble {text.percent(metrics.bubble)}, cut {text.nbytes(metrics.cut_bytes)}"
    )
    nodes = _nodes(problem)
    if len(nodes) > 1 and (problem.transfer_s is None or metrics.between_nodes_bytes > 0):  # else bytes are not shown
        print(
            f"nodes      {text.nbytes(metrics.between_nodes_bytes)} a mini-batch between {len(nodes)} nodes"
            " (gradients of replicas with it)"
        )
    print(f"pipeline   {plan.pipeline}, {_batch_words(problem, plan)}")
    _print_hosts(problem, plan)
    print_run_seconds(problem, plan)
    if (used := utilisation(problem, plan, metrics.iteration_s)) is not None:
        print(f"utilised   {text.percent(used)} of the peak of the devices in use: the model's products, an iteration")
    print()
    _print_devices(problem, plan, metrics)
    for words in (_replica_words(problem, plan), _pass_words(problem, plan)):
        if words:
            print(f"\n{words}")
    print()


def _print_hosts(problem: Problem, plan: Plan) -> None:
    """What is in hosts' memory, and what it takes to send it there."""
    if (host := host_traffic(problem, plan)) is not None:
        stages = sum(bool(stage.offload) for stage in plan.stages)
        print(
            f"host       {text.nbytes(host.nbytes)} an iteration to hosts and back, of"
            f" {text.plural(stages, 'stage')}; the busiest device copies for {text.seconds(host.busiest_s)}, of which"
            f" the iteration is longer by {text.seconds(host.exposed_s)}"
        )
    if any(states := hosted_states_bytes(problem, plan)):
        most = max(range(len(states)), key=states.__getitem__)
        print(
            f"states     {text.nbytes(sum(states))} of optimizer states and masters in hosts' memory, at most"
            f" {text.nbytes(states[most])} of {problem.cluster.devices[most].name}; they come for the update"
        )


def _run_seconds(problem: Problem, plan: Plan) -> float | None:
    from explorer.runner.scripts.with_engine import run_seconds

    return run_seconds(problem, plan)


def print_run_seconds(problem: Problem, plan: Plan) -> None:
    """A line on the engine's own time, where it was measured."""
    seconds = _run_seconds(problem, plan)
    if seconds is not None:
        what = "a pass" if problem.objective is Objective.MAKESPAN else "an iteration"
        print(f"run        {text.seconds(seconds)} {what} with the engine's own time for steps and messages")


def _rate_words(problem: Problem, metrics: Metrics, of: Objective) -> str:
    """Beside the requested time of a mini-batch, iteration or pass: that of a sample, and samples a second. A max-load
    is the time of a sample already, and so is that of a mini-batch of one."""
    single = problem.objective is Objective.MAKESPAN
    seconds = metrics.objective_s(of)
    if single != (of is Objective.MAKESPAN) or not seconds > 0:
        return ""
    rate = f"{text.digits(problem.mini_batch / seconds)} samples/s"
    if problem.objective is Objective.MAX_LOAD or problem.mini_batch == 1:
        return f" ({rate})"
    return f" ({text.seconds(problem.per_sample_s(seconds))} a sample, {rate})"


def _print_pass(problem: Problem, plan: Plan) -> None:
    """Operators one by one: by device and by link, as there may be as many stages as operators."""
    metrics, schedule = examine(problem, plan)
    moved = sum(span.nbytes for span in schedule.spans if span.is_transfer and span.to_device != span.device)
    print(
        f"metrics    makespan {text.seconds(metrics.makespan_s)}{_rate_words(problem, metrics, Objective.MAKESPAN)},"
        f" max-load {text.seconds(metrics.max_load_s)}, idle {text.percent(idle_share(schedule))},"
        f" {text.nbytes(moved)} sent"
    )
    print(f"pass       {_batch_words(problem, plan)}, operator by operator")
    print_run_seconds(problem, plan)
    print()
    print_pass(problem, plan, schedule)
    if words := _replica_words(problem, plan):
        print(f"\n{words}")
    print()


def _replica_words(problem: Problem, plan: Plan) -> str:
    names = [device.name for device in problem.cluster.devices]
    shared = [stage for stage in plan.stages if len(stage.devices) > 1]
    return "\n".join(
        f"replicas   {text.plural(len(stage.operators), 'operator')} on each of"
        f" {text.listing([names[device] for device in stage.devices], 6)}, a share of every micro-batch each"
        for stage in shared
    )


def _pass_words(problem: Problem, plan: Plan) -> str:
    """What GPipe's max-load is made of: two devices' loads where no single row of the table has it."""
    if problem.pipeline is not Pipeline.GPIPE or problem.objective is not Objective.MAX_LOAD or not problem.training:
        return ""
    forward, backward = loads(problem, plan).per_pass_s()
    names = [device.name for device in problem.cluster.devices]
    return (
        f"max-load   {text.seconds(forward.max())} forward ({names[forward.argmax()]})"
        f" + {text.seconds(backward.max())} backward ({names[backward.argmax()]})"
    )


def _print_devices(problem: Problem, plan: Plan, metrics: Metrics) -> None:
    stages = Counter(device for stage in plan.stages for device in stage.devices)
    several = any(stages[index] > 1 for index in problem.cluster.accelerators)
    in_nodes = len(_nodes(problem)) > 1
    optional = [*(["node"] if in_nodes else []), *(["stages"] if several else [])]
    rows = [["device", *optional, "operators", "load/sample", "compute", "peak memory", "of cap"]]
    held = [0] * len(problem.cluster)
    for stage in plan.stages:
        for index in stage.devices:
            held[index] += len(stage.operators)
    alike: dict[tuple[str, ...], list[int]] = {}
    for index, device in enumerate(problem.cluster.devices):
        share = metrics.busy_s[index] / metrics.iteration_s if metrics.iteration_s > 0 else math.nan
        peak = metrics.peak_memory_bytes[index]
        cap = "no cap" if math.isinf(device.memory_bytes) else text.percent(peak / device.memory_bytes)
        cells = [
            *([text.count(stages[index])] if several else []),
            text.count(held[index]),
            text.seconds(metrics.load_s[index]),
            text.percent(share),
            text.nbytes(peak),
            cap,
        ]
        one_by_one = [str(index)] if len(problem.cluster) <= ONE_BY_ONE else [device.kind]
        alike.setdefault((*one_by_one, *cells), []).append(index)
    for (_, *cells), numbers in alike.items():
        if len(problem.cluster) > ONE_BY_ONE:
            names = f"{numbers_words(numbers)} {problem.cluster.devices[numbers[0]].kind}"
        else:
            names = f"{numbers[0]} {problem.cluster.devices[numbers[0]].name}"
        nodes = numbers_words(sorted({problem.cluster.devices[index].node for index in numbers}))
        rows.append([names, *([nodes] if in_nodes else []), *cells])
    print_table(rows, right=frozenset(range(1, len(rows[0]))))


def print_infeasibility(problem: Problem, why: Infeasibility) -> None:
    blamed = text.listing([text.short(name, 60) for name in why.operators], 5)
    print(f"because    {why.because}")
    print(f"too large  {blamed}")
    print(f"cap        proved: nothing fits below {text.nbytes(why.cap_lower_bound_bytes)} per accelerator")
    if why.smallest_cap_bytes is None:
        print("           no plan was found at any larger cap in the time given")
    else:
        kinds = [DEVICES.get(problem.cluster.devices[device].kind) for device in problem.cluster.accelerators]
        real = any(kind is None or why.smallest_cap_bytes <= kind.memory_bytes for kind in kinds)
        flag = f"--memory {math.ceil(why.smallest_cap_bytes)}" if real else "more than any of these devices has"
        print(
            f"           a plan was found at {text.nbytes(why.smallest_cap_bytes)} ({flag})"
            f"{'' if why.searched else '; the time was too short to look for all smaller ones'}"
        )


def _print_shortfall(result: Result, ways_out: Sequence[Remedy]) -> None:
    """What plain splits lack, by kind and by module, and the remedies; without these, what may find a plan."""
    from solvers.planners.shortfall import shortfall  # plans plain splits

    problem, lack = result.problem, shortfall(result.problem)
    if lack is not None:
        device = problem.cluster.devices[lack.device].name
        print(
            f"needs      {text.nbytes(lack.peak_bytes)} on {device}, which has {text.nbytes(lack.cap_bytes)}: the"
            f" leanest plain split ({lack.planner}), of which"
            f" {', '.join(f'{text.nbytes(size)} {kind}' for kind, size in lack.parts.items())}"
        )
        if lack.modules:
            held = [f"{name} {text.nbytes(size)}" for name, size in lack.modules.items()]
            print(f"by module  {text.listing(held, 4)}")
    for one in ways_out:
        takes = f"{text.seconds(one.seconds)}, {text.nbytes(one.peak_bytes)} at most"
        print(f"way out    {one.change.words} ({one.change.flags}): {takes}")
    if result.status is not Status.NO_PLAN:
        return
    other = "" if result.planner == "auto" else "another planner (auto), "
    longer = "a longer --time-limit or " if result.stop_reason is StopReason.TIME_LIMIT else ""
    print(f"hint       {other}{longer}a larger --memory may find one")


def _batch_words(problem: Problem, plan: Plan) -> str:
    sizes = sorted({stage.micro_batch_size for stage in plan.stages})
    mini_batch = text.plural(problem.mini_batch, "sample")
    if problem.objective is Objective.MAKESPAN:
        return f"{mini_batch} unsplit"
    splits = " or ".join(f"{text.plural(problem.mini_batch // size, 'micro-batch')} of {size}" for size in sizes)
    return f"{mini_batch} in {splits}"


def _proof_words(result: Result) -> str:
    if result.status is Status.OPTIMAL:
        return f" (proved; {allowed_words(result.problem)})"
    if result.status is Status.INFEASIBLE:
        return " (proved: no plan fits)"
    return ""


def allowed_words(problem: Problem) -> str:
    """Among which plans: contiguity says nothing of latency, the number of subgraphs does."""
    if not problem.is_latency:
        return f"contiguity {problem.contiguity.value}"
    most = problem.subgraphs_per_device
    return "any number of subgraphs" if most is None else f"at most {text.plural(most, 'subgraph')} of one device"


def cluster_words(problem: Problem) -> str:
    nodes = len(_nodes(problem))
    shown = text.counted((device.kind for device in problem.cluster.devices), "x")
    degree = problem.graph.tensor_parallel
    if any(device.members for device in problem.cluster.devices):
        shown += ", groups over which tensors are divided as devices"
    elif degree > 1:
        axes = axes_of(problem.graph)
        shown += f", each a group of {degree} over which {_axes_words(axes)} are divided"
    return shown + (f" in {nodes} nodes" if nodes > 1 else "")


def _axes_words(axes: Mapping[Axis, int]) -> str:
    """ "tokens (2) and tensors (8)"."""
    if len(axes) == 1:
        return next(iter(axes)).divides
    return " and ".join(f"{axis.divides} ({degree})" for axis, degree in axes.items())


def _nodes(problem: Problem) -> set[int]:
    return {device.node for device in problem.cluster.devices}
