"""The nearest plan that cuts no module: every module whole in the stage that does most of its work, and what that
costs by the same prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from explorer.exports.layers.chain import Chain, with_plan
from explorer.exports.layers.units import Layout, Unit, Units, cut_units, layout_of, units_of
from explorer.words import text
from solvers.errors import PlacementError, UnsupportedProblem
from solvers.evaluation.evaluate import evaluate
from solvers.plan.plan import Plan
from solvers.planners.check import check
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.problem import Problem


def laid_out(chain: Chain, *, nearest: bool) -> tuple[Layout, list[str]]:
    """The modules of every stage, and what was moved for that. Raises UnsupportedProblem."""
    if not nearest or not cut_units(chain, units_of(chain.graph)):
        return layout_of(chain), []
    moved, changes = whole_modules(chain)
    return layout_of(moved), changes


def whole_modules(chain: Chain) -> tuple[Chain, list[str]]:
    """The chain with every module in one stage, and a sentence for each that moved, then one on the predicted time.

    Raises UnsupportedProblem if a stage would be left without modules.
    """
    model, graph = units_of(chain.graph), chain.graph
    work = forward_and_back(chain.problem, chain.plan)
    to: dict[int, int] = {}
    changes = []
    for unit, stages in cut_units(chain, model):
        share: Counter[int] = Counter()
        for o in unit.operators:
            share[min(chain.homes[o])] += work[o]  # type: ignore[assignment]  # seconds
        best = max(stages, key=lambda s: (share[s], -s))
        moving = [o for o in unit.operators if min(chain.homes[o]) != best]
        to |= dict.fromkeys(moving, best)
        changes.append(_sentence(unit, moving, best, share, stages))
    _follow(chain, model, to)
    plan = with_moved(graph, chain.plan, to)
    changes.append(cost(chain.problem, chain.plan, plan))
    return with_plan(chain, plan), changes


def forward_and_back(problem: Problem, plan: Plan) -> dict[int, float]:
    """Forward operator -> seconds of one micro-batch, its gradients included, where it is."""
    both_s: dict[int, float] = {}
    for stage in plan.stages:
        kind = problem.cluster.devices[stage.devices[0]].kind
        seconds = problem.compute.at(kind, stage.micro_batch_size / len(stage.devices))
        for o in stage.operators:
            operator = problem.graph.operators[o]
            if operator.phase is not Phase.UPDATE:
                forward = o if operator.forward_of is None else operator.forward_of
                both_s[forward] = both_s.get(forward, 0.0) + float(seconds[o])
    return both_s


def with_moved(graph: OpGraph, plan: Plan, to: Mapping[int, int]) -> Plan:
    """The plan with forward operators, and what mirrors them, in other stages. Raises UnsupportedProblem if nothing
    would be left of a stage."""
    sets = [set(stage.operators) for stage in plan.stages]
    for o, operator in enumerate(graph.operators):
        forward = o if operator.forward_of is None else operator.forward_of
        if forward in to:
            for each in sets:
                each.discard(o)
            sets[to[forward]].add(o)
    for number, each in enumerate(sets):
        if not any(graph.operators[o].phase is Phase.FORWARD for o in each):
            raise UnsupportedProblem(
                f"whole modules would leave nothing in stage {number}: plan with fewer devices, or pin the modules"
            )
    stages = (
        stage.holding(tuple(o for o in graph.topological_order if o in operators))
        for stage, operators in zip(plan.stages, sets, strict=True)
    )
    return replace(plan, stages=tuple(stages), messages=())


def cost(problem: Problem, before: Plan, after: Plan) -> str:
    """A sentence: what the objective was and is predicted to be, or why the plan does not hold any more."""
    was = evaluate(problem, before).objective_s(problem.objective)
    try:
        broken = check(problem, after)
        now = evaluate(problem, after).objective_s(problem.objective)
    except PlacementError as error:
        return f"the plan snapped to module boundaries cannot be predicted: {error}"
    change = text.percent(abs(now / was - 1)) if was else "?"
    way = "slower" if now > was else "faster"
    sentence = f"predicted {problem.objective}, snapped to module boundaries: {text.seconds(now)}, {change} {way}"
    sentence += " than the plan's"
    sentence += f" {text.seconds(was)}" if now != was else ""
    return sentence + (f"; and it breaks a rule: {broken[0]}" if broken else "")


def _sentence(unit: Unit, moving: list[int], best: int, share: Mapping[int, float], stages: tuple[int, ...]) -> str:
    total = sum(share.values())
    part = f", which does {text.percent(share[best] / total)} of its work" if total else ""
    others = " and ".join(str(s) for s in stages if s != best)
    return f"{unit.name} is whole in stage {best}{part}: {text.plural(len(moving), 'operator')} moved from {others}"


def _follow(chain: Chain, model: Units, to: dict[int, int]) -> None:
    """Operators between the modules move along, so that none reads of a later stage."""
    graph = chain.graph
    at = {o: to.get(o, min(stages)) for o, stages in chain.homes.items()}
    outside = set(model.outside)
    for o in graph.topological_order:
        if o in outside:
            at[o] = max([at[o], *(at[p] for p in graph.predecessors[o] if p in at and not _replicable(graph, p))])
    for o in reversed(graph.topological_order):
        if o in outside:
            at[o] = min([at[o], *(at[s] for s in graph.successors[o] if s in at)])
    to |= {o: at[o] for o in outside if at[o] not in chain.homes[o]}


def _replicable(graph: OpGraph, operator: int) -> bool:
    return graph.operators[operator].replicable
