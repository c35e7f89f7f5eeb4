"""Which single operators of a plan become one segment, so that nothing is lost by it. No torch here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.runner.scripts.channels import routes
from solvers.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Atom:
    """What the plan runs as a unit: a stage, or one forward operator of it with its mirrors."""

    stage: int
    operators: tuple[int, ...]
    devices: tuple[int, ...]
    size: int
    recompute: bool
    single: bool
    offload: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """An action of an atom in the order of a device; kind as in `solvers.plan.plan.Action`."""

    atom: int
    kind: str
    micro_batch: int


def joined(
    problem: Problem,
    atoms: Sequence[Atom],
    items: Sequence[Sequence[Item]],
    unordered: frozenset[int],
    gradients: Sequence[frozenset[int]],
) -> list[list[int]]:
    """Atoms that become one segment each, every group in the order of its device.

    Single operators are joined where their forwards follow one another directly, nothing that the former
    makes leaves the device and nothing that the latter reads comes from another. Their backwards must follow one
    another directly too, all of them, or those of inputs and those of parameters apart; a gradient from another
    device must be awaited by the first of them, and one for another device made by the last: so no message
    is sent later than in the order given. Updates may move: nobody waits for them.
    """
    crossing = _Crossing(problem, atoms, gradients)
    groups: list[list[int]] = []
    taken: set[int] = set()
    for device, of_device in enumerate(items):
        if device in unordered:
            continue
        sequence = [item for item in of_device if item.kind != "U"]
        places: dict[int, dict[str, int]] = defaultdict(dict)
        for position, item in enumerate(sequence):
            places[item.atom][item.kind] = position
        start = 0
        while start < len(sequence):
            atom = sequence[start].atom
            if sequence[start].kind != "F" or not _alone(atoms[atom]):
                start += 1
                continue
            group = _longest(atoms, sequence, start, places, crossing)
            groups.append(group)
            taken.update(group)
            start += len(group)
    groups += [[atom] for atom in range(len(atoms)) if atom not in taken]
    return sorted(groups, key=min)


def _alone(atom: Atom) -> bool:
    return atom.single and len(atom.devices) == 1


class _Crossing:
    """Which atoms send to other devices, and which read from others; the same of gradients, which go back."""

    def __init__(self, problem: Problem, atoms: Sequence[Atom], gradients: Sequence[frozenset[int]]) -> None:
        self.sends: set[int] = set()
        self.reads: set[int] = set()
        self.awaits_gradient: set[int] = set()
        self.returns_gradient: set[int] = set()
        devices = [atom.devices for atom in atoms]
        for route in routes(problem.graph, [atom.operators for atom in atoms], devices):
            if devices[route.source] == devices[route.reader]:
                continue
            self.sends.add(route.source)
            self.reads.add(route.reader)
            if route.tensor < len(gradients) and not gradients[route.tensor].isdisjoint(route.consumers):
                self.awaits_gradient.add(route.source)
                self.returns_gradient.add(route.reader)


@dataclass(slots=True)
class _Block:
    """Positions in the order of a device."""

    low: int = 1 << 60
    high: int = -1
    count: int = 0

    def add(self, position: int) -> None:
        self.low, self.high, self.count = min(self.low, position), max(self.high, position), self.count + 1

    @property
    def unbroken(self) -> bool:
        """Whether nothing else stands between them."""
        return self.count == 0 or self.high - self.low + 1 == self.count


def _longest(
    atoms: Sequence[Atom],
    sequence: Sequence[Item],
    start: int,
    places: dict[int, dict[str, int]],
    crossing: _Crossing,
) -> list[int]:
    """The longest run of atoms from ``start`` on that can be joined."""
    first = sequence[start].atom
    run: list[int] = []
    best = 1
    inputs, weights, every = _Block(), _Block(), _Block()
    for item in sequence[start:]:
        if item.kind != "F" or (run and not _follows(atoms, run[-1], item.atom, crossing)):
            break
        run.append(item.atom)
        positions = {kind: place for kind, place in places[item.atom].items() if kind != "F"}
        for kind, place in positions.items():
            (inputs if kind == "I" else weights).add(place)
            every.add(place)
        in_two_parts = inputs.unbroken and weights.unbroken
        awaited_first = item.atom not in crossing.awaits_gradient or min(positions.values()) == every.low
        returned_last = first not in crossing.returns_gradient or places[first]["I"] == inputs.high
        if (every.unbroken or in_two_parts) and awaited_first and returned_last:
            best = len(run)
    return run[:best]


def _follows(atoms: Sequence[Atom], before: int, atom: int, crossing: _Crossing) -> bool:
    """Whether the forward of ``atom`` may be part of the call that ``before`` is in."""
    a, b = atoms[before], atoms[atom]
    traits = [(atom.devices, atom.size, atom.recompute) for atom in (a, b)]
    alike = _alone(b) and traits[0] == traits[1]
    return alike and before not in crossing.sends and atom not in crossing.reads
