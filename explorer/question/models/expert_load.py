"""How unevenly a mixture's tokens choose its experts, by a file of counts: experts are packed on a group's devices."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from explorer.question.models.example import Example
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.json_text import file_bytes, parse_json
from solvers.formats.workload import Workload
from solvers.noncontiguous.expert_packing import check_redundant, pack_experts
from solvers.problem.collectives import Division, by_expert

MOST_LAYERS, MOST_EXPERTS = 1024, 4096
MOST_BYTES = 2**24
STEPS = 20_000
"""Of the search for a packing, a layer."""


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """Of the busiest device of a group, over the mean of its devices, each in the layer where it is most.

    load: as experts are packed by their counts. bound: no packing has less. otherwise: as experts follow one another,
    or packed without redundant ones where there are such; None where they cannot be. devices, slots: of the group, and
    experts of each. redundant: replicas beyond the first of each expert.
    """

    load: float
    bound: float
    otherwise: float | None
    devices: int
    slots: int
    redundant: int = 0

    @property
    def stated(self) -> float:
        """The load as a model's name states it."""
        return math.ceil(self.load * 1e4 - 1e-6) / 1e4

    def noted(self, workload: Workload) -> Workload:
        """A model that is divided by it, with a note of it. Raises InvalidProblem for one with other experts."""
        counted, division = self.slots * self.devices - self.redundant, workload.graph.division
        for experts in () if division is None else experts_of(division) | experts_of(division.outer or division):
            if experts != counted:
                raise InvalidProblem(
                    f"{workload.graph.name}: it has mixtures of {experts} experts, and the file (--expert-load) counts"
                    f" {counted}; give one of the model's experts"
                )
        return replace(workload, notes=(*workload.notes, self.line))

    @property
    def line(self) -> str:
        """For people."""
        best = self.load <= self.bound * (1 + 1e-9)
        proved = "no packing has less" if best else f"no packing has less than {self.bound:.5g}"
        how = f"{self.slots} on each of {self.devices} devices"
        other = "in order"
        if self.redundant:
            how, other = f"{how}, {self.redundant} of them redundant", "without redundant ones"
        would = "" if self.otherwise is None else f"; {other} it would have {self.otherwise:.5g}"
        busiest = f"the busiest has {self.load:.5g} times the mean"
        return f"experts are packed by their counts, {how}: {busiest}, {proved}{would}"


def experts_of(division: Division) -> set[int]:
    """How many experts the mixtures have that are divided by expert."""
    tensors = division.tensors
    return {
        tensors[call.inputs[1]].shape[0]
        for call in division.calls
        if "grouped_mm" in call.target and tensors[call.outputs[0]].placement == by_expert(0)
    }


def load_of(example: Example, stated: float | str | None) -> tuple[float | None, ExpertLoad | None]:
    """The load of the busiest device of the groups that an example asks for, as it is stated, or as experts are packed
    by a file of counts; and that packing. Raises InvalidProblem."""
    redundant, devices = example.redundant_experts or 0, example.devices_of_experts
    if isinstance(stated, str):
        if devices == 1:
            raise InvalidProblem("--expert-load is of the devices of a group; add --expert-parallel N")
        packing = expert_load_of(stated, devices, redundant)
        return packing.stated, packing
    if stated is not None and redundant:
        raise InvalidProblem(
            f"--expert-load {stated:g} does not say which experts are chosen most, of which --redundant-experts are"
            " replicas; give a file of counts, a JSON list of tokens by expert"
        )
    return stated, None


def expert_load_of(path: str, devices: int, redundant: int = 0) -> ExpertLoad:
    """The load of a group whose experts were counted in a file: a JSON list of tokens by expert, or one for each layer.

    devices: of the group.
    redundant: replicas beyond the first of each expert, in every layer.

    Raises InvalidProblem in one line.
    """
    layers = _layers(Field(parse_json(file_bytes(path, MOST_BYTES), path), path))
    if len({len(layer) for layer in layers}) > 1:
        raise InvalidProblem(f"{path}: layers have different numbers of experts; give one file of those that are alike")
    experts = len(layers[0])
    check_redundant(path, experts, redundant, devices)
    loads = [_packed(layer, devices, redundant) for layer in layers]
    others = [one.otherwise for one in loads if one.otherwise is not None]
    return replace(
        loads[0],
        load=max(one.load for one in loads),
        bound=max(one.bound for one in loads),
        otherwise=max(others, default=None),
    )


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


def _packed(counts: list[float], devices: int, redundant: int) -> ExpertLoad:
    slots = (len(counts) + redundant) // devices
    packing = pack_experts(counts, devices, slots, STEPS)
    mean = math.fsum(counts) / devices
    otherwise = None
    if not redundant:
        otherwise = max(math.fsum(counts[at * slots : (at + 1) * slots]) for at in range(devices)) / mean
    elif len(counts) % devices == 0:
        otherwise = pack_experts(counts, devices, len(counts) // devices, STEPS).load / mean
    return ExpertLoad(packing.load / mean, packing.bound / mean, otherwise, devices, slots, redundant)
