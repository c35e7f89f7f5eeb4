"""The operator graph: what there is to place. Ids are positions; sizes are SI units."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from solvers.errors import InvalidProblem
from solvers.problem.displayed import Displayed
from solvers.problem.names import clean_names
from solvers.problem.rebuilt import Rebuilt

if TYPE_CHECKING:
    from solvers.problem.collectives import Division


class Phase(StrEnum):
    """The part of a training step an operator belongs to."""

    FORWARD = "forward"
    BACKWARD_INPUT = "backward_input"
    BACKWARD_WEIGHT = "backward_weight"
    UPDATE = "update"


BACKWARD_PHASES = frozenset({Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT})


CACHED_ATTENTION = "kv_cache.scaled_dot_product_attention"
"""Type of an operator of attention that reads the keys and values of the tokens before from a KV cache, which is among
its buffers: of as many sequences as a mini-batch has."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity (bytes or FLOPs) that grows linearly with the number of samples."""

    fixed: float = 0.0
    per_sample: float = 0.0

    def at(self, samples: float) -> float:
        """The quantity for a (micro-)batch of ``samples``."""
        return self.fixed + self.per_sample * samples

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.fixed + other.fixed, self.per_sample + other.per_sample)


NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the model, in one phase.

    flops, moved_bytes (read + written in device memory), saved_bytes (kept from the forward until
    the backward of the same micro-batch) and workspace_bytes (held only while it runs) are for the
    number of samples at hand. param_bytes are the parameters the forward operator owns, and frozen_bytes those
    of them that are not trained: they have no gradient and no optimizer state. factorable_bytes: by how much the
    sums by row and by column of the trained ones are smaller than themselves: what Adafactor saves of its state.
    colocation names a group that must share a device. forward_of is the position of the forward
    operator that a backward or update operator mirrors. A replicable operator (cheap and
    parameter-free, such as a mask) may be copied into several stages. checkpoint names the region of which a forward
    operator is a part ("": none): of a region only what comes in is kept until the backward, which runs its forward
    again first (`solvers.problem.regions`). cached: what such an operator makes is kept too, and it does not run again.
    buffer_bytes: tensors of the module that it reads and that nobody trains (running statistics, masks, tables of
    angles), held by whoever runs it first of those that read them. gradient_sum_bytes: of gradients of its parameters
    that are added up apart, over several operators that read them, before they join those of earlier micro-batches;
    it follows from the tensors and from what is asked for (`solvers.problem.gradient_room`). causal: attention in which
    a token attends to those before it only: kernels leave out the blocks that the mask hides, half of ``flops``.
    exchanged_bytes: what each member of a tensor-parallel group sends to the next for this operator, and
    exchange_steps in how many messages, one after the other: the operator takes that long more. placement: what its
    output is to members of such a group, for people: "S(heads)", divided by heads, "R", whole at each, or "P", a sum of
    which each has a part; among inner groups first where there are two axes ("S(tokens), R"); of forward operators, ""
    without a group. members: how many devices a group has that runs it, where that differs from operator to operator; 0
    where it is the graph's. outer_bytes, outer_steps: what it exchanges along the outer axis of groups that divide the
    model twice, with its counterpart in the other inner groups.
    """

    name: str
    op_type: str = "operator"
    phase: Phase = Phase.FORWARD
    module_path: str = ""
    flops: Amount = NOTHING
    moved_bytes: Amount = NOTHING
    param_bytes: float = 0.0
    frozen_bytes: float = 0.0
    factorable_bytes: float = 0.0
    saved_bytes: Amount = NOTHING
    workspace_bytes: Amount = NOTHING
    colocation: str | None = None
    forward_of: int | None = None
    replicable: bool = False
    checkpoint: str = ""
    cached: bool = False
    buffer_bytes: float = 0.0
    gradient_sum_bytes: float = 0.0
    causal: bool = False
    exchanged_bytes: Amount = NOTHING
    exchange_steps: int = 0
    placement: str = ""
    members: int = 0
    outer_bytes: Amount = NOTHING
    outer_steps: int = 0

    def __post_init__(self) -> None:
        clean_names(self, "name", "op_type", "module_path", "colocation", "checkpoint", "placement")

    @property
    def exchanges(self) -> bool:
        """Whether members of a group send one another something for it."""
        return self.exchange_steps + self.outer_steps > 0

    @property
    def sent_bytes(self) -> Amount:
        """All that a member sends to others of its group."""
        return self.exchanged_bytes + self.outer_bytes if self.outer_steps else self.exchanged_bytes

    @property
    def trained_bytes(self) -> float:
        """Bytes of parameters that have a gradient, and of that gradient."""
        return self.param_bytes - self.frozen_bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """A hyperedge: the output of ``producer``, sent once to each device that has a consumer.

    A tensor of 0 bytes is an order constraint only. Partial gradients of one forward tensor carry
    the same ``sum_group`` (and the same consumers): they are added where they are produced and
    travel as one message per pair of devices, the mirror image of the forward tensor.
    saver: the operator among whose saved bytes it is, the first that saves it; -1 where none does or nobody says.
    """

    producer: int
    consumers: tuple[int, ...]
    nbytes: Amount = NOTHING
    shape: tuple[int, ...] = ()
    dtype: str = ""
    sum_group: int | None = None
    saver: int = -1

    def __post_init__(self) -> None:
        clean_names(self, "dtype")


@dataclass(frozen=True, slots=True, repr=False)
class OpGraph(Displayed, Rebuilt):
    """A directed acyclic graph of operators, traced at a batch of ``samples``.

    tensor_parallel: of how many members of a group it is what each runs, the most where operators differ in that; 1 for
    a model whose tensors are whole. outer_degree: how many inner groups a group has along its outer axis, of
    ``tensor_parallel / outer_degree`` members each; 1 where members divide the model once.
    division: how its tensors lie over the group, where that is stated; `solvers.verify.division` checks it.

    Raises InvalidProblem if names repeat, a position is out of range, a size is negative or not
    finite, or the tensors form a cycle (the message names the operators on it).
    """

    operators: tuple[Operator, ...]
    tensors: tuple[Tensor, ...]
    samples: int = 1
    name: str = "graph"
    tensor_parallel: int = 1
    division: Division | None = field(default=None, repr=False, compare=False)
    outer_degree: int = 1
    outputs: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    """Per operator: positions of the tensors it produces."""
    inputs: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    """Per operator: positions of the tensors it consumes."""
    successors: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    predecessors: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    topological_order: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Deterministic: among ready operators the lowest position first."""
    messages: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    """Tensors that travel together: one sum group, or one tensor, each."""
    trains: bool = field(init=False, repr=False, compare=False)
    """Whether any operator is backward or update."""
    _derived: dict[object, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        clean_names(self, "name")
        count = len(self.operators)
        if count == 0:
            raise InvalidProblem("the graph has no operators")
        if self.tensor_parallel < 1:
            raise InvalidProblem(f"tensor_parallel must be at least 1, found {self.tensor_parallel}")
        if self.outer_degree < 1 or self.tensor_parallel % self.outer_degree:
            raise InvalidProblem(
                f"tensor_parallel must be a multiple of outer_degree, found {self.tensor_parallel} and"
                f" {self.outer_degree}"
            )
        if self.samples < 1:
            raise InvalidProblem(f"the graph's batch must be at least 1 sample, found {self.samples}")
        _check_operators(self.operators)
        outputs: list[list[int]] = [[] for _ in range(count)]
        inputs: list[list[int]] = [[] for _ in range(count)]
        after: list[set[int]] = [set() for _ in range(count)]
        before: list[set[int]] = [set() for _ in range(count)]
        for position, tensor in enumerate(self.tensors):
            _check_tensor(position, tensor, self.operators)
            outputs[tensor.producer].append(position)
            for consumer in tensor.consumers:
                inputs[consumer].append(position)
                after[tensor.producer].add(consumer)
                before[consumer].add(tensor.producer)
        set_field = object.__setattr__
        set_field(self, "outputs", tuple(map(tuple, outputs)))
        set_field(self, "inputs", tuple(map(tuple, inputs)))
        set_field(self, "successors", tuple(tuple(sorted(s)) for s in after))
        set_field(self, "predecessors", tuple(tuple(sorted(s)) for s in before))
        set_field(self, "topological_order", self._sorted())
        set_field(self, "trains", any(o.phase is not Phase.FORWARD for o in self.operators))
        set_field(self, "messages", _messages(self.tensors))

    def __repr__(self) -> str:
        sizes = f"{len(self.operators):,} operators, {len(self.tensors):,} tensors"
        return f"OpGraph({self.name!r}: {sizes}, {self.samples:,} samples)"

    def __len__(self) -> int:
        return len(self.operators)

    @property
    def degrees(self) -> tuple[int, ...]:
        """How many members groups have, per operator."""
        return tuple(operator.members or self.tensor_parallel for operator in self.operators)

    @property
    def sample_step(self) -> int:
        """Samples of a micro-batch, of each replica, are a multiple of it: members of groups may divide them."""
        if self.division is None:
            return 1
        inner = self.tensor_parallel // self.outer_degree if self.division.axis.shares_samples else 1
        outer = self.division.outer
        return inner * (self.outer_degree if outer is not None and outer.axis.shares_samples else 1)

    def index_of(self) -> dict[str, int]:
        """Operator name -> position."""
        return {operator.name: i for i, operator in enumerate(self.operators)}

    def _sorted(self) -> tuple[int, ...]:
        order = topological_order(self.successors)
        if len(order) < len(self.operators):
            cycle = find_cycle(self.successors)
            names = " -> ".join(self.operators[i].name for i in cycle[:8])
            more = " -> ..." if len(cycle) > 8 else ""
            raise InvalidProblem(f"the graph has a cycle: {names}{more}; an operator graph must be acyclic")
        return order


T = TypeVar("T")


def per_graph(function: Callable[[OpGraph], T]) -> Callable[[OpGraph], T]:
    """Compute a property of a graph once; planners ask for it again for every plan they judge."""

    @wraps(function)
    def once(graph: OpGraph) -> T:
        if function not in graph._derived:
            graph._derived[function] = function(graph)
        derived: T = graph._derived[function]
        return derived

    return once


@per_graph
def without_checkpoints(graph: OpGraph) -> OpGraph:
    """The graph, no operator of which is said to run again."""
    operators = tuple(
        replace(operator, checkpoint="", cached=False) if operator.checkpoint else operator
        for operator in graph.operators
    )
    return replace(graph, operators=operators)


def _messages(tensors: Sequence[Tensor]) -> tuple[tuple[int, ...], ...]:
    groups: dict[int, list[int]] = {}
    members: list[list[int]] = []
    for position, tensor in enumerate(tensors):
        if not tensor.consumers:
            continue
        if tensor.sum_group is None:
            members.append([position])
        elif tensor.sum_group not in groups:
            groups[tensor.sum_group] = [position]
            members.append(groups[tensor.sum_group])
        else:
            first = tensors[groups[tensor.sum_group][0]]
            if set(first.consumers) != set(tensor.consumers) or first.nbytes != tensor.nbytes:
                raise InvalidProblem(
                    f"tensor {position}: the tensors of sum group {tensor.sum_group} must have the same"
                    " consumers and the same bytes"
                )
            groups[tensor.sum_group].append(position)
    return tuple(map(tuple, members))


def edges_of(successors: Sequence[Iterable[int]]) -> Iterator[tuple[int, int]]:
    """(node, one of its successors) for all of them."""
    return ((u, v) for u, targets in enumerate(successors) for v in targets)


def labels_after(
    edges: Iterable[tuple[int, int]], label: Sequence[int] | Mapping[int, int], count: int
) -> list[set[int]]:
    """The labels that edges of each lead to, itself aside. label: of every node, below ``count``."""
    after: list[set[int]] = [set() for _ in range(count)]
    for u, v in edges:
        if label[u] != label[v]:
            after[label[u]].add(label[v])
    return after


def topological_order(successors: Sequence[Collection[int]]) -> tuple[int, ...]:
    """A topological order, lowest position first among the ready; shorter than the graph if cyclic."""
    waiting = [0] * len(successors)
    for targets in successors:
        for target in targets:
            waiting[target] += 1
    ready = [i for i, n in enumerate(waiting) if n == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for target in successors[node]:
            waiting[target] -= 1
            if waiting[target] == 0:
                heapq.heappush(ready, target)
    return tuple(order)


def find_cycle(successors: Sequence[Sequence[int]]) -> list[int]:
    """The positions of one directed cycle, first repeated at the end; empty if there is none."""
    state = [0] * len(successors)  # 0 unseen, 1 on the path, 2 done
    for root in range(len(successors)):
        if state[root]:
            continue
        path = [root]
        todo = [iter(successors[root])]
        state[root] = 1
        while path:
            for target in todo[-1]:
                if state[target] == 1:
                    return [*path[path.index(target) :], target]
                if state[target] == 0:
                    state[target] = 1
                    path.append(target)
                    todo.append(iter(successors[target]))
                    break
            else:
                state[path.pop()] = 2
                todo.pop()
    return []


def _check_operators(operators: Sequence[Operator]) -> None:
    repeated = [name for name, times in Counter(o.name for o in operators).items() if times > 1]
    if repeated:
        raise InvalidProblem(f"operator names must be unique, found {repeated[0]!r} more than once")
    for position, operator in enumerate(operators):
        for what, amount in (
            ("flops", operator.flops),
            ("moved_bytes", operator.moved_bytes),
            ("saved_bytes", operator.saved_bytes),
            ("workspace_bytes", operator.workspace_bytes),
            ("exchanged_bytes", operator.exchanged_bytes),
            ("outer_bytes", operator.outer_bytes),
        ):
            if amount is not NOTHING:
                check_amount(amount, "operator {!r}: {}", operator.name, what)
        if operator.members < 0:
            raise InvalidProblem(f"operator {operator.name!r}: members must be at least 0, found {operator.members}")
        check_size(operator.param_bytes, "operator {!r}: param_bytes", operator.name)
        check_size(operator.frozen_bytes, "operator {!r}: frozen_bytes", operator.name)
        if operator.frozen_bytes > operator.param_bytes:
            raise InvalidProblem(
                f"operator {operator.name!r}: frozen_bytes are at most its {operator.param_bytes:.0f} param_bytes,"
                f" found {operator.frozen_bytes:.0f}"
            )
        check_size(operator.buffer_bytes, "operator {!r}: buffer_bytes", operator.name)
        check_size(operator.gradient_sum_bytes, "operator {!r}: gradient_sum_bytes", operator.name)
        check_size(operator.factorable_bytes, "operator {!r}: factorable_bytes", operator.name)
        if operator.factorable_bytes > operator.trained_bytes:
            raise InvalidProblem(
                f"operator {operator.name!r}: factorable_bytes are at most its {operator.trained_bytes:.0f} trained"
                f" bytes, found {operator.factorable_bytes:.0f}"
            )
        forward = operator.forward_of
        if forward is None:
            continue
        if not 0 <= forward < len(operators) or operators[forward].phase is not Phase.FORWARD:
            raise InvalidProblem(
                f"operator {operator.name!r} (position {position}): forward_of must be the position of a"
                f" forward operator, found {forward}"
            )


def _check_tensor(position: int, tensor: Tensor, operators: Sequence[Operator]) -> None:
    count = len(operators)
    for end in (tensor.producer, *tensor.consumers):
        if not 0 <= end < count:
            raise InvalidProblem(f"tensor {position}: operator position {end} is not in 0..{count - 1}")
    if not -1 <= tensor.saver < count:
        raise InvalidProblem(f"tensor {position}: saver {tensor.saver} is not in -1..{count - 1}")
    if len(set(tensor.consumers)) != len(tensor.consumers):
        raise InvalidProblem(f"tensor {position}: a consumer is listed twice")
    check_amount(tensor.nbytes, "tensor {} (from {!r}): nbytes", position, operators[tensor.producer].name)


def check_amount(amount: Amount, where: str, *parts: object) -> None:
    """Raises InvalidProblem unless both parts are finite and >= 0. where: a format, of which ``parts`` are put in."""
    check_size(amount.fixed, where, *parts)
    check_size(amount.per_sample, where, *parts)


def check_size(value: float, where: str, *parts: object) -> None:
    """Raises InvalidProblem unless ``value`` is a finite number >= 0. where: a format, see `check_amount`."""
    if not math.isfinite(value) or value < 0:
        raise InvalidProblem(f"{where.format(*parts)} must be a finite number >= 0, found {value}")
