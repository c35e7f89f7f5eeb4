"""Max-load as an integer program on super-operators and messages (Tarnawski et al., NeurIPS 2020, section 5.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.variants import Variant
from solvers.kernels.arrays import Ints
from solvers.noncontiguous.followers import by_leader, leaders
from solvers.noncontiguous.slots import Order, costs_of, slots_of, taken
from solvers.plan.segments import Place
from solvers.problem.graph import labels_after, topological_order
from solvers.problem.problem import Contiguity, Transfers
from solvers.programs.scaled_model import ScaledModel, Term, classes_of, new_numbers

Expression = list[Term]
"""Variables and their coefficients."""

CAP_SLACK = 1e-9
"""Relative excess over a memory cap that is rounding, as in `evaluate`."""


class MaxLoadModel(ScaledModel[Ints]):
    """The integer program of one problem at one micro-batch size, and its reading of placements.

    A super-operator v is in slot s (`slots_of`) where ``x[v][s]`` is 1. Without contiguity, and for CONVEX, slots
    are the devices, or, with replicas, groups of so many devices of a class. For ACYCLIC they are places in the
    chain, which must not descend along forward edges; with ``order`` those of a chain that goes through the
    accelerators in this order. Where slots have more devices than there are, ``used[s]`` says which of them count.

    Communication needs no variables on CPUs, one per slot for a net of two pins, two for a larger
    one, and where links between hosts are slower one more for a message that leaves the host.
    Interchangeable slots: the i-th heaviest super-operator is in the first i + 1 of them.
    Memory counts what `costs_of` says of so many micro-batches in flight.
    """

    def __init__(
        self,
        condensed: Condensed,
        contracted: Contracted,
        variant: Variant,
        typical_s: float,
        flights: int = 0,
        order: Order | None = None,
    ) -> None:
        super().__init__(typical_s)
        self.problem, self.contracted, self.variant = condensed.problem, contracted, variant
        self.chain = self.problem.contiguity is Contiguity.ACYCLIC
        self.slots = [
            slot
            for slot in slots_of(self.problem, variant.replicas, order)
            if self.problem.can_share(contracted.samples, slot.replicas)
        ]
        self.costs = costs_of(condensed, contracted, variant, self.slots, flights)
        self.on_cpu = [slot.on_cpu for slot in self.slots]
        self.accelerator_slots = [s for s, cpu in enumerate(self.on_cpu) if not cpu]
        self.leader = list(range(len(contracted)))
        self.peaks = [self.model.variable(0.0, math.inf, cost=1.0) for _ in range(variant.passes)]
        exchangeable = [] if self.chain else self.accelerator_slots
        self.classes = classes_of({s: (self.slots[s].devices, self.slots[s].replicas) for s in exchangeable})
        self.heaviest = np.argsort(-contracted.acc_s, kind="stable")
        self.x = self.placed(self._allowed(), self.classes, np.argsort(self.heaviest).tolist())
        self.on_fill(self._fill_placed)
        self.used = self._used()
        self._memory()
        if self.chain:
            self._ascending()
        elif self.problem.contiguity is Contiguity.CONVEX:
            edges = sorted(contracted.shape.edges, key=lambda edge: edge[1])  # numbers are topological
            self.convex(self.x, edges, lambda slots: slots.tolist())
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
            for slot, costs in enumerate(self.costs):
                if costs.seconds[:, v].sum() > most_s:
                    self.model.upper[row[slot]] = 0.0
        for slot, peak, _, lane in self.lanes if most < math.inf else ():
            if slot in self.used:  # nothing without being used
                self.model.row([(self.used[slot], -min(most, self.model.upper[peak])), *lane], most=0.0)

    def slots_of(self, values: Sequence[float]) -> Ints:
        """The slot of every super-operator in a solution."""
        return np.array([max(range(len(row)), key=lambda s: values[row[s]]) for row in self.x], np.int64)

    def placement(self, slots: Ints) -> list[Place]:
        """The devices of every operator of the graph."""
        free = list(range(len(self.problem.cluster)))
        fixed = not self.chain and self.variant.replicas == 1  # slots are devices
        place = {s: (s,) if fixed else taken(self.slots[s], free) for s in sorted(set(slots.tolist()))}
        return self.contracted.shape.placement(place[slot] for slot in slots.tolist())

    def slots_for(self, places: Sequence[Place]) -> Ints | None:
        """The slots of a placement, interchangeable ones renumbered as the model wants them; None if its chain
        is not one, or it has devices together that no slot has. places: [super-operators]."""
        if self.chain:
            return self._chain_of(places)
        places = self._following(places)
        if self.variant.replicas == 1:
            if any(len(place) > 1 for place in places):
                return None
            slot_of = {place: place[0] for place in places}
        else:
            slot_of, free = {}, list(range(len(self.slots)))
            for place in dict.fromkeys(places):
                slot = next((s for s in free if self._holds(s, place)), None)
                if slot is None:
                    return None
                slot_of[place] = slot
                free.remove(slot)
        slots = [slot_of[place] for place in places]
        new = new_numbers(slots, self.heaviest.tolist(), self.classes)
        return np.array([new.get(slot, slot) for slot in slots], np.int64)

    def _holds(self, slot: int, place: Place) -> bool:
        return len(place) == self.slots[slot].replicas and set(place) <= set(self.slots[slot].devices)

    def _following(self, places: Sequence[Place]) -> list[Place]:
        """The placement after every follower has joined its leader on an accelerator: no load is larger."""
        moved, devices = list(places), self.problem.cluster.devices
        for a in by_leader(self.leader):
            if not devices[moved[self.leader[a]][0]].is_cpu:
                moved[a] = moved[self.leader[a]]
        return moved

    def objective_s(self, values: Sequence[float]) -> float:
        return self.model.objective_at(values) * self.unit_s

    # ---------------------------------------------------------------- rows

    def _allowed(self) -> list[list[bool]]:
        """Whether every super-operator may be in each slot."""
        pins = self.problem.pins
        pinned = [{pins[o] for o in members if o in pins} for members in self.contracted.shape.members]
        return [
            [
                bool(np.isfinite(costs.seconds[:, v]).all())
                and all(slot.devices == (device,) for device in devices)
                and bool(costs.nbytes[v] <= costs.cap * (1 + CAP_SLACK))
                for slot, costs in zip(self.slots, self.costs, strict=True)
            ]
            for v, devices in enumerate(pinned)
        ]

    def _fill_placed(self, slots: Ints, values: list[float]) -> None:
        for row, slot in zip(self.x, slots.tolist(), strict=True):
            values[row[slot]] = 1.0

    def _used(self) -> dict[int, int]:
        """used[s], whether anything may be in a slot, where not all of them may be used: of every class no more
        devices than it has, and in a chain one slot a position, from the first on."""
        model = self.model
        on: dict[tuple[int, ...], list[int]] = {}
        for s, slot in enumerate(self.slots):
            on.setdefault(slot.devices, []).append(s)
        used: dict[int, int] = {}
        for devices, slots in on.items():
            if sum(self.slots[s].replicas for s in slots) <= len(devices):
                continue
            used |= {s: model.binary() for s in slots}
            model.row([(used[s], float(self.slots[s].replicas)) for s in slots], most=float(len(devices)))
        for s, variable in used.items():
            for row in self.x:
                model.row([(variable, 1.0), (row[s], -1.0)], least=0.0)
        if self.chain:
            at: dict[int, list[int]] = {}
            for s in self.accelerator_slots:
                if s in used:
                    at.setdefault(self.slots[s].position, []).append(used[s])
            for position, slots in at.items():
                model.row([(variable, 1.0) for variable in slots], most=1.0)
                if position - 1 in at:
                    before = [(variable, 1.0) for variable in at[position - 1]]
                    model.row(before + [(variable, -1.0) for variable in slots], least=0.0)

        def fill(slots: Ints, values: list[float]) -> None:
            for slot in set(slots.tolist()) & set(used):
                values[used[slot]] = 1.0

        self.on_fill(fill)
        return used

    def _memory(self) -> None:
        for s, costs in enumerate(self.costs):
            if costs.nbytes.sum() > costs.cap > 0:
                terms = [(self.x[v][s], held / costs.cap) for v, held in enumerate(costs.nbytes.tolist()) if held > 0]
                self.model.row(terms, most=1 + CAP_SLACK)

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

        def fill(slots: Ints, values: list[float]) -> None:
            for v, slot in enumerate(slots.tolist()):
                for s in range(slot, last):
                    values[y[v][s]] = 1.0

        self.on_fill(fill)

    def _loads(self) -> None:
        """The largest load of each pass, as the transfer model has it."""
        sent, received = self._transfers()
        self.lanes: list[tuple[int, int, int, Expression]] = []
        """(slot, peak, number of the lane, what keeps it busy), of every pass."""
        for p, peak in enumerate(self.peaks):
            for s, costs in enumerate(self.costs):
                compute = [
                    (self.x[v][s], seconds / self.unit_s)
                    for v, seconds in enumerate(costs.seconds[p].tolist())
                    if 0 < seconds < math.inf
                ]
                if self.variant.transfers is Transfers.DUPLEX:
                    lanes = [compute, sent[p][s], received[p][s]]
                elif self.variant.transfers is Transfers.LANE:
                    lanes = [compute, sent[p][s] + received[p][s]]
                else:
                    lanes = [compute + sent[p][s] + received[p][s]]
                self.lanes += [(s, peak, number, lane) for number, lane in enumerate(lanes) if lane]
        for _, peak, _, lane in self.lanes:
            self.model.row([(peak, 1.0), *((v, -c) for v, c in lane)], least=0.0)
        self._together()

        def fill(_: Ints, values: list[float]) -> None:
            for _slot, peak, _number, lane in self.lanes:
                values[peak] = max(values[peak], math.fsum(c * values[v] for v, c in lane))

        self.on_fill(fill)

    def _together(self) -> None:
        """The devices of a class have no more to do than so many at the peak: implied where each is a slot, but not
        where slots are parts of what they stand for."""
        total: dict[tuple[tuple[int, ...], int, int], Expression] = {}
        for s, peak, number, lane in self.lanes:
            if s in self.used:
                terms = total.setdefault((self.slots[s].devices, peak, number), [])
                terms += [(variable, self.slots[s].replicas * c) for variable, c in lane]
        for (devices, peak, _), terms in total.items():
            self.model.row([(peak, float(len(devices))), *((v, -c) for v, c in terms)], least=0.0)

    def _transfers(self) -> tuple[list[list[Expression]], list[list[Expression]]]:
        """What each device of a slot sends and receives in each pass, as variables with their time, [passes][slots]."""
        traffic, passes = self.contracted.traffic, self.variant.passes
        sent: list[list[Expression]] = [[[] for _ in self.slots] for _ in range(passes)]
        received: list[list[Expression]] = [[[] for _ in self.slots] for _ in range(passes)]
        nets: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        directed: set[int] = set()
        duplex, slowest_s = self.variant.transfers is Transfers.DUPLEX, self.contracted.message_s
        for message in range(len(traffic)):
            makers, readers = tuple(traffic.makers[message].tolist()), tuple(traffic.readers[message].tolist())
            p = int(traffic.backward[message]) if passes == 2 else 0
            pins = tuple(sorted({*makers, *readers}))
            if math.isinf(slowest_s[message]):  # no link could carry it
                for s in range(len(self.slots)):
                    for v in pins[1:]:
                        self.model.row([(self.x[v][s], 1.0), (self.x[pins[0]][s], -1.0)], 0.0, 0.0)
                continue
            if slowest_s[message] == 0:
                continue
            if not duplex and (len(makers) == 1 or len(readers) == 1):
                # A device pays for it exactly if its set splits the pins: whether it sends or receives is all one.
                nets.setdefault((p, pins), []).append(message)
            else:
                directed.update(pins)
                for s in self.accelerator_slots:
                    seconds = self.costs[s].message_s[message] / self.unit_s
                    sent[p][s].append((self._beyond(makers, readers, (s,), s), seconds))
                    received[p][s].append((self._beyond(readers, makers, (s,), s), seconds))
            self._to_other_hosts(message, makers, readers, sent[p], received[p])
        for (p, pins), messages in nets.items():
            for s in self.accelerator_slots:
                seconds = self.costs[s].message_s[messages].sum() / self.unit_s
                sent[p][s].append((self._beyond(pins, pins, (s,), s), seconds))
        self._synchronised(sent[-1])
        kinds = {d.kind for d in self.problem.cluster.devices if not d.is_cpu}
        plain = self.variant.transfers is Transfers.BLOCKING and passes == self.variant.replicas == 1
        plain &= self.problem.transfers_alike and len(kinds) <= 1
        if plain and self.problem.contiguity is Contiguity.NONE and not self.problem.pins:
            any_holds_all = all(costs.nbytes.sum() <= costs.cap for costs in self.costs)
            free = self.contracted.supported & (any_holds_all | (self.costs[0].nbytes == 0))
            free[list(directed)] = False
            weights = {pins: float(slowest_s[messages].sum()) for (_, pins), messages in nets.items()}
            self.leader = leaders(weights, self.contracted.acc_s, free)
            for a, b in enumerate(self.leader):
                for s in self.accelerator_slots if a != b else ():
                    self.model.row([(self.x[a][s], 1.0), (self.x[b][s], -1.0)], least=0.0)
        return sent, received

    def _to_other_hosts(
        self,
        message: int,
        makers: tuple[int, ...],
        readers: tuple[int, ...],
        sent: list[Expression],
        received: list[Expression],
    ) -> None:
        """What a message takes longer in each slot if it goes to another host, or comes from one."""
        if not any(costs.far_s[message] > 0 for costs in self.costs):
            return
        node = np.array([self.problem.cluster.devices[slot.devices[0]].node for slot in self.slots])
        for s in self.accelerator_slots:
            seconds = self.costs[s].far_s[message] / self.unit_s
            host = tuple(np.flatnonzero(node == node[s]).tolist())
            sent[s].append((self._beyond(makers, readers, host, s), seconds))
            received[s].append((self._beyond(readers, makers, host, s), seconds))

    def _synchronised(self, sent: list[Expression]) -> None:
        """Gradients that replicas add up: once for all of a slot, and for every byte."""
        for s, costs in enumerate(self.costs):
            owners = [v for v, nbytes in enumerate(self.contracted.param_bytes.tolist()) if nbytes > 0]
            if self.slots[s].replicas == 1 or not owners:
                continue
            if math.isinf(costs.sync_s_per_byte):  # no link to add them up over
                for v in owners:
                    self.model.upper[self.x[v][s]] = 0.0
                continue
            for v in owners:
                seconds = costs.sync_s_per_byte * float(self.contracted.param_bytes[v])
                sent[s].append((self.x[v][s], seconds / self.unit_s))
            if costs.sync_s > 0:
                sent[s].append((self._any(owners, s), costs.sync_s / self.unit_s))

    def _any(self, inside: Sequence[int], slot: int) -> int:
        """A variable that is 1 if one of ``inside`` is in the slot."""
        result = self.model.variable()
        for v in inside:
            self.model.row([(result, 1.0), (self.x[v][slot], -1.0)], least=0.0)
        self.on_fill(lambda slots, values: values.__setitem__(result, float((slots[list(inside)] == slot).any())))
        return result

    def _beyond(self, inside: tuple[int, ...], outside: tuple[int, ...], around: tuple[int, ...], slot: int) -> int:
        """A variable that is 1 if one of ``inside`` is in the slot and one of ``outside`` in none of ``around``."""
        model, x = self.model, self.x
        result = model.variable()
        if len(inside) == 1 or len(outside) == 1 or len(inside) * len(outside) <= 4:
            for a in inside:
                for b in outside:
                    if a != b:
                        model.row([(result, 1.0), (x[a][slot], -1.0), *((x[b][s], 1.0) for s in around)], least=0.0)
        else:
            within = self._any(inside, slot)
            for b in outside:
                model.row([(result, 1.0), (within, -1.0), *((x[b][s], 1.0) for s in around)], least=0.0)
        self.on_fill(
            lambda slots, values: values.__setitem__(
                result,
                float((slots[list(inside)] == slot).any() and not np.isin(slots[list(outside)], around).all()),
            )
        )
        return result

    def _chain_of(self, places: Sequence[Place]) -> Ints | None:
        used = sorted(set(places))
        label = [used.index(place) for place in places]
        order = topological_order(labels_after(self.contracted.shape.edges, label, len(used)))
        if len(order) < len(used):
            return None
        slot_of: dict[Place, int] = {}
        slot, position = -1, 0
        for number in order:
            place = used[number]
            least = 0 if self.problem.cluster.devices[place[0]].is_cpu else position
            slot = next(
                (
                    s
                    for s in range(slot + 1, len(self.slots))
                    if self._holds(s, place) and self.slots[s].position >= least
                ),
                -1,
            )
            if slot < 0:
                return None
            slot_of[place] = slot
            position = self.slots[slot].position + (not self.on_cpu[slot])
        return np.array([slot_of[place] for place in places], np.int64)
