"""What a launcher makes of tensors that a plan divides over groups of devices."""

from __future__ import annotations

from explorer.exports.layers.chain import Chain
from explorer.words import text
from solvers.problem.graph import OpGraph


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
    own = f"which tensors are divided over the {graph.tensor_parallel} devices of a group: {launcher} has its own rule"
    if graph.division is not None:
        parameters = [tensor for tensor in graph.division.tensors if tensor.parameter]
        divided = sum(tensor.placement.startswith("S(") for tensor in parameters)
        own += f", and the plan divides {divided} of {text.plural(len(parameters), 'parameter')}"
    losses = [own]
    if tokens is not None and tokens != tokens_divided(graph):
        has = "divides" if tokens else "does not divide"
        losses.append(f"tokens between the products: {launcher} {has} them, the plan {'not' if tokens else 'does'}")
    return losses
