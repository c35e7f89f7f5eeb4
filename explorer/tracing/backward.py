"""The backward and the update, mirrored from the forward.

Every operator that gradients pass through gets an input-gradient operator (if an input carries a
gradient) and a weight-gradient operator (if it reads trainable parameters); every owner of trainable
parameters gets one update. A forward tensor's gradient is the sum of one partial gradient from each
consumer: one sum group.

Sizes. A product needs one product of the same size for each gradient. Attention's backward is 2.5
forwards: five products for two, the scores being recomputed (Dao, FlashAttention-2, 2023, section
4.1). Other operators move as many bytes as their forward and the gradients have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.tracing.flops import PRODUCTS, RECURRENT
from explorer.tracing.forward import Forward
from explorer.tracing.sizes import LOOKUPS
from solvers.problem.collectives import COLLECTIVE
from solvers.problem.graph import NOTHING, Amount, Operator, Phase, Tensor

ATTENTION_BACKWARD = 2.5
"""FLOPs of attention's backward over its forward (FlashAttention-2, section 4.1)."""

ADAM_ACCESSES = 7.0
"""Reads of weight, gradient and two moments, writes of weight and two moments, per parameter byte."""

ADAM_FLOPS_PER_BYTE = 3.0
"""About a dozen operations per parameter of 4 bytes."""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """All operators and tensors of a training step."""

    operators: tuple[Operator, ...]
    tensors: tuple[Tensor, ...]


def inference(forward: Forward) -> Mirrored:
    """The forward alone, where no parameter is trained and so none is set apart as frozen, and nothing runs again."""
    operators = tuple(
        replace(operator, frozen_bytes=0.0, factorable_bytes=0.0, checkpoint="") for operator in forward.operators
    )
    return Mirrored(operators, _forward_tensors(forward))


def training(forward: Forward) -> Mirrored:
    """The forward with its backward and update."""
    operators = list(forward.operators)
    input_gradient: dict[int, int] = {}
    weight_gradient: dict[int, int] = {}
    update: dict[int, int] = {}
    receives = {group for edge in forward.edges for group in edge.with_gradient}
    # Backwards from the end: positions then follow the order in which they run.
    for group in reversed(range(len(forward.operators))):
        if group not in forward.differentiated:
            continue
        if group in receives:
            input_gradient[group] = len(operators)
            operators.append(_input_gradient(forward, group))
        if forward.weights[group]:
            weight_gradient[group] = len(operators)
            operators.append(_weight_gradient(forward, group, alone=group not in receives))
    trained = {owner for group in weight_gradient for owner in forward.weights[group]}
    for group in sorted(trained):
        update[group] = len(operators)
        operators.append(_update(forward, group))
    tensors = list(_forward_tensors(forward))
    backward_of = {
        group: tuple(part[group] for part in (input_gradient, weight_gradient) if group in part)
        for group in forward.differentiated
    }
    tensors += [
        Tensor(producer=group, consumers=backward_of[group]) for group in sorted(backward_of) if backward_of[group]
    ]
    tensors += _gradients(forward, input_gradient, backward_of)
    for group in sorted(weight_gradient):
        for owner, nbytes in forward.weights[group].items():
            dense = Amount(fixed=nbytes)
            gradient = _amount(forward, group, "sparse_gradient_bytes") if _is_sparse(forward, group) else dense
            tensors.append(Tensor(weight_gradient[group], (update[owner],), gradient))
            if group in input_gradient:  # it reads the parameter, which the update overwrites
                tensors.append(Tensor(input_gradient[group], (update[owner],)))
    return Mirrored(tuple(operators), tuple(tensors))


def _forward_tensors(forward: Forward) -> tuple[Tensor, ...]:
    return tuple(Tensor(e.producer, e.consumers, e.nbytes, e.shape, e.dtype, saver=e.saver) for e in forward.edges)


def _gradients(
    forward: Forward, input_gradient: dict[int, int], backward_of: dict[int, tuple[int, ...]]
) -> list[Tensor]:
    tensors = []
    for group_number, edge in enumerate(forward.edges):
        targets = backward_of.get(edge.producer, ())
        senders = [group for group in sorted(edge.with_gradient) if group in input_gradient]
        if not targets or not senders:
            continue
        summed = group_number if len(senders) > 1 else None
        tensors += [
            Tensor(input_gradient[group], targets, edge.nbytes, edge.shape, edge.dtype, sum_group=summed)
            for group in senders
        ]
    return tensors


def _input_gradient(forward: Forward, group: int) -> Operator:
    """d loss / d inputs. Reads the output's gradient and what was saved, writes the inputs' gradients."""
    operator = forward.operators[group]
    carrying = _amount(forward, group, "gradient_bytes")
    exchanges = operator.op_type.startswith(COLLECTIVE)  # it takes as long as that does, and moves nothing beside
    at, more = forward.sizes[group]
    return Operator(
        name=f"{operator.name}/grad_input",
        op_type=operator.op_type,
        phase=Phase.BACKWARD_INPUT,
        module_path=operator.module_path,
        flops=_times(operator.flops, _input_factor(forward, group)),
        moved_bytes=NOTHING
        if exchanges
        else _amount(forward, group, "written_bytes")
        + _amount(forward, group, "param_read_bytes")
        + carrying
        # A product without parameters, or an elementwise call, also reads its saved inputs.
        + (NOTHING if forward.weights[group] and operator.op_type in PRODUCTS else carrying),
        workspace_bytes=carrying,
        colocation=operator.colocation,
        forward_of=group,
        members=operator.members,
        causal=operator.causal,
        exchanged_bytes=forward.line.amount(at.exchange.backward_bytes, more.exchange.backward_bytes),
        exchange_steps=at.exchange.backward_steps,
        outer_bytes=forward.line.amount(at.outer.backward_bytes, more.outer.backward_bytes),
        outer_steps=at.outer.backward_steps,
    )


def _input_factor(forward: Forward, group: int) -> float:
    """FLOPs of the input gradient over those of the forward."""
    operator = forward.operators[group]
    if operator.op_type == "aten.scaled_dot_product_attention":
        return ATTENTION_BACKWARD
    if operator.op_type in PRODUCTS and not forward.weights[group]:
        # A product of activations has one gradient product for each operand that carries one.
        return float(max(1, min(2, sum(group in edge.with_gradient for edge in forward.edges))))
    return 1.0


def _weight_gradient(forward: Forward, group: int, *, alone: bool) -> Operator:
    """d loss / d parameters. Reads the output's gradient and the input, writes a parameter's gradient.

    alone: there is no input gradient. A recurrent layer then still sends gradients back through time.
    """
    operator = forward.operators[group]
    written = Amount(fixed=float(sum(forward.weights[group].values())))
    if operator.op_type in LOOKUPS:
        # A table's gradient has the rows read; a dense one is zeroed whole before they are written.
        rows = _amount(forward, group, "param_read_bytes")
        written = rows if _is_sparse(forward, group) else written + rows
    return Operator(
        name=f"{operator.name}/grad_weight",
        op_type=operator.op_type,
        phase=Phase.BACKWARD_WEIGHT,
        module_path=operator.module_path,
        flops=_times(operator.flops, 2.0 if alone and operator.op_type in RECURRENT else 1.0),
        moved_bytes=_amount(forward, group, "written_bytes") + _amount(forward, group, "read_bytes") + written,
        colocation=operator.colocation,
        forward_of=group,
        members=operator.members,
    )


def _is_sparse(forward: Forward, group: int) -> bool:
    """Whether the gradient of the table that an operator looks into holds only the rows looked up."""
    return forward.sizes[group][0].sparse_gradient_bytes > 0


def _update(forward: Forward, group: int) -> Operator:
    """One optimizer step (sized as Adam) for the trained parameters an operator owns, once per mini-batch.

    Adam's moments decay everywhere, so it goes through the whole of a table of which few rows have a gradient.
    """
    operator, sizes = forward.operators[group], forward.sizes[group][0]
    return Operator(
        name=f"{operator.name}/update",
        op_type="update",
        phase=Phase.UPDATE,
        module_path=operator.module_path,
        flops=Amount(fixed=ADAM_FLOPS_PER_BYTE * operator.trained_bytes),
        moved_bytes=Amount(fixed=ADAM_ACCESSES * operator.trained_bytes),
        colocation=operator.colocation,
        forward_of=group,
        members=operator.members,
        exchanged_bytes=Amount(fixed=sizes.exchange.update_bytes),
        exchange_steps=sizes.exchange.update_steps,
        outer_bytes=Amount(fixed=sizes.outer.update_bytes),
        outer_steps=sizes.outer.update_steps,
    )


def _amount(forward: Forward, group: int, what: str) -> Amount:
    at, more = forward.sizes[group]
    return forward.line.amount(getattr(at, what), getattr(more, what))


def _times(amount: Amount, factor: float) -> Amount:
    return Amount(amount.fixed * factor, amount.per_sample * factor)
