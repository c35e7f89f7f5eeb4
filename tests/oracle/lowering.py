"""From a plan to tasks on resources: compute, transfers, and what waits for what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidPlan, NoLink
from solvers.plan.crossings import messages_between_stages
from solvers.plan.plan import Action, MessageOrder, Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Execution, Objective, Precision, Problem, Transfers
from tests.oracle.regions import saved, seconds
from tests.oracle.units import Pass, Unit, unroll

Place = tuple[tuple[int, ...], int]
"""Devices of a replica group and the size of their micro-batches."""


@dataclass(slots=True)
class Task:
    """One span to be: compute of (unit, micro-batch) on a device, or a transfer.

    A transfer has to_device >= 0; ``holds_from`` and ``feeds`` are the tasks it carries data from
    and to (for memory), nbytes what it moves, bundle and held_bytes what the sender keeps until the
    last transfer of the bundle ends. priority orders ready tasks of one resource.
    """

    label: str
    resource: str
    device: int
    duration_s: float
    priority: float
    unit: int = -1
    micro_batch: int = -1
    operator: int = -1
    to_device: int = -1
    nbytes: float = 0.0
    arrives: bool = False
    """True for the transfer that fills the receiver's buffer."""
    holds_from: tuple[int, ...] = ()
    feeds: list[int] = field(default_factory=list)
    bundle: int = -1
    held_bytes: float = 0.0


@dataclass(slots=True)
class TaskGraph:
    """Tasks and their dependencies; ``after[i]`` are the tasks that wait for task i."""

    tasks: list[Task]
    after: list[list[int]]
    units: tuple[Unit, ...]
    shared: frozenset[str]
    hosted: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Forwards whose saved activations go to the host: the copies there and back."""


_BundleKey = tuple[frozenset[int], tuple[tuple[Place, frozenset[int]], ...], tuple[tuple[int, ...], ...]]
"""Units that send, places and units that receive, and, of single operators, all that make and read it."""


@dataclass(slots=True)
class _Bundle:
    """Tensors that leave the same units for the same units: they travel together."""

    number: int
    fixed: float = 0.0
    per_sample: float = 0.0
    stated_s: float = 0.0
    tensors: int = 0

    def at(self, samples: float) -> float:
        """Bytes of ``samples``."""
        return self.fixed + self.per_sample * samples


class _Lowering:
    def __init__(self, problem: Problem, plan: Plan, unrolled: Pass, *, single: bool) -> None:
        self.single = single
        self.problem, self.plan, self.units = problem, plan, unrolled.units
        self.by_operator = any(unit.operator >= 0 for unit in unrolled.units)
        self.cluster = problem.cluster
        self.tasks: list[Task] = []
        self.after: list[list[int]] = []
        self.task_of: dict[tuple[int, int, int], int] = {}
        self.shared = _shared_resources(problem, unrolled)
        self.hosted: dict[int, tuple[int, int]] = {}
        self.durations: dict[tuple[int, int], float] = {}
        self.times: dict[tuple[str, float], NDArray[np.float64]] = {}
        self.units_of: dict[int, list[int]] = defaultdict(list)
        for index, unit in enumerate(self.units):
            for operator in unit.operators:
                self.units_of[operator].append(index)
        for device, order in enumerate(unrolled.order):
            self._compute_tasks(device, order)

    def add(self, task: Task) -> int:
        self.tasks.append(task)
        self.after.append([])
        return len(self.tasks) - 1

    def _compute_tasks(self, device: int, order: tuple[tuple[int, int], ...]) -> None:
        ordered = f"device {device}" not in self.shared
        previous = -1
        for position, (u, micro_batch) in enumerate(order):
            unit = self.units[u]
            label = str(Action(unit.stage, unit.kind, micro_batch))
            task = self.add(
                Task(label, f"device {device}", device, self._compute_s(u, device), float(position), u, micro_batch,
                     unit.operator)
            )  # fmt: skip
            self.task_of[u, micro_batch, unit.devices.index(device)] = task
            if ordered and previous >= 0:
                self.after[previous].append(task)
            previous = task

    def _compute_s(self, u: int, device: int) -> float:
        kind = self.cluster.devices[device].kind
        key = (u, device)
        if key not in self.durations:
            unit = self.units[u]
            samples = unit.micro_batch_size / len(unit.devices)
            if (kind, samples) not in self.times:
                self.times[kind, samples] = seconds(self.problem, kind, samples)
            times = self.times[kind, samples]
            self.durations[key] = float(times[list(unit.operators)].sum() + times[list(unit.again)].sum())
            if self.problem.training and self.problem.zero == 3 and not self.single:
                self.durations[key] = self._with_gathers(unit, self.durations[key])
        return self.durations[key]

    def _with_gathers(self, unit: Unit, computes_s: float) -> float:
        """Seconds of a unit of several replicas with what it waits for parameters: those of the operator that comes
        first (in a backward: last) go round before it runs, the others meanwhile."""
        kinds = {other.kind for other in self.units if other.stage == unit.stage}
        begins = next(kind for kind in "IBW" if kind in kinds or kind == "W")
        r, operators = len(unit.devices), self.problem.graph.operators
        if r == 1 or unit.kind not in ("F", begins):
            return computes_s
        members = [o for o in self.problem.graph.topological_order if o in self.plan.stages[unit.stage].operators]
        sizes = [operators[o].param_bytes for o in members if operators[o].phase is Phase.FORWARD]
        sizes = [size for size in sizes if size > 0]
        if not sizes:
            return computes_s
        if unit.kind != "F":
            sizes.reverse()
        head_s, rest_s = [], []
        for q, src in enumerate(unit.devices):
            dst = unit.devices[(q + 1) % r]
            link = self.cluster.link(src, dst)
            if link is None:
                raise NoLink(f"there is no link from device {src} to device {dst}, replicas of stage {unit.stage}")
            head_s.append((link.latency_s, (r - 1) / r * sizes[0] / link.bandwidth_bytes_per_s))
            rest_s.append((r - 1) / r * sum(sizes[1:]) / link.bandwidth_bytes_per_s)
        waited = (r - 1) * max(latency for latency, _ in head_s) + max(sent for _, sent in head_s)
        return waited + max(computes_s, *rest_s)

    # -- dependencies -----------------------------------------------------------------------------

    def connect(self) -> None:
        """Dependencies inside stages, then messages between places."""
        self._order_inside_stages()
        bundles: dict[_BundleKey, _Bundle] = {}
        local: set[tuple[int, int]] = set()
        for group in self._messages():
            self._route(group, bundles, local)
        for source, target in sorted(local):
            self._wait_locally(source, target)
        for (sources, targets, _), bundle in bundles.items():
            self._send(sorted(sources), targets, bundle)
        self._synchronise_replicas()

    def _messages(self) -> Sequence[tuple[int, ...]]:
        """Messages that may need routing: a stage that runs as a whole sees to those inside it."""
        if self.by_operator:
            return self.problem.graph.messages
        return messages_between_stages(self.problem.graph, self.plan.stages)

    def _order_inside_stages(self) -> None:
        """Forward before backward before update, per micro-batch; gradients of inputs before those of
        parameters and before updates that need them; an operator before its mirror."""
        by_stage: dict[int, list[int]] = defaultdict(list)
        for index, unit in enumerate(self.units):
            by_stage[unit.stage].append(index)
        for indices in by_stage.values():
            whole = [i for i in indices if self.units[i].operator < 0]
            forward = [i for i in whole if self.units[i].kind == "F"]
            backward = [i for i in whole if self.units[i].kind in "BIW"]
            inputs = [i for i in whole if self.units[i].kind == "I"]
            weights = [i for i in whole if self.units[i].kind == "W"]
            update = [i for i in whole if self.units[i].kind == "U"]
            for earlier, later in ((forward, backward), (inputs, weights), (backward, update), (forward, update)):
                for a in earlier:
                    for b in later:
                        if self.units[a].kind != "I" or self._needs(a, b):
                            self._wait_locally(a, b)
        operators = self.problem.graph.operators
        for index, unit in enumerate(self.units):
            if unit.operator >= 0:
                mirrored = operators[unit.operator].forward_of
                for source in self.units_of.get(mirrored, ()) if mirrored is not None else ():
                    if self.units[source].devices == unit.devices:
                        self._wait_locally(source, index)

    def _needs(self, inputs: int, later: int) -> bool:
        """Whether a unit of the same stage needs one of gradients of inputs: those of a single operator may as
        well come after the gradients of its parameters."""
        unit, graph = self.units[inputs], self.problem.graph
        readers = set(self.units[later].operators)
        reads = any(
            not readers.isdisjoint(graph.tensors[t].consumers) for o in unit.operators for t in graph.outputs[o]
        )
        return reads or bool(unit.again)

    def _route(
        self,
        group: tuple[int, ...],
        bundles: dict[_BundleKey, _Bundle],
        local: set[tuple[int, int]],
    ) -> None:
        """Split one message into waits on the same devices and transfers to other places."""
        tensors = self.problem.graph.tensors
        first = tensors[group[0]]
        sources: dict[Place, set[int]] = defaultdict(set)
        copies: dict[int, dict[tuple[int, ...], int]] = {}
        for t in group:
            units = self.units_of[tensors[t].producer]
            copies[t] = {self.units[u].devices: u for u in units}
            home = self.units[units[0]]
            sources[home.devices, _size(home)].add(units[0])
        remote: dict[tuple[Place, frozenset[int]], dict[Place, set[int]]] = defaultdict(lambda: defaultdict(set))
        for consumer in first.consumers:
            for target in self.units_of[consumer]:
                unit = self.units[target]
                for place, producers in sources.items():
                    near = {copies[t][unit.devices] for t in group if unit.devices in copies[t]}
                    fetched = {source for source in producers if self._through_host(source, target)}
                    if fetched or _shared_anew(place, unit):  # of its own part a call needs nothing fetched
                        remote[place, frozenset(fetched or producers)][unit.devices, _size(unit)].add(target)
                    elif near and (place[0] == unit.devices or all(unit.devices in copies[t] for t in group)):
                        local.update((source, target) for source in near if source != target)
                    elif place[0] != unit.devices:
                        remote[place, frozenset(producers)][unit.devices, _size(unit)].add(target)
                    else:
                        local.update((source, target) for source in producers if source != target)
        # Single operators send together what the same operators make and the same operators read, here or
        # anywhere: what is one transfer then does not hang on the placement.
        ends: tuple[tuple[int, ...], ...] = ()
        if self.by_operator:
            ends = tuple(sorted(tensors[t].producer for t in group)), tuple(sorted(first.consumers))
        for (_, makers), targets in sorted(remote.items(), key=lambda item: (item[0][0], sorted(item[0][1]))):
            key = (
                makers,
                tuple(sorted((there, frozenset(units)) for there, units in targets.items())),
                ends,
            )
            bundle = bundles.setdefault(key, _Bundle(len(bundles)))
            bundle.fixed += first.nbytes.fixed
            bundle.per_sample += first.nbytes.per_sample
            if self.problem.transfer_s is not None:
                bundle.stated_s += self.problem.transfer_s[group[0]]
                bundle.tensors += 1
            elif first.nbytes.fixed or first.nbytes.per_sample:
                bundle.tensors += 1

    def _through_host(self, source: int, target: int) -> bool:
        """Whether two units are calls of different stages on one device: a call takes its inputs from
        the host's memory and leaves its outputs there (Tarnawski et al. 2020, section 6)."""
        a, b = self.units[source], self.units[target]
        blocking = self.problem.transfers is Transfers.BLOCKING
        return blocking and a.call and b.call and a.devices == b.devices and a.stage != b.stage

    def _wait_locally(self, source: int, target: int) -> None:
        a, b = self.units[source], self.units[target]
        for i in range(a.count):
            for j in _overlapping(a, b, i):
                for device in set(a.devices) & set(b.devices):
                    self.after[self.task_of[source, i, a.devices.index(device)]].append(
                        self.task_of[target, j, b.devices.index(device)]
                    )

    # -- messages ---------------------------------------------------------------------------------

    def _seconds(self, bundle: _Bundle, samples: float, src: int, dst: int) -> float:
        if self.problem.transfer_s is not None:
            return bundle.stated_s * samples
        if bundle.tensors == 0:
            return 0.0
        if src == dst:  # to the host and back: as slow as the slowest way out
            ways = [dst for dst in range(len(self.cluster)) if self.cluster.link(src, dst) is not None]
            return max((self._seconds(bundle, samples, src, way) for way in ways), default=0.0)
        link = self.cluster.link(src, dst)
        if link is None:
            raise NoLink(f"there is no link from device {src} to device {dst}, yet the plan sends tensors over it")
        return bundle.tensors * link.latency_s + bundle.at(samples) / link.bandwidth_bytes_per_s

    def _send(self, sources: list[int], targets: tuple[tuple[Place, frozenset[int]], ...], bundle: _Bundle) -> None:
        """The tasks that carry one bundle from one place to all others, every micro-batch."""
        mode = self.problem.transfers
        origin = self.units[sources[0]]
        free = bundle.tensors == 0
        for i in range(origin.count):
            for p, src in enumerate(origin.devices):
                producers = tuple(self.task_of[s, i, p] for s in sources)
                share = origin.micro_batch_size / len(origin.devices)
                departure = -1
                if mode is not Transfers.LINKS and not free:
                    farthest = max(
                        self._seconds(bundle, share, src, dst) for (devices, _), _ in targets for dst in devices
                    )
                    departure = self._leave(producers, src, farthest, bundle, share)
                for (devices, _), consumers in targets:
                    sample = self.units[next(iter(consumers))]
                    for j, q, samples in _shares(origin, i, p, sample):
                        waiting = [self.task_of[c, j, q] for c in sorted(consumers)]
                        dst = devices[q]
                        if free or (dst == src and not self._through_host(sources[0], next(iter(consumers)))):
                            for producer in producers:
                                self.after[producer].extend(waiting)
                            continue
                        self._arrive(producers, departure, src, dst, waiting, bundle, samples, share)

    def _leave(self, producers: tuple[int, ...], src: int, seconds: float, bundle: _Bundle, share: float) -> int:
        """The sender's half of a transfer under BLOCKING, LANE and DUPLEX; -1 if it costs nothing."""
        unit = self.units[self.tasks[producers[0]].unit]
        if self.cluster.devices[src].is_cpu:
            return -1
        if unit.call and self.problem.transfers is Transfers.BLOCKING:
            self.tasks[producers[0]].duration_s += seconds
            return -1
        resource = {Transfers.BLOCKING: "device", Transfers.LANE: "lane", Transfers.DUPLEX: "out"}
        last = self.tasks[producers[-1]]
        latest = max(self.tasks[producer].priority for producer in producers)
        task = self.add(
            Task(f"{last.label}>", f"{resource[self.problem.transfers]} {src}", src, seconds, latest + 0.25,
                 to_device=src, nbytes=bundle.at(share), holds_from=producers, bundle=bundle.number,
                 held_bytes=bundle.at(share))
        )  # fmt: skip
        for producer in producers:
            self.after[producer].append(task)
        return task

    def _arrive(
        self,
        producers: tuple[int, ...],
        departure: int,
        src: int,
        dst: int,
        consumers: list[int],
        bundle: _Bundle,
        samples: float,
        share: float,
    ) -> None:
        """The receiver's half of a transfer, or all of it under LINKS."""
        mode = self.problem.transfers
        seconds = self._seconds(bundle, samples, src, dst)
        before = (departure,) if departure >= 0 else producers
        label = f"{self.tasks[producers[-1]].label}>{dst}"
        first = min(consumers, key=lambda c: self.tasks[c].priority)
        target = self.units[self.tasks[first].unit]
        costs_nothing = mode is not Transfers.LINKS and self.cluster.devices[dst].is_cpu
        folded = mode is Transfers.BLOCKING and target.call and not costs_nothing
        if folded:  # every call fetches its own inputs
            for consumer in consumers:
                self.tasks[consumer].duration_s += seconds
        if folded or costs_nothing:
            for task in before:
                self.after[task].extend(consumers)
            return
        if mode is Transfers.LINKS:
            link = self.cluster.link(src, dst)
            resource = link.resource if link is not None and link.resource else f"{src}->{dst}"
        else:
            resource = {Transfers.BLOCKING: "device", Transfers.LANE: "lane", Transfers.DUPLEX: "in"}[mode] + f" {dst}"
        arrival = self.add(
            Task(label, resource, src, seconds, self.tasks[first].priority - 0.25, to_device=dst,
                 nbytes=bundle.at(samples), arrives=True, holds_from=producers, feeds=list(consumers),
                 bundle=bundle.number, held_bytes=bundle.at(share))
        )  # fmt: skip
        for task in before:
            self.after[task].append(arrival)
        self.after[arrival].extend(consumers)

    def copy_to_hosts(self) -> None:
        """What stages that offload save goes to the host, and back from when the last action but one before the
        backward has ended; of micro-batches with two actions or more in between."""
        if self.single:
            return
        for (u, i, p), forward in list(self.task_of.items()):
            unit = self.units[u]
            if unit.kind != "F" or not self.plan.stages[unit.stage].offload:
                continue
            mirror = next(v for v, other in enumerate(self.units) if other.stage == unit.stage and other.kind == "B")
            backward = self.task_of[mirror, i, p]
            samples = unit.micro_batch_size / len(unit.devices)
            sent = self.plan.stages[unit.stage].offload
            nbytes = sum(saved(self.problem, o, samples) for o in unit.operators if o in sent)
            if backward - forward < 3 or not nbytes:
                continue
            device = unit.devices[p]
            seconds = nbytes / self.problem.host_links[self.cluster.devices[device].kind]
            label = self.tasks[forward].label + ">"
            out, back = (
                self.add(Task(label, f"{way} host {device}", device, seconds, self.tasks[task].priority,
                              to_device=device, nbytes=nbytes))
                for way, task in (("to", forward), ("from", backward))
            )  # fmt: skip
            for earlier, later in ((forward, out), (out, back), (backward - 2, back), (back, backward)):
                self.after[earlier].append(later)
            self.hosted[forward] = out, back

    def take_turns(self, messages: MessageOrder) -> None:
        """On a link whose order is stated every transfer, all-reduces apart, waits for the one before it. Of one
        name the first is the one that was added first."""
        if self.problem.transfers is not Transfers.LINKS:
            raise InvalidPlan("transfers do not occupy links")
        crossing: dict[str, dict[str, int]] = defaultdict(dict)
        for i, task in enumerate(self.tasks):
            if task.to_device >= 0 and "S" not in task.label:
                names = crossing[task.resource]
                count = sum(name.split("#")[0] == task.label for name in names)
                names[f"{task.label}#{count}" if count else task.label] = i
        for link, row in messages:
            turn = [str(message) for message in row]
            if sorted(turn) != sorted(crossing[link]):
                raise InvalidPlan(f"{link} serves {sorted(crossing[link])}, not {turn}")
            for earlier, later in pairwise(turn):
                self.after[crossing[link][earlier]].append(crossing[link][later])

    def _synchronise_replicas(self) -> None:
        """Ring all-reduce of the gradients of replicated stages: 2(r-1)/r of the bytes per link."""
        if not self.problem.training:
            return
        operators = self.problem.graph.operators
        for index, stage in enumerate(self.plan.stages):
            replicas = len(stage.devices)
            owners = [operators[o] for o in stage.operators if operators[o].phase is Phase.FORWARD]
            gradient = sum(o.param_bytes - o.frozen_bytes for o in owners)
            weights = sum(o.param_bytes for o in owners)
            trained = gradient
            if self.problem.precision is Precision.MIXED_FP32_GRADIENTS:
                gradient *= 2
            of_stage = [u for u, unit in enumerate(self.units) if unit.stage == index]
            times = len({i for u, i, _ in self.task_of if u in of_stage and self.units[u].kind != "U"})
            scattered, gathered = {
                0: (gradient, gradient),
                1: (gradient, trained),
                2: (times * gradient, trained),
                3: (times * gradient, 2 * times * weights if self.single else 0.0),
            }[self.problem.zero]
            if replicas == 1 or scattered + gathered == 0:
                continue
            before = [t for (u, _, _), t in self.task_of.items() if u in of_stage and self.units[u].kind in "BIW"]
            later = [t for (u, _, _), t in self.task_of.items() if u in of_stage and self.units[u].kind == "U"]
            if not before:
                continue
            for q, src in enumerate(stage.devices):
                dst = stage.devices[(q + 1) % replicas]
                link = self.cluster.link(src, dst)
                if link is None:
                    raise NoLink(f"there is no link from device {src} to device {dst}, replicas of stage {index}")
                moved = (replicas - 1) / replicas * (scattered + gathered)
                seconds = 2 * (replicas - 1) * link.latency_s + moved / link.bandwidth_bytes_per_s
                task = self.add(
                    Task(f"{index}S>{dst}", link.resource or f"{src}->{dst}", src, seconds, 0.0, to_device=dst,
                         nbytes=moved)
                )  # fmt: skip
                for t in before:
                    self.after[t].append(task)
                self.after[task].extend(later)


def lower(problem: Problem, plan: Plan, objective: Objective) -> TaskGraph:
    """The task graph of one iteration (ITERATION, MAX_LOAD) or of one unsplit pass (MAKESPAN).

    Raises InvalidPlan if the plan's order, of actions or of messages, is incomplete or it needs a link that is not
    there.
    """
    lowering = _Lowering(problem, plan, unroll(problem, plan, objective), single=objective is Objective.MAKESPAN)
    lowering.connect()
    if plan.messages and (objective is Objective.MAKESPAN) == (problem.objective is Objective.MAKESPAN):
        lowering.take_turns(plan.messages)
    lowering.copy_to_hosts()
    shared = frozenset(lowering.shared)
    return TaskGraph(lowering.tasks, lowering.after, lowering.units, shared, lowering.hosted)


def _shared_resources(problem: Problem, unrolled: Pass) -> set[str]:
    """Devices that run any number of tasks at once: CPUs in a CALL pass, and those declared so."""
    calls = any(unit.call for unit in unrolled.units) or (
        problem.execution is Execution.CALL and problem.objective is Objective.MAKESPAN
    )
    return {
        f"device {d}"
        for d, device in enumerate(problem.cluster.devices)
        if device.concurrency is None or (calls and device.is_cpu)
    }


def _size(unit: Unit) -> int:
    return unit.micro_batch_size


def _shared_anew(place: Place, unit: Unit) -> bool:
    """Whether the replicas that run ``unit`` share its micro-batches otherwise than those of ``place``, the same
    devices: then each sends the others the samples they take over."""
    return len(place[0]) > 1 and place[0] == unit.devices and place[1] != _size(unit) and unit.kind != "U"


def _overlapping(a: Unit, b: Unit, i: int) -> range:
    """Micro-batches of ``b`` that share samples with micro-batch ``i`` of ``a``."""
    low, high = i * a.micro_batch_size, (i + 1) * a.micro_batch_size
    return range(low // b.micro_batch_size, -(-high // b.micro_batch_size))


def _shares(a: Unit, i: int, p: int, b: Unit) -> Iterator[tuple[int, int, float]]:
    """(micro-batch, replica, samples) of ``b`` that take samples of replica ``p`` of micro-batch ``i`` of ``a``."""
    share_a = a.micro_batch_size / len(a.devices)
    low = i * a.micro_batch_size + p * share_a
    high = low + share_a
    share_b = b.micro_batch_size / len(b.devices)
    for j in _overlapping(a, b, i):
        for q in range(len(b.devices)):
            start = j * b.micro_batch_size + q * share_b
            samples = min(high, start + share_b) - max(low, start)
            if samples > 1e-9:
                yield j, q, samples
