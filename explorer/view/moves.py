"""What a transfer carries: the operator that sends, and the one that waits for it."""

from __future__ import annotations

import math
from collections import defaultdict

from explorer.view.actions import parsed
from solvers.problem import Problem
from solvers.schedule import Schedule, Span

UNKNOWN = (-1, -1)
SAME_BYTES = 1e-9
"""Relative difference up to which a tensor is what a transfer moves."""


def endpoints(problem: Problem, schedule: Schedule) -> list[tuple[int, int]]:
    """Per span (sender, reader) as operators: of a transfer in a schedule of single operators, the one that
    made what is sent and the first to run that reads it there; of an operator, itself twice.

    -1 where a span is no single operator, or nobody reads what is sent (the sender's half of a transfer).
    """
    ran: dict[tuple[int, str], list[Span]] = defaultdict(list)
    start: dict[int, float] = {}
    for span in schedule.spans:
        if span.operator >= 0:
            ran[span.device, span.action].append(span)
            start.setdefault(span.operator, span.start_s)
    place = {span.operator: span.device for span in schedule.spans if span.operator >= 0}
    found = []
    for span in schedule.spans:
        if span.operator >= 0:
            found.append((span.operator, span.operator))
        elif not span.is_transfer:
            found.append(UNKNOWN)
        else:
            found.append(_of_transfer(problem, span, ran[span.device, span.action.partition(">")[0]], place, start))
    return found


def _of_transfer(
    problem: Problem, span: Span, senders: list[Span], place: dict[int, int], start: dict[int, float]
) -> tuple[int, int]:
    graph = problem.graph
    slack = 1e-9 * max(1e-6, span.end_s)
    best: tuple[bool, float, int, int] | None = None
    for sender in senders:
        if sender.end_s > span.start_s + slack:
            continue
        for t in graph.outputs[sender.operator]:
            tensor = graph.tensors[t]
            exact = math.isclose(tensor.nbytes.at(problem.mini_batch), span.nbytes, rel_tol=SAME_BYTES)
            for reader in tensor.consumers:
                if place.get(reader) != span.to_device or start[reader] < span.end_s - slack:
                    continue
                told = (not exact, start[reader], sender.operator, reader)
                best = told if best is None or told < best else best
    if best is not None:
        return best[2], best[3]
    last = max(senders, key=lambda s: s.end_s, default=None)
    return (last.operator if last is not None and parsed(span.action)[0] >= 0 else -1), -1
