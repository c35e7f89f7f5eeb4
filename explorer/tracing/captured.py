"""A captured graph without torch: what an export, live or in a file, says about a model at one batch.

Both front ends make this (`capture` from a module, `pt2` from a file), and everything after is shared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from solvers.problem.collectives import Axis

ITEM_BYTES = {
    "float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16, "complex32": 4,
    "float32": 4, "int32": 4, "uint32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2,
    "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip
"""Bytes of one element of each torch dtype."""


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor of the graph.

    base is the value it is a view of (same storage), None if it owns its storage. strides are in
    elements. requires_grad is what autograd says (False everywhere in inference).
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    requires_grad: bool = False
    base: str | None = None

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * ITEM_BYTES.get(self.dtype, 4)

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith(("float", "bfloat", "complex"))


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a member of a tensor-parallel group sends for one call: bytes, and messages one after the other. Of the
    forward, of the backward, and once an iteration of gradients (whatever the batch)."""

    forward_bytes: float = 0.0
    forward_steps: int = 0
    backward_bytes: float = 0.0
    backward_steps: int = 0
    update_bytes: float = 0.0
    update_steps: int = 0


NO_EXCHANGE = Exchange()


@dataclass(frozen=True, slots=True)
class Node:
    """One call. target is like "aten.linear" (no overload); tensors are (argument name, value name)
    in the order of the call; constants are the other arguments by name; mutates names the values
    it writes into; region the part of the model that checkpoints its activations, "" for none; exchange what members
    of a tensor-parallel group send for it; placement what its first output is to them (`sharding.names`), "" where
    there is no group; members how many devices run it, where that differs from call to call, else 0; rounds how often
    a member runs it, one after the other, on tensors of these shapes (attention with keys that come round a ring);
    outer what a member exchanges along the outer axis of a group that is divided twice (`Captured.outer`); update_of
    the parameters of whose gradients it has a part, which members exchange once an iteration, of experts those that
    have replicas."""

    name: str
    target: str
    module_path: str
    tensors: tuple[tuple[str, str], ...]
    constants: Mapping[str, object]
    outputs: tuple[str, ...]
    mutates: tuple[str, ...] = ()
    region: str = ""
    exchange: Exchange = NO_EXCHANGE
    placement: str = ""
    members: int = 0
    rounds: int = 1
    outer: Exchange = NO_EXCHANGE
    update_of: tuple[str, ...] = ()

    def tensor(self, argument: str) -> str | None:
        """The name of the value passed as ``argument``, if one is."""
        return next((value for name, value in self.tensors if name == argument), None)


@dataclass(frozen=True, slots=True)
class Saved:
    """Bytes kept for the backward, saved first by node number ``node``; no bytes where another saved them before.

    value is the value whose storage it is, or None for a tensor made inside the operator (such as
    the statistics of a norm).
    """

    node: int
    value: str | None
    nbytes: int


@dataclass(frozen=True, slots=True)
class SavedWhole:
    """What node number ``node`` of a member saves for the backward, as the whole model has it. values: those that it
    reads or makes whose storages are saved, by it or before; nbytes: of what is made inside, all of it."""

    node: int
    values: tuple[str, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class Whole:
    """A value of which a member of a group has a part. shape: of all of it; placement: see
    `solvers.problem.collectives`; members: of how many, where that differs from value to value, else 0."""

    shape: tuple[int, ...]
    placement: str
    members: int = 0


@dataclass(frozen=True, slots=True)
class Captured:
    """A model at one batch: values by name, nodes in an order that runs, and what came from outside.

    parameters: value name -> the parameter's name in the module (several names joined by " = " when
    tied). inputs and outputs are value names; so are buffers (with constant tensors). whole: where it is what one
    member of a tensor-parallel group runs, what each value is a part of, and saved_whole what its nodes save; load: of
    the member whose experts are chosen most, over the mean; axis: what members divide. outer: of a model that is
    divided twice, what each of the groups runs whose members divide it again (its tensors are whole there), and how
    many groups divide the model; members of different groups that are alike exchange what those groups would.
    redundant: replicas of experts in every mixture beyond the first of each.
    """

    name: str
    samples: int
    values: Mapping[str, Value]
    nodes: tuple[Node, ...]
    parameters: Mapping[str, str]
    buffers: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    saved: tuple[Saved, ...] = ()
    notes: tuple[str, ...] = field(default=())
    whole: Mapping[str, Whole] = field(default_factory=dict)
    saved_whole: tuple[SavedWhole, ...] = ()
    load: float = 1.0
    axis: Axis = Axis.TENSOR
    outer: tuple[Captured, int] | None = None
    redundant: int = 0

    def root(self, value: str) -> str:
        """The value that owns the storage."""
        while (base := self.values[value].base) is not None:
            value = base
        return value

    def portion(self, value: str) -> str:
        """The part of the storage that ``value`` reads: itself or the nearest smaller-than-its-base view.

        Views that only rearrange or repeat are seen through; a slice is a portion of its own.
        """
        while (base := self.values[value].base) is not None and self.values[value].numel >= self.values[base].numel:
            value = base
        return value
