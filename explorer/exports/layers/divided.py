"""What a launcher makes of tensors that a plan divides over groups of devices."""

from __future__ import annotations

from explorer.exports.layers.chain import Chain
from explorer.words import text
from solvers.problem.collectives import ATTENTION, RING, Axis, axes_of, axis_of, exchange_kind
from solvers.problem.graph import OpGraph, Phase


def tokens_divided(graph: OpGraph) -> bool:
    """Whether norms work on divided tensors, as sequence parallelism has it."""
    if graph.division is None:
        return False
    tensors = graph.division.tensors
    norms = [call for call in graph.division.calls if "norm" in call.target and call.inputs]
    return any(tensors[call.inputs[0]].placement.startswith("S(") for call in norms)


def division_losses(chain: Chain, launcher: str, *, tokens: bool | None = None) -> list[str]:
    """Sentences on how a launcher divides tensors otherwise than the plan, none for a plan of whole tensors.

    chain: the plan's.
    launcher: its name.
    tokens: whether it divides tokens between the products; None where its file says so.
    """
    graph = chain.graph
    if graph.tensor_parallel == 1:
        return []
    axes = axes_of(graph)
    others = [] if axis_of(graph) is Axis.TENSOR else _other_losses(graph, launcher)
    if Axis.TENSOR not in axes:
        return others
    own = f"which tensors are divided over the {axes[Axis.TENSOR]} devices of a group: {launcher} has its own rule"
    if graph.division is not None:
        parameters = [tensor for tensor in graph.division.tensors if tensor.parameter]
        divided = sum(tensor.placement.startswith("S(") for tensor in parameters)
        own += f", and the plan divides {divided} of {text.plural(len(parameters), 'parameter')}"
    losses = [*others, own]
    if tokens is not None and tokens != tokens_divided(graph):
        has = "divides" if tokens else "does not divide"
        losses.append(f"tokens between the products: {launcher} {has} them, the plan {'not' if tokens else 'does'}")
    return losses


def rank_samples(chain: Chain, samples: int) -> int:
    """Those of one process, of ``samples`` of all replicas: members of a group that divides experts have their own."""
    return samples // chain.replicas // chain.graph.sample_step


def attention_ways(graph: OpGraph) -> tuple[int, int]:
    """(how many calls of attention send keys and values round a ring, how many are divided by heads), where tokens are
    divided."""
    calls = [o for o in graph.operators if o.op_type == ATTENTION and o.phase is Phase.FORWARD]
    rings = sum(one.exchanges and exchange_kind(one) == RING for one in calls)
    return rings, len(calls) - rings


def _other_losses(graph: OpGraph, launcher: str) -> list[str]:
    """Of groups that divide tokens, or samples and experts."""
    if axis_of(graph) is Axis.CONTEXT:
        rings, heads = attention_ways(graph)
        mixed = f"the plan has {rings} calls round a ring and {heads} by heads, and {launcher} takes one way for all"
        return [f"both ways of attention: {mixed}"] if rings and heads else []
    sentences = [f"which experts stand where: {launcher} has them in order"]
    division = graph.division and (graph.division.outer or graph.division)
    load = 1.0 if division is None else division.load
    if load > 1:
        sentences.append(f"the load: the plan counts {load:g} times the mean of rows on the busiest device")
    return sentences
