"""From a plan to tasks on resources: compute, transfers, what waits for what, and what is held."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from solvers.errors import InvalidPlan, NoLink, PlacementError
from solvers.evaluation.columns import cluster_columns, graph_columns, plan_columns, wire_name
from solvers.evaluation.holds_kernel import HandedOn, holds_of
from solvers.evaluation.message_order import turns_of, with_turns
from solvers.evaluation.routes_kernel import routes_of
from solvers.evaluation.rows_kernel import pairs_inside_stages, rows_of_order
from solvers.evaluation.tasks import B, F, Holds, HostCopies, I, Messages, Rows, Sends, Tasks, Units
from solvers.evaluation.tasks_kernel import Rings, Wires, tasks_of
from solvers.evaluation.unit_bytes import offloaded_bytes, unit_bytes
from solvers.evaluation.units import KINDS, refuse, seconds_of, units_of, with_gathers
from solvers.kernels.arrays import Bools, Floats, Ints, starts
from solvers.kernels.interpreted import until_worth_it
from solvers.plan.alike import Alike
from solvers.plan.plan import ACTION_KINDS, NOT_COPIED, Action, Plan
from solvers.problem.cluster import Cluster, Repeats
from solvers.problem.links import LinkClass, Wire
from solvers.problem.problem import Objective, Problem, Transfers

MODES = tuple(Transfers)
"""A transfer model's number in the kernels is its position here."""
_rows_of_order, _routes_of = until_worth_it(rows_of_order), until_worth_it(routes_of)
_tasks_of, _holds_of = until_worth_it(tasks_of), until_worth_it(holds_of)
_pairs_inside_stages = until_worth_it(pairs_inside_stages)


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A plan as tasks. shared: of every device, whether it runs any number of tasks at once; wires: of the resources
    of links that are in use, their numbers in `LinkTable`; cluster: has their names; one_lane: whether a device has one
    lane for both directions; turns: of every link whose order is stated, the transfers in that order; copies: between
    devices and their hosts, whose lanes come after the wires."""

    units: Units
    rows: Rows
    tasks: Tasks
    sends: Sends
    shared: Bools
    wires: Ints
    cluster: Cluster
    one_lane: bool
    turns: tuple[Ints, ...] = ()
    copies: HostCopies | None = None

    def resource_name(self, resource: int) -> str:
        """The name of a resource of `Tasks`."""
        group, number = divmod(resource, len(self.shared))
        hosts = resource - 3 * len(self.shared) - len(self.wires)
        if hosts >= 0:
            return host_lanes(hosts % len(self.shared))[hosts // len(self.shared)]
        if group > 2 and self.wires[resource - 3 * len(self.shared)] >= len(self.shared) ** 2:
            return f"to the next group {self.wires[resource - 3 * len(self.shared)]}"
        if group > 2:
            return wire_name(self.cluster, int(self.wires[resource - 3 * len(self.shared)]))
        return f"{('device', 'lane' if self.one_lane else 'out', 'in')[group]} {number}"


def lower(problem: Problem, plan: Plan, objective: Objective, same: Alike | None = None) -> Lowered:
    """The tasks of one iteration (ITERATION, MAX_LOAD) or of one unsplit pass (MAKESPAN).

    same: the groups of devices of the plan that do the same, of which the first has tasks; None: all devices have.
    Raises InvalidPlan if the plan's order, of actions or of messages, is incomplete, an operator cannot run where it
    is placed, or the plan needs a link that is not there.
    """
    columns, cluster = graph_columns(problem.graph), cluster_columns(problem.cluster)
    first, times = (plan, 1) if same is None else (same.plan, len(same.groups))
    units = units_of(problem, first, objective, times)
    single = objective is Objective.MAKESPAN
    shared = _shared(problem, units)
    rows = _rows(problem, first, units, single, ~shared)
    seconds = _row_seconds(problem, units, rows)
    if not single:
        seconds = with_gathers(problem, plan, units, rows, seconds)
    mode = MODES.index(problem.transfers)
    blocking = problem.transfers is Transfers.BLOCKING
    stated_s = np.zeros(0)
    if problem.transfer_s is not None:
        stated_s = np.array(problem.transfer_s, np.float64)[columns.message_tensor]
    nbytes = columns.tensor_bytes[columns.message_tensor]
    latencies = np.asarray(nbytes.any(axis=1) | (problem.transfer_s is not None), np.int64)
    by_operator = bool((units.operator >= 0).any())
    messages = Messages(
        columns.maker_start, columns.maker, columns.reader_start, columns.reader, columns.message_ends, nbytes,
        stated_s, latencies,
    )  # fmt: skip
    bundles, local = _routes_of(units, messages, by_operator, blocking)
    pairs = np.concatenate([_inside_stages(problem, units), _mirrors(problem, units, by_operator), local])
    wires = Wires(mode, problem.transfer_s is not None, False, cluster.links, cluster.is_cpu)
    missing, tasks, sends = _tasks_of(
        units, rows, seconds, pairs, bundles, wires, _rings(problem, first, units, single, same)
    )
    if missing:
        src, dst = divmod(missing - 1, len(problem.cluster))
        raise NoLink(f"there is no link from device {src} to device {dst}, yet the plan sends tensors over it")
    tasks, used = _with_used_wires(tasks, 3 * len(problem.cluster))
    turns: tuple[Ints, ...] = ()
    if plan.messages and single is (problem.objective is Objective.MAKESPAN):
        turns = turns_of(problem, plan, tasks, used)
        tasks = with_turns(tasks, turns)
    copies = None if single else _host_copies(problem, first, units, rows, len(tasks.seconds))
    if copies is not None:
        tasks = _with_host_copies(problem, tasks, rows, copies, 3 * len(problem.cluster) + len(used))
    one_lane = problem.transfers is Transfers.LANE
    return Lowered(units, rows, tasks, sends, shared, used, problem.cluster, one_lane, turns, copies)


def host_lanes(device: int) -> tuple[str, str]:
    """The names of the resources of a device's link to its host's memory, there and back."""
    return f"to host {device}", f"from host {device}"


def _host_copies(problem: Problem, plan: Plan, units: Units, rows: Rows, tasks: int) -> HostCopies | None:
    """What is copied between devices and their hosts; None if no stage offloads. tasks: how many there are but these.

    A micro-batch is copied where at least `NOT_COPIED` actions lie between its forward and its backward.
    """
    sent = [stage for stage, each in enumerate(plan.stages) if each.offload]
    if not sent:
        return None
    saved = offloaded_bytes(problem, plan, units)
    pairs = []
    for stage in sent:
        forward, backward = (np.flatnonzero((units.stage == stage) & (units.kind == kind)) for kind in (F, B))
        if len(forward) == len(backward) == 1:
            pairs.append((int(forward[0]), int(backward[0])))
    empty = np.zeros(0, np.int64)
    forward, backward = (
        np.concatenate([empty, *(rows.of_slot[units.slot[pair[at]] : units.slot[pair[at] + 1]] for pair in pairs)])
        for at in (0, 1)
    )
    nbytes = saved[rows.unit[forward]]
    goes = (rows.position[backward] - rows.position[forward] > NOT_COPIED) & (nbytes > 0)
    number = np.where(goes, np.cumsum(goes) - 1, -1)
    out = np.where(goes, tasks + number, -1)
    back = np.where(goes, tasks + int(goes.sum()) + number, -1)
    return HostCopies(forward, backward, nbytes, out, back)


def _with_host_copies(problem: Problem, tasks: Tasks, rows: Rows, copies: HostCopies, first_lane: int) -> Tasks:
    """The tasks and, after them, the copies to hosts, then those back.

    A copy to the host waits for its forward; one back for that, and for the last action but one before its backward,
    which waits for it: so it goes beside the action just before.
    """
    goes = np.flatnonzero(copies.out >= 0)
    forward, backward, out, back = (column[goes] for column in copies[:2] + copies[3:])
    device, count = rows.device[forward], len(tasks.seconds)
    missing = [d for d in np.unique(device).tolist() if problem.cluster.devices[d].kind not in problem.host_links]
    if missing:
        raise InvalidPlan(f"device {missing[0]} has no link to its host's memory, yet a stage on it offloads")
    speed = np.array([problem.host_links.get(d.kind, math.inf) for d in problem.cluster.devices])
    both = np.concatenate([forward, forward])
    earlier = np.concatenate(
        [np.repeat(np.arange(count), np.diff(tasks.after_start)), forward, out, backward - 2, back]
    )
    later = np.concatenate([tasks.after, out, back, back, backward])
    total, nothing = count + len(both), np.full(len(both), -1, np.int64)
    lane = first_lane + device
    return Tasks(
        seconds=np.concatenate([tasks.seconds, np.tile(copies.nbytes[goes] / speed[device], 2)]),
        resource=np.concatenate([tasks.resource, lane, lane + len(problem.cluster)]),
        priority=np.concatenate([tasks.priority, tasks.priority[forward], tasks.priority[backward]]),
        device=np.concatenate([tasks.device, device, device]),
        to_device=np.concatenate([tasks.to_device, device, device]),
        unit=np.concatenate([tasks.unit, nothing]),
        micro_batch=np.concatenate([tasks.micro_batch, tasks.micro_batch[both]]),
        stage=np.concatenate([tasks.stage, tasks.stage[both]]),
        kind=np.concatenate([tasks.kind, tasks.kind[both]]),
        maker=np.concatenate([tasks.maker, both]),
        latencies=np.concatenate([tasks.latencies, nothing + 1]),
        nbytes=np.concatenate([tasks.nbytes, np.tile(copies.nbytes[goes], 2)]),
        reader_start=np.concatenate(
            [
                tasks.reader_start,
                np.repeat(tasks.reader_start[-1:], len(out)),
                len(tasks.reader) + 1 + np.arange(len(back)),
            ]
        ),
        reader=np.concatenate([tasks.reader, backward]),
        after_start=starts(np.bincount(earlier, minlength=total)),
        after=later[np.argsort(earlier, kind="stable")],
        waits=np.bincount(later, minlength=total).astype(np.int64),
    )


def _with_used_wires(tasks: Tasks, first_wire: int) -> tuple[Tasks, Ints]:
    """The tasks, for which only wires in use have a number from ``first_wire`` up, in the order of their numbers in
    `LinkTable`; and these, [wires in use]."""
    at = np.flatnonzero(tasks.resource >= first_wire)
    used, number = np.unique(tasks.resource[at] - first_wire, return_inverse=True)
    resource = tasks.resource.copy()
    resource[at] = first_wire + number.reshape(-1)
    return tasks._replace(resource=resource), used


def check_messages(problem: Problem, plan: Plan) -> None:
    """Raises InvalidPlan unless every link whose order ``plan.messages`` states is there, and its row has all that
    crosses it once and nothing else; what else is wrong with the plan is for others to tell."""
    if plan.messages:
        try:
            lowered = lower(problem, replace(plan, messages=()), problem.objective)
        except PlacementError:
            return
        turns_of(problem, plan, lowered.tasks, lowered.wires)


def held_by(problem: Problem, plan: Plan, lowered: Lowered) -> Holds:
    """What the tasks of a plan hold beside what devices hold all the time."""
    columns = graph_columns(problem.graph)
    training = problem.has_backward()
    makes = ~((columns.phase == 0) & training)
    handed = HandedOn(
        columns.output_start, columns.output, columns.tensor_bytes, columns.sum_group, columns.consumer_start,
        columns.consumer, makes, columns.phase != 3,
    )  # fmt: skip
    nbytes, copies = unit_bytes(problem, plan, lowered.units), lowered.copies
    holds = _holds_of(
        lowered.units, lowered.rows, lowered.tasks, lowered.sends, nbytes, handed, columns.forward_of, len(plan.stages)
    )
    return holds if copies is None else _with_offloaded(holds, lowered.rows, copies)


def _with_offloaded(holds: Holds, rows: Rows, copies: HostCopies) -> Holds:
    """The holds and what forwards save that is copied to the host: until that has ended, and again from the start of
    the copy back; what is not copied stays."""
    goes, lasts = np.flatnonzero(copies.out >= 0), np.flatnonzero(copies.nbytes > 0)
    until = copies.backward.copy()
    until[goes] = copies.out[goes]
    count = len(lasts) + len(goes)
    ends = np.arange(1, count + 1)
    return Holds(
        np.concatenate([holds.device, rows.device[copies.forward[lasts]], rows.device[copies.forward[goes]]]),
        np.concatenate([holds.nbytes, copies.nbytes[lasts], copies.nbytes[goes]]),
        np.concatenate([holds.since_start, len(holds.since) + ends]),
        np.concatenate([holds.since, copies.forward[lasts], copies.back[goes]]),
        np.concatenate([holds.from_end, np.zeros(count, np.bool_)]),
        np.concatenate([holds.until_start, len(holds.until) + ends]),
        np.concatenate([holds.until, until[lasts], copies.backward[goes]]),
    )


def _shared(problem: Problem, units: Units) -> Bools:
    """Devices that run any number of tasks at once: CPUs in a CALL pass, and those declared so."""
    calls = bool(units.call.any()) or problem.is_latency
    return np.array([d.concurrency is None or (calls and d.is_cpu) for d in problem.cluster.devices])


def _rows(problem: Problem, plan: Plan, units: Units, single: bool, ordered: Bools) -> Rows:
    columns = plan_columns(plan)
    pair = units.stage * KINDS + units.kind
    first = np.searchsorted(pair, np.arange(len(plan.stages) * KINDS + 1)).astype(np.int64)
    first_unit = np.empty((len(plan.stages), KINDS + 1), np.int64)
    first_unit[:, :KINDS] = first[:-1].reshape(-1, KINDS)
    first_unit[:, KINDS] = first[KINDS::KINDS]
    whole, rows = _rows_of_order(
        units, first_unit, columns.order_start, columns.action_stage, columns.action_kind, columns.action_micro_batch,
        single, ordered,
    )  # fmt: skip
    if not whole:
        refuse(problem, plan, Objective.MAKESPAN if single else Objective.ITERATION)
    return rows


def _row_seconds(problem: Problem, units: Units, rows: Rows) -> Floats:
    kinds = {kind: i for i, kind in enumerate(dict.fromkeys(d.kind for d in problem.cluster.devices))}
    kind_of = np.array([kinds[device.kind] for device in problem.cluster.devices])
    seconds = seconds_of(problem, units)[kind_of[rows.device], rows.unit]
    if not np.isfinite(seconds).all():
        row = int(np.argmax(~np.isfinite(seconds)))
        u = rows.unit[row]
        text = Action(int(units.stage[u]), ACTION_KINDS[units.kind[u]], int(rows.micro_batch[row]))
        raise InvalidPlan(f"{text} cannot run on device {rows.device[row]}")
    return np.asarray(seconds)


def _inside_stages(problem: Problem, units: Units) -> Ints:
    """`pairs_inside_stages`, but for gradients of inputs that later units do not need."""
    pairs = _pairs_inside_stages(units)
    needed = [units.kind[a] != I or _needs(problem, units, a, b) for a, b in pairs.tolist()]
    return pairs[np.array(needed, np.bool_)]


def _needs(problem: Problem, units: Units, inputs: int, later: int) -> bool:
    """Whether a unit of the same stage needs one of gradients of inputs: those of a single operator may as well
    come after the gradients of its parameters."""
    graph = problem.graph
    readers = set(units.member[units.member_start[later] : units.member_start[later + 1]].tolist())
    members = units.member[units.member_start[inputs] : units.member_start[inputs + 1]].tolist()
    reads = any(not readers.isdisjoint(graph.tensors[t].consumers) for o in members for t in graph.outputs[o])
    return reads or bool(units.again[inputs])


def _mirrors(problem: Problem, units: Units, by_operator: bool) -> Ints:
    """An operator runs before its mirror on the same devices: pairs of units of which the second is a single one."""
    if not by_operator:
        return np.zeros((0, 2), np.int64)
    forward_of = graph_columns(problem.graph).forward_of
    alone = np.flatnonzero(units.operator >= 0)
    mirror = alone[forward_of[units.operator[alone]] >= 0]
    forward = forward_of[units.operator[mirror]]
    copies = np.diff(units.home_start)[forward]
    later = np.repeat(mirror, copies)
    offset = np.arange(len(later)) - np.repeat(np.cumsum(copies) - copies, copies)
    earlier = units.home[np.repeat(units.home_start[forward], copies) + offset]
    together = units.group[earlier] == units.group[later]
    return np.stack([earlier[together], later[together]], axis=1)


def _rings(problem: Problem, plan: Plan, units: Units, single: bool, same: Alike | None) -> Rings:
    group = np.empty(len(plan.stages), np.int64)
    group[units.stage] = units.group
    following = units.group_device[units.group_start[group]] if same is None else same.following
    return Rings(_gradients(problem, plan, single, units.replicas[group]), group, following, *repeated(problem.repeats))


def repeated(repeats: Repeats) -> tuple[int, float, float, bool, bool]:
    """The last fields of `Rings`."""
    link = repeats.link or LinkClass(math.inf, 0.0, Wire.PAIR)
    by_node, by_receiver = link.wire in (Wire.NODE, Wire.NODES), link.wire in (Wire.PAIR, Wire.NODES)
    return repeats.times, link.latency_s, link.bandwidth_bytes_per_s, by_node, by_receiver


def _gradients(problem: Problem, plan: Plan, single: bool, replicas: Ints) -> Floats:
    """Bytes of gradients whose all-reduce stands for what the replicas of each stage tell each other after the last
    backward, [stages]; in an unsplit pass for all that they tell each other. replicas: [stages]."""
    columns, stages = plan_columns(plan), len(plan.stages)
    if not problem.training:
        return np.zeros(stages)
    graph = graph_columns(problem.graph)
    forward = graph.phase[columns.operator] == 0
    owned = [
        np.asarray(np.bincount(columns.stage, np.where(forward, nbytes[columns.operator], 0.0), stages), np.float64)
        for nbytes in (graph.trained_bytes, graph.frozen_bytes)
    ]
    replicas = replicas * problem.repeats.times
    if single:
        return np.where(replicas > 1, problem.copies.reduced(owned[0], owned[1], np.ones(stages)), 0.0)
    micro_batches = problem.mini_batch / np.array([stage.micro_batch_size for stage in plan.stages], np.float64)
    return np.where(replicas > 1, problem.copies.exchanged(owned[0], owned[1], micro_batches), 0.0)
