"""Which operators run again before their backward, as a person asks for it: layer by layer, or the cheap ones."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from explorer.costs.shapes import ATTENTIONS, CELLS, CONVOLUTION, MATRIX
from solvers.coarsening.blocks import Blocks, repeated_blocks
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.groups import together
from solvers.problem.problem import Objective, Problem
from solvers.problem.regions import in_regions


class Recompute(StrEnum):
    """Whose forward runs again before its backward, to hold less.

    MODEL: the regions that the model itself checkpoints (`solvers.problem.regions`). STAGE: whole stages may, as
    planners choose, and nothing else does. NONE: nothing. LAYERS: every layer that the model repeats. OPERATORS: in
    these layers all but `COSTLY` ones. BUDGET: what plans say, operator by operator, within the memory of each device.
    """

    MODEL = "model"
    STAGE = "stage"
    NONE = "none"
    LAYERS = "layers"
    OPERATORS = "operators"
    BUDGET = "budget"


COSTLY = MATRIX | CONVOLUTION | CELLS.keys() | ATTENTIONS
"""What OPERATORS keeps the outputs of: products with parameters and fused attention, whose forward is long for a byte
that it makes. The rest runs again: norms, activations, sums, and the inner products of attention that is not fused
(Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022, section 5). PyTorch's
selective checkpointing is used so: torchtitan's list of operators to save has products and fused attention."""

WHOLE_STAGES = (Recompute.STAGE, Recompute.BUDGET)
"""Where stages may run again as a whole."""
REGION_CHOICES = (Recompute.LAYERS, Recompute.OPERATORS, Recompute.BUDGET)


def with_region_choice(problem: Problem, regions: Recompute, reference: str) -> Problem:
    """The problem with regions in its graph as asked for; they are not counted yet (`recomputing`).

    Raises InvalidProblem, in one line, where there are no layers, or nothing that regions would change.
    """
    if regions is Recompute.MODEL:
        return problem
    if regions in (Recompute.STAGE, Recompute.NONE):
        return replace(problem, graph=in_regions(problem.graph, {}))
    flag = f"--recompute {regions.value}"
    if not problem.training:
        raise InvalidProblem(f"{flag} runs forwards again before their backward; leave it out in inference")
    if problem.stated_bytes is not None:
        raise InvalidProblem(f"{flag} changes what is saved, and {reference} states sizes as a whole; leave it out")
    if problem.objective is Objective.MAKESPAN:
        raise InvalidProblem(
            f"{flag} is for pipelines of micro-batches, and objective makespan is one unsplit pass; leave it out, or"
            " plan with --objective iteration"
        )
    if regions is Recompute.BUDGET:
        return replace(problem, graph=in_regions(problem.graph, {}), recompute_operators=True)
    families = repeated_blocks(replace(problem, pins={}))
    if not families:
        raise InvalidProblem(
            f"{flag}: {reference} has no layers that repeat (equal, numbered members of a module); allow whole"
            " stages to run again (--recompute stage)"
        )
    graph, groups = problem.graph, together(problem.graph)
    name_of: dict[int, str] = {}
    for family in families:
        for members in family.members:
            operators = [o for group in members for o in groups[group]]
            name_of |= dict.fromkeys(operators, _name(graph, family, operators))
    cached = frozenset(o for o in name_of if regions is Recompute.OPERATORS and graph.operators[o].op_type in COSTLY)
    return replace(problem, graph=in_regions(graph, {o: (name, o in cached) for o, name in name_of.items()}))


def _name(graph: OpGraph, family: Blocks, operators: list[int]) -> str:
    """ "model.layers.3": the module of a layer."""
    within = len(family.container) + 1 if family.container else 0
    path = next(graph.operators[o].module_path for o in operators if graph.operators[o].phase is Phase.FORWARD)
    return path[:within] + path[within:].split(".")[0]
