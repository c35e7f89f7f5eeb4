"""What pins say of a question beside where operators are: what must share a device, and what cannot."""

from __future__ import annotations

from dataclasses import replace

from solvers.problem.groups import together
from solvers.problem.problem import Problem


def pinned_groups(problem: Problem) -> dict[int, list[int]]:
    """Device -> the numbers of the co-location groups (see `together`) that are pinned to it, ascending."""
    groups: dict[int, list[int]] = {}
    for number, group in enumerate(together(problem.graph)):
        for device in {problem.pins[o] for o in group if o in problem.pins}:
            groups.setdefault(device, []).append(number)
    return groups


def pin(problem: Problem, placement: list[tuple[int, ...]]) -> None:
    """Put what is pinned, and what must share its device, there. placement: devices of every operator."""
    groups = together(problem.graph)
    for device, numbers in pinned_groups(problem).items():
        for operator in (o for number in numbers for o in groups[number]):
            placement[operator] = (device,)


def with_pins_together(problem: Problem) -> Problem:
    """The same question, with what is pinned to one device as one co-location group: every plan of one is a plan of
    the other, and planners of co-located operators know of it before they look at devices."""
    groups = together(problem.graph)
    several = {device: numbers for device, numbers in pinned_groups(problem).items() if len(numbers) > 1}
    if not several:
        return problem
    label = {o: f"pinned to {d}" for d, numbers in several.items() for number in numbers for o in groups[number]}
    operators = tuple(
        replace(operator, colocation=label.get(i, operator.colocation))
        for i, operator in enumerate(problem.graph.operators)
    )
    return replace(problem, graph=replace(problem.graph, operators=operators))
