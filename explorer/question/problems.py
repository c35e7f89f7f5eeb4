"""The problem that settings make of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from explorer.costs.devices import DEVICES
from explorer.costs.regions import REGION_CHOICES, WHOLE_STAGES, with_region_choice
from explorer.costs.stack import Stack
from explorer.question.clusters import collectives_as_measured, make_cluster
from explorer.question.names import resolve_pins
from explorer.question.nodes.groups import exchange_links, in_groups
from explorer.question.settings import MemoryModel, Settings
from explorer.question.together import in_units, kept_together
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.pipelines.folded import enclosed_share
from solvers.problem.cluster import Cluster, Link
from solvers.problem.engine import EngineCosts
from solvers.problem.gradient_room import states_on_hosts, with_gradient_room
from solvers.problem.graph import OpGraph
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Pipeline, Precision, Problem
from solvers.problem.regions import recomputing
from solvers.problem.static_sizes import static_sizes
from solvers.problem.tied import copying, with_copies
from solvers.problem.training import ZERO_STAGES

MINI_BATCH = 64
"""Default mini-batch of a traced model, for any number of devices, or its example's batch where that is larger."""
MAX_MINI_BATCH = 2**24
"""Samples. Beyond it is a typing error, and times no longer add up to the last digit."""
MAX_MICRO_BATCHES = 4096
"""Every one is an action of every stage in the schedule."""
ENCLOSED = 0.1
"""Share of a model's FLOPs between parts that must share a device from which on devices may hold several stages."""
MICRO_BATCHES_PER_DEVICE = 4
"""Default micro-batches of a workload that states times per sample, per device: enough that the
pipeline's filling and draining do not hide what differs between plans."""


def make_problem(workload: Workload, settings: Settings, *, dtype: str | None = None) -> Problem:
    """What a planner is asked. Settings that are None take the workload's word, then the defaults.

    dtype: at which rate products run where costs are estimated (None: that of the graph). Raises
    InvalidProblem, in one line, for settings that do not fit the workload.
    """
    if settings.profile is not None:
        from explorer.costs.measured import measured_workload

        workload = measured_workload(workload, settings.profile, settings.optimizer)
    if settings.times:
        settings = _with_times(workload, settings)
    _check_phase(workload, settings)
    whole = make_cluster(workload, settings)
    graph = kept_together(workload.graph, settings.together)
    if settings.whole is not None:
        graph = in_units(graph, settings.whole, workload.reference)
    free = _copied(graph, settings)
    pins = resolve_pins(free, settings.pins)
    precision = _precision(workload, settings)
    compute, costs_from = _compute(workload, whole, dtype, settings, precision)
    measured = collectives_as_measured(settings)
    cluster, compute, link, across = in_groups(whole, graph, compute, workload.reference, measured=measured)
    over, sums_over = _group_links(whole, graph.tensor_parallel // graph.outer_degree, link, settings)
    objective, execution = settings.objective or workload.objective, settings.execution or workload.execution
    per_sample = workload.compute is not None and len(compute.samples) == 1
    default = _stated_samples(objective, cluster) if per_sample else max(MINI_BATCH, graph.samples)
    mini_batch, micro_batches = _batches(settings, objective, default, per_sample)
    links_to_hosts = _links_to_hosts(workload, whole, cluster, settings)
    problem = Problem(
        graph,
        cluster,
        compute,
        objective=objective,
        contiguity=settings.contiguity or _contiguity(objective, execution, free),
        transfers=settings.transfers or workload.transfers,
        execution=execution,
        pipeline=settings.pipeline,
        transfer_s=workload.transfer_s,
        stated_bytes=workload.stated_bytes,
        mini_batch=mini_batch,
        micro_batches=micro_batches,
        training=workload.training,
        optimizer=settings.optimizer,
        precision=precision,
        zero=_zero(workload, settings),
        max_replicas=_replicas(settings, cluster),
        recompute=settings.recompute in WHOLE_STAGES,
        mixed_micro_batches=settings.mixed_micro_batches,
        host_links=_host_links(workload, links_to_hosts, objective, settings),
        pins=pins,
        costs_from=costs_from,
        engine=_engine(settings),
        group_link=over,
        group_sum_link=sums_over,
        outer_link=across,
    )
    if workload.compute is not None:
        _check_times(problem, workload.reference)
    return _with_wishes(_with_states(problem, links_to_hosts, settings), workload, settings)


def _engine(settings: Settings) -> EngineCosts | None:
    """What running a plan takes beside its operators, where that was measured."""
    engine = None if settings.profile is None else settings.profile.engine
    return None if engine is None else engine.costs


def _with_states(problem: Problem, links: Mapping[str, float], settings: Settings) -> Problem:
    """The problem with optimizer states in hosts' memory, where that is asked for. Raises InvalidProblem."""
    if not settings.offload_optimizer:
        return problem
    if settings.memory_model is MemoryModel.STATIC:
        raise InvalidProblem(
            "--offload-optimizer changes what is held when, and --memory-model static counts all that is ever held;"
            " leave one of them out"
        )
    return states_on_hosts(problem, links)


def _check_phase(workload: Workload, settings: Settings) -> None:
    """Raises InvalidProblem where training is asked of a graph for inference, or the reverse."""
    if settings.training is not None and settings.training != workload.training:
        held, wanted = ("training", "inference") if workload.training else ("inference", "training")
        raise InvalidProblem(
            f"{workload.reference}: holds {held}, so it cannot be planned for {wanted}; trace it again"
        )


def _group_links(
    cluster: Cluster, degree: int, link: Link | None, settings: Settings
) -> tuple[Link | None, Link | None]:
    """What members of groups exchange over, and what they add up over, where that is another; None where it differs
    from group to group, and where there are no groups."""
    if link is None:
        return None, None
    measured = collectives_as_measured(settings)
    links = {exchange_links(device.kind, degree, link, measured) for device in cluster.devices}
    if len(links) > 1:
        return None, None
    over, sums_over = links.pop()
    return over, None if sums_over == over else sums_over


def _with_wishes(problem: Problem, workload: Workload, settings: Settings) -> Problem:
    """The problem with what changes its graph, or counts on what it is otherwise: what runs again, copies of tied
    parameters, an order of operators. Raises InvalidProblem."""
    if problem.is_latency and problem.max_replicas > 1:
        raise InvalidProblem(
            "replicas divide the samples of a mini-batch, and a latency plan (objective makespan with execution call)"
            " has one sample; leave out --replicate"
        )
    if settings.memory_model is MemoryModel.STATIC and problem.stated_bytes is None:
        if settings.recompute in REGION_CHOICES:
            raise InvalidProblem(
                f"--recompute {settings.recompute.value} changes what is held when, and --memory-model static counts"
                " what is ever saved; leave one of them out"
            )
        problem = replace(problem, stated_bytes=static_sizes(problem))
    problem = with_gradient_room(problem)
    problem = with_region_choice(problem, settings.recompute, workload.reference)
    if settings.in_sequence:
        from solvers.contiguous.sequential import sequential_problems  # compiles kernels

        problem = sequential_problems(problem, orders=1)[0]
    problem = copying(problem) if settings.copy_tied else recomputing(problem)
    return problem if settings.subgraphs_per_device is None else _limited(problem, settings.subgraphs_per_device)


def _host_links(
    workload: Workload, links: Mapping[str, float], objective: Objective, settings: Settings
) -> Mapping[str, float]:
    """The links over which stages may offload what they save; none where they may not. Raises InvalidProblem where that
    cannot be."""
    if not settings.offload:
        return {}
    static = settings.memory_model is MemoryModel.STATIC or workload.stated_bytes is not None
    if not workload.graph.trains or objective is not Objective.ITERATION or static:
        raise InvalidProblem(
            "--offload is of training in micro-batches whose sizes are counted (objective iteration, without"
            " --memory-model static and stated sizes); leave it out"
        )
    return links


def _links_to_hosts(workload: Workload, whole: Cluster, cluster: Cluster, settings: Settings) -> Mapping[str, float]:
    """Of every kind of accelerator the bytes per second to and from its host; none where nothing is sent there.

    whole: the cluster of single devices, of which ``cluster`` has groups. Raises InvalidProblem where nobody says how
    fast that is.
    """
    if not settings.offload and not settings.offload_optimizer:
        if settings.host_link_bytes_per_s is not None:
            raise InvalidProblem(
                "--host-link is of what --offload and --offload-optimizer send to hosts; give one of them, or leave it"
                " out"
            )
        return {}
    rates, first = {}, 0
    of_group = {}
    for device in cluster.accelerators:
        of_group[cluster.devices[device].kind] = whole.devices[whole.accelerators[first]].kind
        first += cluster.devices[device].members or workload.graph.tensor_parallel
    for group, kind in of_group.items():
        if settings.host_link_bytes_per_s is None and kind not in DEVICES:
            flag = "--offload" if settings.offload else "--offload-optimizer"
            raise InvalidProblem(f"{flag}: {kind} is not in the catalogue; say how fast it reaches its host's memory"
                                 " with --host-link, such as 55GB/s")  # fmt: skip
        rates[group] = settings.host_link_bytes_per_s or DEVICES[kind].host_bytes_per_s
    return rates


def _copied(graph: OpGraph, settings: Settings) -> OpGraph:
    """With copies of tied parameters, where they are asked for. Raises InvalidProblem where that cannot be."""
    if settings.copy_tied and settings.together:
        raise InvalidProblem(
            "--copy-tied takes operators apart that --together may keep together; leave one of them out"
        )
    return with_copies(graph) if settings.copy_tied else graph


def _precision(workload: Workload, settings: Settings) -> Precision:
    """As asked for. Raises InvalidProblem where there are no 16-bit weights to keep fp32 masters of."""
    if settings.precision is Precision.PURE or not workload.training:
        return settings.precision
    from explorer.costs.roofline import stated_dtype

    dtype = stated_dtype(workload.graph)
    if workload.stated_bytes is not None or dtype not in ("bf16", "fp16"):
        holds = "states its sizes" if workload.stated_bytes is not None else f"is {dtype}" if dtype else "has no dtype"
        raise InvalidProblem(
            f"precision {settings.precision.value} keeps fp32 masters of 16-bit weights, and {workload.reference}"
            f" {holds}; trace a model with --dtype bf16, or leave out --precision"
        )
    return settings.precision


def _zero(workload: Workload, settings: Settings) -> int:
    """As asked for. Raises InvalidProblem where there is nothing that replicas could shard."""
    zero = settings.zero
    if zero not in ZERO_STAGES:
        raise InvalidProblem(f"zero must be a stage of ZeRO, 1, 2 or 3 (0: none), found {zero}")
    if not zero:
        return zero
    if not workload.training:
        raise InvalidProblem(f"ZeRO-{zero} shards what training holds; leave out --zero in inference")
    if workload.stated_bytes is not None or settings.memory_model is MemoryModel.STATIC:
        source = f"{workload.reference} states" if workload.stated_bytes is not None else "--memory-model static states"
        raise InvalidProblem(
            f"ZeRO-{zero} shards parameters and what is kept for them, and {source} sizes as a whole; leave out --zero"
        )
    if settings.max_replicas == 1:
        raise InvalidProblem(
            f"ZeRO-{zero} shards what the replicas of a stage hold, and no stage may have replicas; allow them"
            " (--replicate)"
        )
    return zero


def _contiguity(objective: Objective, execution: Execution, graph: OpGraph) -> Contiguity:
    """A single pass of single operators is where to place each of them: no stage keeps them together. Where parameters
    that both ends of a model read would put all between on one device, a device may hold both ends."""
    joint = objective is Objective.MAKESPAN and execution is Execution.OPERATOR
    tied = objective is Objective.ITERATION and enclosed_share(graph) > ENCLOSED
    return Contiguity.NONE if joint or tied else Contiguity.ACYCLIC


def _limited(problem: Problem, subgraphs: int) -> Problem:
    """With that many subgraphs of one accelerator at most; only latency knows them."""
    if subgraphs < 1:
        raise InvalidProblem(f"the number of subgraphs must be at least 1, found {subgraphs}")
    if not problem.is_latency:
        raise InvalidProblem(
            "subgraphs limit the stages of one device in a latency plan: objective makespan with execution call,"
            f" found {problem.objective.value} with {problem.execution.value}"
        )
    return replace(problem, subgraphs_per_device=subgraphs)


def _stated_samples(objective: Objective, cluster: Cluster) -> int:
    """The default mini-batch where times are stated per sample."""
    devices = len(cluster.accelerators) or len(cluster)
    return 1 if objective is Objective.MAKESPAN else devices * MICRO_BATCHES_PER_DEVICE


def _batches(settings: Settings, objective: Objective, default: int, per_sample: bool) -> tuple[int, int | None]:
    """(mini-batch, micro-batches). Times stated per sample say nothing of batches: there a
    micro-batch is one sample. One unsplit pass (MAKESPAN) has one micro-batch."""
    single = objective is Objective.MAKESPAN
    mini_batch = default if settings.mini_batch is None else settings.mini_batch
    if mini_batch > MAX_MINI_BATCH:
        raise InvalidProblem(f"the mini-batch must be at most {MAX_MINI_BATCH:,} samples, found {mini_batch:,}")
    micro_batches = settings.micro_batches
    if micro_batches is not None and micro_batches < 1:
        raise InvalidProblem(f"the number of micro-batches must be at least 1, found {micro_batches}")
    if micro_batches is None:
        micro_batches = 1 if single else mini_batch if per_sample else None
    if micro_batches is not None and micro_batches > MAX_MICRO_BATCHES:
        raise InvalidProblem(
            f"at most {MAX_MICRO_BATCHES:,} micro-batches can be scheduled, found {micro_batches:,};"
            " give fewer (--micro-batches)"
        )
    return mini_batch, micro_batches


def _replicas(settings: Settings, cluster: Cluster) -> int:
    """0 in the settings stands for as many as there are accelerators; two copies of all parameters are DualPipe's."""
    most = max(1, len(cluster.accelerators))
    if settings.pipeline is Pipeline.DUAL_PIPE and settings.max_replicas == 1:
        return min(2, most)
    if settings.max_replicas < 0:
        raise InvalidProblem(f"the number of replicas must be at least 1 (0: all), found {settings.max_replicas}")
    return min(settings.max_replicas, most) or most


def _with_times(workload: Workload, settings: Settings) -> Settings:
    """The settings with devices of the kind that operator times are of, where none are asked for. Raises
    InvalidProblem where others say how long operators take."""
    if settings.profile is not None:
        raise InvalidProblem("a profile has the times of all operators of its model; leave out --profile or --times")
    if workload.compute is not None:
        raise InvalidProblem(f"{workload.reference}: states its own compute times; leave out --times")
    if settings.cluster is not None or settings.device_kind is not None or len(settings.times) > 1:
        return settings
    return replace(settings, device_kind=settings.times[0].kind)


def _compute(
    workload: Workload, cluster: Cluster, dtype: str | None, settings: Settings, precision: Precision
) -> tuple[ComputeTable, str]:
    kinds = sorted({device.kind for device in cluster.devices})
    accumulates = settings.micro_batches != 1 and (settings.objective or workload.objective) is not Objective.MAKESPAN
    if settings.times:
        from explorer.costs.times.table import table

        return table(
            workload.graph, kinds, settings.times, settings.optimizer, dtype, precision, settings.stack,
            accumulates=accumulates,
        )  # fmt: skip
    if workload.compute is None:
        from explorer.costs.roofline import dtype_of, estimate, label

        chosen = dtype or dtype_of(workload.graph)
        stack = settings.stack
        seconds = estimate(workload.graph, kinds, chosen, settings.optimizer, precision, stack, accumulates=accumulates)
        return seconds, label(kinds, chosen, stack)
    if settings.stack is not Stack.TRACED:
        raise InvalidProblem(
            f"{workload.reference}: has its own compute times, so nothing is estimated; leave out --stack"
        )
    for kind in kinds:
        if kind not in workload.compute.seconds:
            known = ", ".join(workload.compute.seconds)
            raise InvalidProblem(f"{workload.reference}: has no compute times for device kind {kind!r}; has: {known}")
    return workload.compute, workload.costs_from


def _check_times(problem: Problem, reference: str) -> None:
    """Raises InvalidProblem for stated times under which a plan takes no time, or none can run."""
    seconds = problem.compute.seconds
    kinds = sorted({device.kind for device in problem.cluster.devices})
    for kind in kinds:
        if not seconds[kind].any():
            raise InvalidProblem(
                f"{reference}: every compute time of device kind {kind!r} is 0; state seconds, or leave the kind out"
            )
    able = np.any([np.isfinite(seconds[kind]).all(axis=1) for kind in kinds], axis=0)
    unable = [operator.name for operator, runs in zip(problem.graph.operators, able, strict=True) if not runs]
    if unable:
        more = f" and {len(unable) - 1:,} more" if len(unable) > 1 else ""
        raise InvalidProblem(
            f"{reference}: operator {unable[0]!r}{more} can run on none of the devices ({', '.join(kinds)});"
            " add one of a kind with finite times (--cpus 1, --device-kind)"
        )
