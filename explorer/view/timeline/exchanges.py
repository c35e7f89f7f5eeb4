"""What of a schedule's compute is exchange among the members of tensor-parallel groups: a view of the times that are
simulated already, in which an operator takes as long as its compute and its exchange, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from explorer.question.nodes.groups import all_reduce_steps, exchange_s
from explorer.words.actions import action_parts
from solvers.plan.plan import Plan
from solvers.plan.schedule import Span
from solvers.problem.cluster import Link
from solvers.problem.collectives import RING, exchange_kind
from solvers.problem.graph import Operator, Phase
from solvers.problem.problem import Objective, Problem
from solvers.problem.regions import regions_of


class Exchange(NamedTuple):
    """What members of a group exchange, each of them: seconds, one message after the other; bytes."""

    seconds: float
    nbytes: float


NO_EXCHANGE = Exchange(0.0, 0.0)
OfActions = Mapping[tuple[int, str], Exchange]
"""By stage and kind of action (F, B, I, W or U)."""
OfSpan = Callable[[Span], Exchange]
_KIND = {Phase.FORWARD: "F", Phase.BACKWARD_INPUT: "I", Phase.BACKWARD_WEIGHT: "W", Phase.UPDATE: "U"}


def exchange_of(problem: Problem, operator: Operator, samples: float) -> Exchange:
    """What an operator exchanges when it runs on so many samples; none where it is not known over what."""
    if not operator.exchanges:
        return NO_EXCHANGE
    link, sums_over, graph = problem.group_link, problem.group_sum_link, problem.graph
    members = operator.members or graph.tensor_parallel // graph.outer_degree
    if exchange_kind(operator) != RING and operator.exchange_steps >= all_reduce_steps(members):
        link = link if sums_over is None else sums_over
    inner = _sent_over(link, operator.exchange_steps, operator.exchanged_bytes.at(samples))
    outer = _sent_over(problem.outer_link, operator.outer_steps, operator.outer_bytes.at(samples))
    return Exchange(inner.seconds + outer.seconds, inner.nbytes + outer.nbytes)


def _sent_over(link: Link | None, steps: int, nbytes: float) -> Exchange:
    if link is None or not steps:
        return NO_EXCHANGE
    return Exchange(exchange_s(steps, link.latency_s, nbytes, link.bandwidth_bytes_per_s), nbytes)


def exchanges(problem: Problem, plan: Plan) -> OfActions:
    """What each action of a stage exchanges for a micro-batch, forwards that run again before their backward once more;
    {} where devices are no groups."""
    if problem.group_link is None and problem.outer_link is None:
        return {}
    operators = problem.graph.operators
    again = {
        operator
        for members in (regions_of(problem.graph).members.values() if problem.plain is not None else ())
        for operator in members
        if not operators[operator].cached
    }
    of_action: dict[tuple[int, str], Exchange] = {}
    for number, stage in enumerate(plan.stages):
        size = problem.mini_batch if problem.objective is Objective.MAKESPAN else stage.micro_batch_size
        for position in stage.operators:
            operator = operators[position]
            each = exchange_of(problem, operator, size / len(stage.devices))
            kind = _KIND[operator.phase]
            kinds = {"F": "F", "U": "U"}.get(kind, f"B{kind}")
            if kind == "F" and (stage.recompute or position in again):
                kinds += "BI"
            for one in kinds if each.seconds else "":
                before = of_action.get((number, one), NO_EXCHANGE)
                of_action[number, one] = Exchange(before.seconds + each.seconds, before.nbytes + each.nbytes)
    return of_action


def of_iteration(problem: Problem, plan: Plan, device: int) -> float:
    """Seconds for which each member of a device exchanges in an iteration."""
    total = 0.0
    for (stage, kind), each in exchanges(problem, plan).items():
        passes = 1 if kind == "U" else problem.mini_batch // plan.stages[stage].micro_batch_size
        if kind in "FBU" and device in plan.stages[stage].devices:
            total += passes * each.seconds
    return total


def of_spans(problem: Problem, plan: Plan) -> OfSpan:
    """What a span of the plan's schedule exchanges among the members of its device, at most as long as it is."""
    by_action = exchanges(problem, plan)

    def of(span: Span) -> Exchange:
        if span.is_transfer or not by_action:
            return NO_EXCHANGE
        stage, kind, _ = action_parts(span)
        if span.operator >= 0:
            exchange = exchange_of(problem, problem.graph.operators[span.operator], problem.mini_batch)
        else:
            exchange = by_action.get((stage, kind), NO_EXCHANGE)
        return exchange._replace(seconds=min(exchange.seconds, span.end_s - span.start_s))

    return of


def tensor_placements(problem: Problem) -> dict[str, str] | None:
    """What each forward operator's output is to the members of a group, by name; None where tensors are whole."""
    if problem.graph.tensor_parallel == 1:
        return None
    return {one.name: one.placement for one in problem.graph.operators if one.phase is Phase.FORWARD and one.placement}


def exchanges_object(problem: Problem, plan: Plan) -> list[dict[str, object]] | None:
    """The operators that exchange among members of a group, each with the kind, the bytes that a member sends for a
    micro-batch and the seconds that this takes; None where tensors are whole."""
    if problem.graph.tensor_parallel == 1:
        return None
    rows: list[dict[str, object]] = []
    for stage in plan.stages:
        size = problem.mini_batch if problem.objective is Objective.MAKESPAN else stage.micro_batch_size
        for operator in (problem.graph.operators[position] for position in stage.operators):
            if operator.exchanges:
                seconds, nbytes = exchange_of(problem, operator, size / len(stage.devices))
                kind = exchange_kind(operator)
                rows.append({"operator": operator.name, "kind": kind, "bytes": nbytes, "seconds": seconds})
    return rows
