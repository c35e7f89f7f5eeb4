"""Which operator holds a parameter, and which operators must therefore share a device.

Buffers (running statistics, constant masks, tables of angles) are distinguished: they have no gradients and no
optimizer states. The first operator that reads one holds it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx

from explorer.tracing.captured import Captured, Value
from explorer.tracing.fold import Folded


@dataclass(frozen=True, slots=True)
class Parameters:
    """owned: bytes held, by operator: the first operator that reads a parameter owns it. frozen: those of them
    that are not trained, where others are. factorable: by how much sums by row and by column of the trained ones
    are smaller than they. buffers: bytes held of buffers and constant tensors.

    weights: by operator, the trainable parameters it reads, as owner -> bytes.
    colocation: operator -> group name, for operators that read a common parameter.
    """

    owned: tuple[float, ...]
    frozen: tuple[float, ...]
    factorable: tuple[float, ...]
    buffers: tuple[float, ...]
    weights: tuple[Mapping[int, float], ...]
    colocation: Mapping[int, str]
    notes: tuple[str, ...]


def parameters(captured: Captured, folded: Folded) -> Parameters:
    """Who owns, who reads, who stays together."""
    readers: dict[str, list[int]] = defaultdict(list)
    for group, members in enumerate(folded.groups):
        read = {captured.root(name) for position in members for _, name in captured.nodes[position].tensors}
        for parameter in sorted(read & captured.parameters.keys()):
            readers[parameter].append(group)
    owned = [0.0] * len(folded.groups)
    frozen = [0.0] * len(folded.groups)
    factorable = [0.0] * len(folded.groups)
    trains = any(captured.values[parameter].requires_grad for parameter in readers)
    weights: list[dict[int, float]] = [{} for _ in folded.groups]
    for parameter, groups in readers.items():
        value, owner = captured.values[parameter], groups[0]
        owned[owner] += value.nbytes
        if value.requires_grad:
            factorable[owner] += _factorable(value)
            for group in groups:
                weights[group][owner] = weights[group].get(owner, 0.0) + value.nbytes
        elif trains:
            frozen[owner] += value.nbytes
    together, notes = _together(captured, readers), tuple(_notes(captured, readers))
    buffers = _buffers(captured, folded)
    return Parameters(tuple(owned), tuple(frozen), tuple(factorable), buffers, tuple(weights), together, notes)


def _buffers(captured: Captured, folded: Folded) -> tuple[float, ...]:
    """Bytes of buffers and constant tensors of each operator: those that it is the first to read."""
    held, left = [0.0] * len(folded.groups), set(captured.buffers)
    for group, members in enumerate(folded.groups):
        read = {captured.root(name) for position in members for _, name in captured.nodes[position].tensors}
        held[group] += sum(captured.values[buffer].nbytes for buffer in read & left)
        left -= read
    return tuple(held)


def _factorable(value: Value) -> float:
    """Bytes by which Adafactor's sums over the last dimension and over the last but one are smaller than a parameter
    (Shazeer and Stern, ICML 2018, section 3; `torch.optim.Adafactor`); none of a vector."""
    entries = math.prod(value.shape)
    if len(value.shape) < 2 or not entries:
        return 0.0
    sums = entries // value.shape[-1] + entries // value.shape[-2]
    return value.nbytes * max(entries - sums, 0) / entries


def _together(captured: Captured, readers: Mapping[str, list[int]]) -> dict[int, str]:
    graph: nx.Graph[int] = nx.Graph()
    label: dict[int, str] = {}
    for parameter, groups in readers.items():
        if len(groups) > 1:
            nx.add_path(graph, groups)
            label.setdefault(groups[0], captured.parameters[parameter])
    colocation: dict[int, str] = {}
    for part in nx.connected_components(graph):
        name = next(label[group] for group in sorted(part) if group in label)
        colocation.update(dict.fromkeys(part, name))
    return colocation


def _notes(captured: Captured, readers: Mapping[str, list[int]]) -> list[str]:
    notes = []
    reused = []
    for parameter, groups in readers.items():
        name = captured.parameters[parameter]
        if " = " in name:
            notes.append(f"tied parameter: {name}; its {len(groups)} operators share a device")
        elif len(groups) > 1:
            reused.append(name)
    if reused:
        are = "parameter is read" if len(reused) == 1 else "parameters are each read"
        notes.append(f"{len(reused)} {are} by several operators, which share a device ({_some(reused)})")
    unused = [captured.parameters[parameter] for parameter in captured.parameters if parameter not in readers]
    if unused:
        are = "parameter is" if len(unused) == 1 else "parameters are"
        notes.append(f"{len(unused)} {are} read by no operator and counted nowhere ({_some(unused)})")
    frozen = [captured.values[parameter] for parameter in readers if not captured.values[parameter].requires_grad]
    if frozen and len(frozen) < len(readers):
        are = "parameter is" if len(frozen) == 1 else "parameters are"
        held, total = (sum(v.nbytes for v in some) for some in (frozen, [captured.values[p] for p in readers]))
        notes.append(
            f"{len(frozen)} {are} frozen ({held:,} of {total:,} bytes): held without gradients and optimizer states"
        )
    return notes


def _some(names: list[str]) -> str:
    """The first two."""
    return ", ".join(names[:2]) + (", ..." if len(names) > 2 else "")
