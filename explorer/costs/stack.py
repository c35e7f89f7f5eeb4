"""What runs a model, and so what memory traffic and launches there are beside the operators that were traced.

Each rule says where it is from: kernels counted below autograd (`tests/explorer/costs/test_stack.py` counts them again,
with their bytes), or the source of what runs. Nothing is fitted to a model or an iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from explorer.costs.shapes import ELEMENTWISE, EMBEDDING, NORM, Shapes
from explorer.costs.updates import accesses
from solvers.kernels.arrays import Bools, Floats
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.training import Optimizer, Precision


class Stack(StrEnum):
    """TRACED: every operator is one kernel, and nothing runs beside it. EAGER: PyTorch, under autocast where weights
    have fp32 masters. COMPILED: torch.compile with inductor, its optimizer eager. FUSED: Megatron-LM's kernels on
    16-bit weights: fused activations, softmax, dropout and optimizer, and its loss in fp32."""

    TRACED = "traced"
    EAGER = "eager"
    COMPILED = "compiled"
    FUSED = "fused"


@dataclass(frozen=True, slots=True)
class Kernels:
    """What a stack launches for every operator. Bytes are [operators, 2]: fixed, and those of a sample.

    own, own_launches: of the operator's own kernels; without any launch it is a part of another operator's.
    beside, beside_launches: of elementwise kernels before or after them (casts, sums).
    """

    own: Floats
    own_launches: Floats
    beside: Floats
    beside_launches: Floats


SOFTMAX = frozenset({"aten.softmax", "aten._softmax", "aten.log_softmax", "aten._safe_softmax"})
DROPOUT, LOSS = "aten.dropout", "aten.cross_entropy_loss"
POINTWISE = ELEMENTWISE | NORM | SOFTMAX | {DROPOUT, "aten.mean", "aten.sum", "aten.masked_fill", "aten.reshape",
                                            "aten.contiguous", "aten.leaky_relu", "aten.elu", "aten.hardtanh",
                                            "aten.relu_", "aten.add_", "aten.mul_", "aten.silu_"}  # fmt: skip
"""What inductor writes into one kernel with its neighbours: loops over elements and over their last dimension
(Ansel et al., PyTorch 2, ASPLOS 2024, section 4.4)."""

IN_FP32 = NORM | SOFTMAX | {LOSS, "aten.exp", "aten.pow", "aten.rsqrt", "aten.sum", "aten.nll_loss", "aten.mse_loss"}
"""Operators that autocast runs in fp32 (PyTorch, Automatic Mixed Precision, "CUDA Ops that can autocast to
float32"); those with arithmetic on tensor cores run in 16 bits, others in the widest of what comes in."""

CAST = 3.0
"""Bytes that a cast goes through, in those of the 16-bit tensor: 2 + 4."""
SUM = 3.0
"""Passes of adding one tensor to another: two are read, one is written."""

BACKWARD: dict[str, tuple[float, float]] = {
    "aten.add": (0, 0.0),
    DROPOUT: (1, 0.625),
    "aten.reshape": (1, 2 / 3),
    "aten.clone": (1, 2 / 3),
    "aten.mul": (2, 6 / 5),
    "aten.pow": (3, 7 / 3),
    "aten.mean": (1, 1.0),
    LOSS: (2, 4 / 3),
}
"""Gradients of inputs in eager mode: kernels, and bytes over those traced. An addition hands its gradient on. Dropout
reads a gradient and a mask of one byte an element and writes (`native_dropout_backward` of CUDA; 2.5 of the 4 passes
traced). A loss fills a gradient and puts it through that of log-softmax. All others are one kernel as traced."""

MEGATRON_LOSS = {Phase.FORWARD: 38 / 4, Phase.BACKWARD_INPUT: 14 / 6}
"""Bytes an element of logits over those traced: `vocab_parallel_cross_entropy` of Megatron-LM casts to fp32 (2 + 4
bytes), takes the largest (4), subtracts it (8), exponents (8), sums (4), divides (8); its backward multiplies (8) and
casts (4 + 2)."""
MEGATRON_LOSS_LAUNCHES = {Phase.FORWARD: 6.0, Phase.BACKWARD_INPUT: 2.0}
INDUCTOR_LOSS_BACKWARD = 4 / 6
"""Logits are read and their gradient written, all else is in the loop."""

EAGER_STEP = {
    Optimizer.NONE: 3.0,
    Optimizer.SGD: 3.0,
    Optimizer.MOMENTUM: 8.0,
    Optimizer.ADAM: 18.0,
    Optimizer.ADAMW: 20.0,
}
"""Passes over as many bytes as the parameters have of `torch.optim` as it comes (foreach): every elementwise kernel of
the step reads and writes."""
STEP_LAUNCHES = {Optimizer.ADAM: 7.0, Optimizer.ADAMW: 8.0, Optimizer.MOMENTUM: 3.0}


def _fuses_everything(producer: str, consumer: str) -> bool:
    return producer in POINTWISE and consumer in POINTWISE


_SCALED = frozenset({"aten.mul", "aten.div", "aten.add", "aten.masked_fill", "aten.where"})
_WRITTEN_OUT_NORM = frozenset(
    {"aten.pow", "aten.mean", "aten.add", "aten.rsqrt", "aten.mul", "aten._to_copy", "aten.to"}
)


def _fuses_as_megatron(producer: str, consumer: str) -> bool:
    """`fused_bias_dropout`, `fused_softmax`, `fused_bias_swiglu` of megatron/core/fusions, and norms that a model
    writes out as operators."""
    return (
        (producer == DROPOUT and consumer == "aten.add")
        or (producer in _SCALED and consumer in SOFTMAX)
        or (producer == "aten.silu" and consumer == "aten.mul")
        or (producer in ("aten.pow", "aten.mean", "aten.rsqrt") and consumer in _WRITTEN_OUT_NORM)
    )


FUSES: dict[Stack, Callable[[str, str], bool]] = {
    Stack.COMPILED: _fuses_everything,
    Stack.FUSED: _fuses_as_megatron,
}


def kernels_of(
    graph: OpGraph, work: Shapes, stack: Stack, precision: Precision, optimizer: Optimizer, *, accumulates: bool
) -> Kernels:
    """accumulates: whether gradients are added to those of micro-batches before. The first micro-batch of an iteration
    does not add; it is counted as if it did, since how many there are is the planner's to choose."""
    own = np.array([(o.moved_bytes.fixed, o.moved_bytes.per_sample) for o in graph.operators], dtype=np.float64)
    kernels = Kernels(own.reshape(-1, 2), np.ones(len(graph)), np.zeros((len(graph), 2)), np.zeros(len(graph)))
    if stack is Stack.TRACED:
        return kernels
    flows = _flows(graph)
    _eager(graph, kernels, stack)
    if stack in FUSES:
        _fuse(graph, flows, kernels, FUSES[stack])
    autocast = precision is not Precision.PURE and stack in (Stack.EAGER, Stack.COMPILED)
    if autocast:
        _autocast(graph, flows, work, kernels, casts_are_fused=stack is Stack.COMPILED)
    _loss(graph, kernels, stack, precision)
    _sums(graph, kernels, stack)
    _put_together(graph, kernels)
    _bias_gradients(graph, work, flows, kernels)
    if accumulates:
        _accumulate(
            graph,
            kernels,
            fp32=autocast,
            in_product=stack is Stack.FUSED and precision is Precision.MIXED_FP32_GRADIENTS,
        )
    if stack is not Stack.FUSED and optimizer in EAGER_STEP:
        updates = np.array([operator.phase is Phase.UPDATE for operator in graph.operators])
        kernels.own[updates] *= EAGER_STEP[optimizer] / accesses(optimizer, Precision.PURE)
        kernels.own_launches[updates] = STEP_LAUNCHES.get(optimizer, 1.0)
    return kernels


@dataclass(frozen=True, slots=True)
class _Flow:
    """A tensor between two forward operators. nbytes: [2]. narrow: of a 16-bit floating dtype. alone: the producer's
    other outputs and consumers do not matter to it."""

    producer: int
    consumer: int
    nbytes: Floats
    narrow: bool


def _flows(graph: OpGraph) -> list[_Flow]:
    """All of the forward that have bytes."""
    flows = []
    for tensor in graph.tensors:
        if graph.operators[tensor.producer].phase is not Phase.FORWARD:
            continue
        nbytes = np.array([tensor.nbytes.fixed, tensor.nbytes.per_sample])
        if nbytes.any():
            narrow = tensor.dtype in ("bfloat16", "float16")
            flows += [
                _Flow(tensor.producer, consumer, nbytes, narrow)
                for consumer in tensor.consumers
                if graph.operators[consumer].phase is Phase.FORWARD
            ]
    return flows


def _mirrored(graph: OpGraph) -> dict[int, dict[Phase, int]]:
    """Forward operator -> its backward and update operators."""
    mirrored: dict[int, dict[Phase, int]] = {}
    for o, operator in enumerate(graph.operators):
        if operator.forward_of is not None:
            mirrored.setdefault(operator.forward_of, {})[operator.phase] = o
    return mirrored


def _eager(graph: OpGraph, kernels: Kernels, stack: Stack) -> None:
    for o, operator in enumerate(graph.operators):
        if operator.phase is Phase.BACKWARD_INPUT and operator.op_type in BACKWARD:
            launches, share = BACKWARD[operator.op_type]
            kernels.own[o] *= share
            kernels.own_launches[o] = launches
        elif operator.phase is Phase.FORWARD and operator.op_type == LOSS and stack is not Stack.FUSED:
            kernels.own_launches[o] = 2


def _fuse(graph: OpGraph, flows: list[_Flow], kernels: Kernels, fuses: Callable[[str, str], bool]) -> None:
    """Takes off what is neither read nor written between operators of one kernel, forwards and backwards. Operators may
    be one kernel only where no path leaves it and comes back: where as many others lie before each of them."""
    types = [operator.op_type for operator in graph.operators]
    before = np.zeros(len(graph), dtype=np.int64)
    by_consumer: dict[int, list[_Flow]] = {}
    for flow in flows:
        by_consumer.setdefault(flow.consumer, []).append(flow)
    for o in graph.topological_order:
        for flow in by_consumer.get(o, ()):
            leaves = not fuses(types[flow.producer], types[o])
            before[o] = max(before[o], before[flow.producer] + leaves)
    mirrored = _mirrored(graph)
    inside = [
        f for f in flows if fuses(types[f.producer], types[f.consumer]) and before[f.producer] == before[f.consumer]
    ]
    within = {(flow.producer, flow.consumer) for flow in inside}
    stays = {flow.producer for flow in flows if (flow.producer, flow.consumer) not in within}
    written: set[int] = set()
    for flow in inside:
        p, c = flow.producer, flow.consumer
        kernels.own[c] -= flow.nbytes
        if p not in stays and p not in written:
            written.add(p)
            kernels.own[p] -= flow.nbytes
        kernels.own_launches[p] = 0
        if Phase.BACKWARD_INPUT in mirrored.get(p, {}) and Phase.BACKWARD_INPUT in mirrored.get(c, {}):
            # c writes the gradient of what it read, and reads that again; p reads the gradient.
            kernels.own[mirrored[c][Phase.BACKWARD_INPUT]] -= 2 * flow.nbytes
            kernels.own[mirrored[p][Phase.BACKWARD_INPUT]] -= flow.nbytes
            kernels.own_launches[mirrored[c][Phase.BACKWARD_INPUT]] = 0
    np.maximum(kernels.own, 0.0, out=kernels.own)


def _autocast(graph: OpGraph, flows: list[_Flow], work: Shapes, kernels: Kernels, *, casts_are_fused: bool) -> None:
    """Tensors that autocast makes fp32, and what casting takes: of weights once a micro-batch, of activations wherever
    one meets an operator of the other kind, and of gradients on the way back."""
    operators, mirrored = graph.operators, _mirrored(graph)
    to_16_bits = np.isin(work.work, ("products", "convolutions", "attention"))
    by_consumer: dict[int, list[_Flow]] = {}
    for flow in flows:
        by_consumer.setdefault(flow.consumer, []).append(flow)
    wide: Bools = np.zeros(len(graph), dtype=np.bool_)
    of_producer: dict[int, Floats] = {}
    for flow in flows:
        if flow.narrow:
            of_producer[flow.producer] = flow.nbytes
    for o in graph.topological_order:
        operator = operators[o]
        if operator.phase is not Phase.FORWARD:
            continue
        comes = [flow for flow in by_consumer.get(o, ()) if flow.narrow]
        to_32_bits = operator.op_type in IN_FP32 or operator.op_type in EMBEDDING
        wide[o] = not to_16_bits[o] and (to_32_bits or any(wide[flow.producer] for flow in comes))
        back = [
            mirrored[o][phase]
            for phase in (Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT)
            if phase in mirrored.get(o, {})
        ]
        plain = kernels.own[o].sum()
        if wide[o]:
            reads = [flow.nbytes for flow in comes]
            more = sum(reads, of_producer.get(o, np.zeros(2)))
            kernels.own[o] += more
            for b in back:
                kernels.own[b] += more * (kernels.own[b].sum() / plain if plain > 0 else 0.0)
        cast = [
            f.nbytes for f in comes if bool(wide[f.producer]) == bool(to_16_bits[o]) and (to_16_bits[o] or to_32_bits)
        ]
        for nbytes in cast:
            for at in (o, *back[:1]):
                fused = casts_are_fused and operator.op_type not in EMBEDDING
                kernels.beside[at] += (1.0 if fused else CAST) * nbytes
                kernels.beside_launches[at] += not fused
        if to_16_bits[o] and operator.trained_bytes:
            kernels.beside[o, 0] += CAST * operator.param_bytes
            kernels.beside_launches[o] += 1
            if Phase.BACKWARD_WEIGHT in mirrored.get(o, {}):
                weight = mirrored[o][Phase.BACKWARD_WEIGHT]
                kernels.beside[weight, 0] += CAST * operator.trained_bytes
                kernels.beside_launches[weight] += 1


def _loss(graph: OpGraph, kernels: Kernels, stack: Stack, precision: Precision) -> None:
    for o, operator in enumerate(graph.operators):
        if operator.op_type != LOSS:
            continue
        if stack is Stack.COMPILED and operator.phase is Phase.BACKWARD_INPUT:
            kernels.own[o] *= INDUCTOR_LOSS_BACKWARD / BACKWARD[LOSS][1]
            kernels.own_launches[o] = 1
        elif stack is Stack.FUSED and operator.phase in MEGATRON_LOSS and precision is not Precision.PURE:
            traced = operator.moved_bytes
            kernels.own[o] = np.array([traced.fixed, traced.per_sample]) * MEGATRON_LOSS[operator.phase]
            kernels.own_launches[o] = MEGATRON_LOSS_LAUNCHES[operator.phase]


def _sums(graph: OpGraph, kernels: Kernels, stack: Stack) -> None:
    """Gradients of a tensor that several operators read are added up, two by two; inductor reads one more."""
    seen: set[int] = set()
    for tensor in graph.tensors:
        if tensor.sum_group is None:
            continue
        if tensor.sum_group in seen:
            nbytes = np.array([tensor.nbytes.fixed, tensor.nbytes.per_sample])
            kernels.beside[tensor.producer] += (1.0 if stack is Stack.COMPILED else SUM) * nbytes
            kernels.beside_launches[tensor.producer] += stack is not Stack.COMPILED
        seen.add(tensor.sum_group)


def _put_together(graph: OpGraph, kernels: Kernels) -> None:
    """Where views take what an operator makes apart (the queries, keys and values of one product), their gradients are
    put together: `unbind` and `split` have `stack` and `cat` as backward (PyTorch, tools/autograd/derivatives.yaml),
    which reads and writes all of it. Slices take more: each fills all of it with zeros."""
    made: dict[int, list[tuple[Floats, bool]]] = {}
    for tensor in graph.tensors:
        nbytes = np.array([tensor.nbytes.fixed, tensor.nbytes.per_sample])
        if graph.operators[tensor.producer].phase is Phase.FORWARD and nbytes.any():
            made.setdefault(tensor.producer, []).append((nbytes, bool(tensor.consumers)))
    for o, back in _mirrored(graph).items():
        sizes = made.get(o, [])
        whole = max((nbytes for nbytes, _ in sizes), key=lambda nbytes: nbytes.sum(), default=np.zeros(2))
        parts = [nbytes for nbytes, is_read in sizes if is_read and nbytes.sum() < whole.sum()]
        at = back.get(Phase.BACKWARD_INPUT, back.get(Phase.BACKWARD_WEIGHT))
        if at is not None and len(parts) > 1 and np.allclose(sum(parts), whole):
            kernels.beside[at] += 2 * whole
            kernels.beside_launches[at] += 1


def _bias_gradients(graph: OpGraph, work: Shapes, flows: list[_Flow], kernels: Kernels) -> None:
    """A product's bias has its gradient from a sum over the rows of the gradient of what it made."""
    made = {flow.producer: flow.nbytes for flow in flows}
    for o, operator in enumerate(graph.operators):
        if operator.phase is not Phase.BACKWARD_WEIGHT or operator.forward_of is None:
            continue
        forward = graph.operators[operator.forward_of]
        columns, depth = work.columns[operator.forward_of], work.depth[operator.forward_of]
        if forward.op_type in ("aten.linear", "aten.addmm") and operator.forward_of in made:
            weight = columns * depth
            if forward.param_bytes and any(
                abs(forward.param_bytes - size * (weight + columns)) < 0.5 * size for size in (2.0, 4.0)
            ):
                kernels.beside[o] += made[operator.forward_of]
                kernels.beside_launches[o] += 1


def _accumulate(graph: OpGraph, kernels: Kernels, *, fp32: bool, in_product: bool) -> None:
    """Gradients of parameters are added to those before. fp32: they are fp32 in a graph of 16 bits. in_product: the
    product that makes them adds to fp32 sums itself (`gradient_accumulation_fusion`: 8 bytes in place of 2)."""
    for tensor in graph.tensors:
        operator = graph.operators[tensor.producer]
        if operator.phase is Phase.BACKWARD_WEIGHT:
            nbytes = np.array([tensor.nbytes.fixed, tensor.nbytes.per_sample])
            kernels.beside[tensor.producer] += SUM * (2.0 if fp32 else 1.0) * nbytes
            kernels.beside_launches[tensor.producer] += not in_product
