"""Max-load as an integer program on super-operators and messages (Tarnawski et al., NeurIPS 2020, section 5.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from solvers.coarsening.contracted import Contracted
from solvers.contiguous.variants import Variant
from solvers.kernels.arrays import Floats, Ints
from solvers.noncontiguous.followers import by_leader, leaders
from solvers.problem.graph import topological_order
from solvers.problem.problem import Contiguity, Problem, Transfers
from solvers.programs.integer_program import Model

SCALE = 1e4
"""What the objective of a start is scaled to, at least: solvers decide by absolute tolerances, and
operators of microseconds must not vanish in them."""

CAP_SLACK = 1e-9
"""Relative excess over a memory cap that is rounding, as in `evaluate`."""


class MaxLoadModel:
    """The integer program of one problem at one micro-batch size, and its reading of placements.

    A super-operator v is in slot s where ``x[v][s]`` is 1. Without contiguity, and for CONVEX, slots
    are the devices. For ACYCLIC they are places in the chain, which must not descend along forward
    edges: the accelerators in turn, and before, between and after them a slot for each CPU, of which
    only as many as there are CPUs may be used.

    Communication needs no variables on CPUs, one per slot for a net of two pins, two for a larger
    one. Interchangeable accelerators: the i-th heaviest super-operator is on the first i + 1 of them.
    Memory is ``nbytes`` of the super-operators, [super-operators].
    """

    def __init__(
        self, problem: Problem, contracted: Contracted, variant: Variant, nbytes: Floats, typical_s: float
    ) -> None:
        self.problem, self.contracted, self.variant, self.nbytes = problem, contracted, variant, nbytes
        self.model = Model()
        self.unit_s = 10.0 ** math.floor(math.log10(typical_s)) / SCALE if 0 < typical_s < math.inf else 1.0
        self.chain = problem.contiguity is Contiguity.ACYCLIC
        self.on_cpu = _chain_slots(problem) if self.chain else [d.is_cpu for d in problem.cluster.devices]
        self.accelerator_slots = [s for s, cpu in enumerate(self.on_cpu) if not cpu]
        self._values: list[Callable[[Ints, list[float]], None]] = []
        self.leader = list(range(len(contracted)))
        self.peaks = [self.model.variable(0.0, math.inf, cost=1.0) for _ in range(variant.passes)]
        self.classes = [] if self.chain else _interchangeable(problem)
        self.heaviest = np.argsort(-contracted.acc_s, kind="stable")
        self.x = self._placed()
        self._memory()
        if self.chain:
            self._ascending()
        elif problem.contiguity is Contiguity.CONVEX:
            self._convex()
        self._loads()

    def limit(self, least_s: float, most_s: float) -> None:
        """Look only for objectives between these, in seconds."""
        least, most = least_s / self.unit_s, most_s / self.unit_s
        for peak in self.peaks:
            self.model.upper[peak] = min(self.model.upper[peak], most)
        if len(self.peaks) == 1:
            self.model.lower[self.peaks[0]] = least
        else:
            self.model.row([(peak, 1.0) for peak in self.peaks], least, most)
        for v, row in enumerate(self.x):
            for slot, cpu in enumerate(self.on_cpu):
                if (self.contracted.cpu_s if cpu else self.contracted.acc_s)[v] > most_s:
                    self.model.upper[row[slot]] = 0.0

    def slots_of(self, values: Sequence[float]) -> Ints:
        """The slot of every super-operator in a solution."""
        return np.array([max(range(len(row)), key=lambda s: values[row[s]]) for row in self.x], np.int64)

    def placement(self, slots: Ints) -> tuple[tuple[int, ...], ...]:
        """The devices of every operator of the graph."""
        device_of = list(range(len(self.on_cpu)))
        if self.chain:
            cluster, used = self.problem.cluster, set(slots.tolist())
            accelerators, cpus = iter(cluster.accelerators), iter(cluster.cpus)
            for slot, cpu in enumerate(self.on_cpu):
                if not cpu:
                    device_of[slot] = next(accelerators)
                elif slot in used:
                    device_of[slot] = next(cpus)
        placement: list[tuple[int, ...]] = [()] * len(self.problem.graph)
        for node, slot in enumerate(slots.tolist()):
            for operator in self.contracted.shape.members[node]:
                placement[operator] = (device_of[slot],)
        return tuple(placement)

    def slots_for(self, device_of: Sequence[int]) -> Ints | None:
        """The slots of a placement, accelerators renumbered as the model wants them; None if its chain
        is not one. device_of: [super-operators]."""
        if self.chain:
            return self._chain_of(device_of)
        device_of = self._following(device_of)
        renamed = list(range(len(self.on_cpu)))
        for devices in self.classes:
            seen = list(dict.fromkeys(device_of[v] for v in self.heaviest if device_of[v] in devices))
            for new, old in zip(devices, seen + [d for d in devices if d not in seen], strict=True):
                renamed[old] = new
        return np.array([renamed[device] for device in device_of], np.int64)

    def _following(self, device_of: Sequence[int]) -> list[int]:
        """The placement after every follower has joined its leader on an accelerator: no load is larger."""
        moved: list[int] = list(device_of)
        for a in by_leader(self.leader):
            if not self.on_cpu[moved[self.leader[a]]]:
                moved[a] = moved[self.leader[a]]
        return moved

    def values_of(self, slots: Ints) -> list[float]:
        """A value for every variable, the least that a placement allows; one that breaks a rule shows in
        ``model.violation``."""
        values = [0.0] * len(self.model)
        for node, slot in enumerate(slots.tolist()):
            values[self.x[node][slot]] = 1.0
        for fill in self._values:
            fill(slots, values)
        return values

    def objective_s(self, values: Sequence[float]) -> float:
        return self.model.objective_at(values) * self.unit_s

    # ---------------------------------------------------------------- rows

    def _placed(self) -> list[list[int]]:
        """x: every super-operator in exactly one slot that can take it."""
        contracted, model = self.contracted, self.model
        pinned = {v: self.problem.pins[o] for v, m in enumerate(contracted.shape.members) for o in m
                  if o in self.problem.pins}  # fmt: skip
        rank = np.argsort(self.heaviest)
        late = {device: position for devices in self.classes for position, device in enumerate(devices)}
        x = []
        for v in range(len(contracted)):
            able = [bool(np.isfinite(contracted.cpu_s[v])) if cpu else bool(contracted.supported[v])
                    for cpu in self.on_cpu]  # fmt: skip
            for slot in range(len(able)):
                able[slot] &= pinned.get(v, slot) == slot and late.get(slot, 0) <= rank[v]
                able[slot] &= bool(self.nbytes[v] <= self._cap(slot) * (1 + CAP_SLACK))
            x.append([model.binary(allowed=a) for a in able])
            model.row([(variable, 1.0) for variable in x[v]], 1.0, 1.0)
        return x

    def _cap(self, slot: int) -> float:
        devices = self.problem.cluster.devices
        if not self.chain:
            return devices[slot].memory_bytes
        return max((d.memory_bytes for d in devices if d.is_cpu == self.on_cpu[slot]), default=0.0)

    def _memory(self) -> None:
        nbytes = self.nbytes
        for slot in range(len(self.on_cpu)):
            cap = self._cap(slot)
            if nbytes.sum() > cap > 0:
                terms = [(self.x[v][slot], nbytes[v] / cap) for v in range(len(nbytes)) if nbytes[v] > 0]
                self.model.row(terms, most=1 + CAP_SLACK)

    def _roomy(self) -> bool:
        """Whether any device could hold everything."""
        return bool(self.nbytes.sum() <= min(self._cap(s) for s in range(len(self.on_cpu))))

    def _ascending(self) -> None:
        """Slots do not descend along forward edges: y[v][s], whether v is in a slot up to s, falls."""
        model, last = self.model, len(self.on_cpu) - 1
        y = [[model.variable() for _ in range(last)] for _ in self.x]
        for v, row in enumerate(y):
            for s in range(last):
                before = [(row[s - 1], -1.0)] if s else []
                model.row([(row[s], 1.0), (self.x[v][s], -1.0), *before], 0.0, 0.0)
        for u, v in self.contracted.shape.edges:
            for s in range(last):
                model.row([(y[u][s], 1.0), (y[v][s], -1.0)], least=0.0)
        used = {s: model.binary() for s, cpu in enumerate(self.on_cpu) if cpu}
        for s, variable in used.items():
            for row in self.x:
                model.row([(variable, 1.0), (row[s], -1.0)], least=0.0)
        model.row([(variable, 1.0) for variable in used.values()], most=float(len(self.problem.cluster.cpus)))

        def fill(slots: Ints, values: list[float]) -> None:
            for v, slot in enumerate(slots.tolist()):
                for s in range(slot, last):
                    values[y[v][s]] = 1.0
            for slot in set(slots.tolist()) & set(used):
                values[used[slot]] = 1.0

        self._values.append(fill)

    def _convex(self) -> None:
        """No forward path leaves a set and returns: z[v][s], whether a set is reachable from v, is 0
        behind an edge that leaves it."""
        model, edges = self.model, self.contracted.shape.edges
        z = [[model.variable() for _ in row] for row in self.x]
        for v, row in enumerate(z):
            for s, variable in enumerate(row):
                model.row([(variable, 1.0), (self.x[v][s], -1.0)], least=0.0)
        for u, v in edges:
            for s in range(len(self.on_cpu)):
                model.row([(z[u][s], 1.0), (z[v][s], -1.0)], least=0.0)
                model.row([(z[v][s], 1.0), (self.x[v][s], -1.0), (self.x[u][s], 1.0)], most=1.0)

        def fill(slots: Ints, values: list[float]) -> None:
            reached = [{slot} for slot in slots.tolist()]
            for u, v in sorted(edges, reverse=True):  # super-operators are in topological order
                reached[u] |= reached[v]
            for v, slots_reached in enumerate(reached):
                for s in slots_reached:
                    values[z[v][s]] = 1.0

        self._values.append(fill)

    def _loads(self) -> None:
        """The largest load of each pass, as the transfer model has it."""
        contracted, unit_s, passes = self.contracted, self.unit_s, self.variant.passes
        slots = range(len(self.on_cpu))
        parts: list[list[tuple[list[tuple[int, float]], ...]]] = []
        for p in range(passes):
            rows = [contracted.cpu_pass_s if cpu else contracted.acc_pass_s for cpu in self.on_cpu]
            seconds = [row[p] if passes == 2 else row.sum(axis=0) for row in rows]
            parts.append(
                [
                    ([(self.x[v][s], seconds[s][v] / unit_s) for v in range(len(contracted))
                      if 0 < seconds[s][v] < math.inf], [], [])
                    for s in slots
                ]
            )  # fmt: skip
        self._transfers(parts)
        rows_of: list[tuple[int, list[list[tuple[int, float]]]]] = []
        for p, peak in enumerate(self.peaks):
            for compute, sent, received in parts[p]:
                if self.variant.transfers is Transfers.DUPLEX:
                    lanes = [compute, sent, received]
                elif self.variant.transfers is Transfers.LANE:
                    lanes = [compute, sent + received]
                else:
                    lanes = [compute + sent + received]
                lanes = [lane for lane in lanes if lane]
                for lane in lanes:
                    self.model.row([(peak, 1.0), *((v, -c) for v, c in lane)], least=0.0)
                rows_of.append((peak, lanes))

        def fill(_: Ints, values: list[float]) -> None:
            for peak, lanes in rows_of:
                for lane in lanes:
                    values[peak] = max(values[peak], math.fsum(c * values[v] for v, c in lane))

        self._values.append(fill)

    def _transfers(self, parts: list[list[tuple[list[tuple[int, float]], ...]]]) -> None:
        """Variables for what each accelerator sends and receives, with their seconds, into ``parts``."""
        traffic, passes = self.contracted.traffic, self.variant.passes
        nets: dict[tuple[int, tuple[int, ...]], float] = {}
        directed: set[int] = set()
        for message, seconds in enumerate(self.contracted.message_s.tolist()):
            makers, readers = tuple(traffic.makers[message].tolist()), tuple(traffic.readers[message].tolist())
            p = int(traffic.backward[message]) if passes == 2 else 0
            pins = tuple(sorted({*makers, *readers}))
            if math.isinf(seconds):  # no link could carry it
                for s in range(len(self.on_cpu)):
                    for v in pins[1:]:
                        self.model.row([(self.x[v][s], 1.0), (self.x[pins[0]][s], -1.0)], 0.0, 0.0)
            elif seconds > 0 and (
                self.variant.transfers is not Transfers.DUPLEX and (len(makers) == 1 or len(readers) == 1)
            ):
                # A device pays for it exactly if its set splits the pins: whether it sends or receives is all one.
                nets[p, pins] = nets.get((p, pins), 0.0) + seconds
            elif seconds > 0:
                directed.update(pins)
                for s in self.accelerator_slots:
                    parts[p][s][1].append((self._beyond(makers, readers, s), seconds / self.unit_s))
                    parts[p][s][2].append((self._beyond(readers, makers, s), seconds / self.unit_s))
        for (p, pins), seconds in nets.items():
            for s in self.accelerator_slots:
                parts[p][s][1].append((self._beyond(pins, pins, s), seconds / self.unit_s))
        plain = self.variant.transfers is Transfers.BLOCKING and passes == 1
        if plain and self.problem.contiguity is Contiguity.NONE and not self.problem.pins:
            free = self.contracted.supported & (self._roomy() | (self.nbytes == 0))
            free[list(directed)] = False
            weights = {pins: seconds for (_, pins), seconds in nets.items()}
            self.leader = leaders(weights, self.contracted.acc_s, free)
            for a, b in enumerate(self.leader):
                for s in self.accelerator_slots if a != b else ():
                    self.model.row([(self.x[a][s], 1.0), (self.x[b][s], -1.0)], least=0.0)

    def _beyond(self, inside: tuple[int, ...], outside: tuple[int, ...], slot: int) -> int:
        """A variable that is 1 if one of ``inside`` is in the slot and one of ``outside`` is not."""
        model, x = self.model, self.x
        result = model.variable()
        if len(inside) == 1 or len(outside) == 1 or len(inside) * len(outside) <= 4:
            for a in inside:
                for b in outside:
                    if a != b:
                        model.row([(result, 1.0), (x[a][slot], -1.0), (x[b][slot], 1.0)], least=0.0)
        else:
            highest = model.variable()
            for a in inside:
                model.row([(highest, 1.0), (x[a][slot], -1.0)], least=0.0)
            for b in outside:
                model.row([(result, 1.0), (highest, -1.0), (x[b][slot], 1.0)], least=0.0)
            self._values.append(
                lambda slots, values: values.__setitem__(highest, float((slots[list(inside)] == slot).any()))
            )
        self._values.append(
            lambda slots, values: values.__setitem__(
                result, float((slots[list(inside)] == slot).any() and (slots[list(outside)] != slot).any())
            )
        )
        return result

    def _chain_of(self, device_of: Sequence[int]) -> Ints | None:
        devices = sorted(set(device_of))
        after: list[set[int]] = [set() for _ in devices]
        for u, v in self.contracted.shape.edges:
            if device_of[u] != device_of[v]:
                after[devices.index(device_of[u])].add(devices.index(device_of[v]))
        order = topological_order([sorted(targets) for targets in after])
        if len(order) < len(devices):
            return None
        slot_of, slot = {}, -1
        for number in order:
            cpu = self.problem.cluster.devices[devices[number]].is_cpu
            slot = next(s for s in range(slot + 1, len(self.on_cpu)) if self.on_cpu[s] == cpu)
            slot_of[devices[number]] = slot
        return np.array([slot_of[device] for device in device_of], np.int64)


def _chain_slots(problem: Problem) -> list[bool]:
    """For every slot of a chain whether it is a CPU's."""
    cpus = [True] * len(problem.cluster.cpus)
    slots = list(cpus)
    for _ in problem.cluster.accelerators:
        slots += [False, *cpus]
    return slots


def _interchangeable(problem: Problem) -> list[list[int]]:
    """Accelerators with equal memory to which nothing is pinned, in classes of two or more."""
    pinned = set(problem.pins.values())
    classes: dict[float, list[int]] = {}
    for device in problem.cluster.accelerators:
        if device not in pinned:
            classes.setdefault(problem.cluster.devices[device].memory_bytes, []).append(device)
    return [devices for devices in classes.values() if len(devices) > 1]
