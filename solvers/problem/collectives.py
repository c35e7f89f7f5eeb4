"""What members of a tensor-parallel group exchange for an operator."""

from __future__ import annotations

from solvers.problem.graph import Operator, Phase

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point")
COLLECTIVE = "collective."
"""How the type of an operator begins that only changes how a tensor is divided over a group."""
FORWARD_KIND = {kind: kind for kind in KINDS[:-1]}
BACKWARD_KIND = {
    "all_reduce": "all_reduce",
    "copy": "all_reduce",
    "all_gather": "reduce_scatter",
    "slice": "all_gather",
    "reduce_scatter": "all_gather",
    "all_to_all": "all_to_all",
}
"""By what such an operator is called: what its forward exchanges, and its backward, which is its mirror image."""


def exchange_kind(operator: Operator) -> str:
    """What members of a tensor-parallel group do for an operator that exchanges something. Operators that compute add
    up statistics of rows, and updates gradients that each member has a part of."""
    if not operator.op_type.startswith(COLLECTIVE) or operator.phase is Phase.UPDATE:
        return "all_reduce"
    kinds = FORWARD_KIND if operator.phase is Phase.FORWARD else BACKWARD_KIND
    return kinds[operator.op_type.removeprefix(COLLECTIVE)]
