"""How unevenly a mixture's tokens choose its experts, by a file of counts: experts are packed on a group's devices."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.json_text import file_bytes, parse_json
from solvers.noncontiguous.expert_packing import pack_experts

MOST_LAYERS, MOST_EXPERTS = 1024, 4096
MOST_BYTES = 2**24
STEPS = 20_000
"""Of the search for a packing, a layer."""


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """Of the busiest device of a group, over the mean of its devices, in the layer where that is most.

    load: as experts are packed by their counts. bound: no packing has less. in_order: as they follow one another.
    devices, slots: of the group, and experts of each.
    """

    load: float
    bound: float
    in_order: float
    devices: int
    slots: int

    @property
    def stated(self) -> float:
        """The load as a model's name states it."""
        return math.ceil(self.load * 1e4 - 1e-6) / 1e4

    @property
    def line(self) -> str:
        """For people."""
        best = self.load <= self.bound * (1 + 1e-9)
        proved = "no packing has less" if best else f"no packing has less than {self.bound:.3g}"
        return (
            f"experts are packed by their counts, {self.slots} on each of {self.devices} devices: the busiest has"
            f" {self.load:.3g} times the mean, {proved}; in order it would have {self.in_order:.3g}"
        )


def expert_load_of(path: str, devices: int) -> ExpertLoad:
    """The load of a group whose experts were counted in a file: a JSON list of tokens by expert, or one for each layer.

    devices: of the group. Raises InvalidProblem in one line.
    """
    layers = _layers(Field(parse_json(file_bytes(path, MOST_BYTES), path), path))
    if len({len(layer) for layer in layers}) > 1:
        raise InvalidProblem(f"{path}: layers have different numbers of experts; give one file of those that are alike")
    experts = len(layers[0])
    if experts % devices:
        raise InvalidProblem(f"{path}: {experts} experts cannot be divided over {devices} devices (--expert-parallel)")
    loads = [_packed(layer, devices) for layer in layers]
    return max(loads, key=lambda one: one.load)


def _layers(field: Field) -> list[list[float]]:
    rows = list(field.items(max(MOST_LAYERS, MOST_EXPERTS)))
    if not rows:
        field.refuse("tokens of each expert, or of each layer's experts")
    if isinstance(rows[0].value, list):
        layers = [[item.number() for item in row.items(MOST_EXPERTS)] for row in rows[:MOST_LAYERS]]
    else:
        layers = [[item.number() for item in rows]]
    if any(not math.fsum(layer) for layer in layers):
        field.refuse("tokens of each expert, not all of them 0")
    return layers


def _packed(counts: list[float], devices: int) -> ExpertLoad:
    slots = len(counts) // devices
    packing = pack_experts(counts, devices, slots, STEPS)
    mean = math.fsum(counts) / devices
    in_order = max(math.fsum(counts[at * slots : (at + 1) * slots]) for at in range(devices))
    return ExpertLoad(packing.load / mean, packing.bound / mean, in_order / mean, devices, slots)
