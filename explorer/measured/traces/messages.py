"""What a rank's trace says of messages: a trace names none, but a rank that had nothing to do until it went on after
another had ended an action waited for what that action made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from explorer.measured.traces.actions import TimedAction
from explorer.measured.traces.clocks import Edge
from explorer.runner.bundles.outcome import MeasuredAction, MeasuredMessage
from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem

KINDS_OF = {Phase.FORWARD: "F", Phase.BACKWARD_INPUT: "BI", Phase.BACKWARD_WEIGHT: "BW"}
"""The kinds of actions that run a phase."""

Crossing = tuple[int, int, Phase]
"""A stage that sends to another in a phase."""
Key = tuple[int, str, int]
"""Stage, kind and micro-batch of an action."""


def crossings(problem: Problem, plan: Plan) -> dict[Crossing, float]:
    """Bytes of a micro-batch that one stage sends another on another device; of stages with one device each."""
    graph = problem.graph
    stage_of = {o: stage for stage, held in enumerate(plan.stages) for o in held.operators}
    nbytes: dict[Crossing, float] = defaultdict(float)
    summed: set[tuple[Crossing, object]] = set()
    for tensor in graph.tensors:
        sender, phase = stage_of.get(tensor.producer, -1), graph.operators[tensor.producer].phase
        readers = {
            stage_of[reader]
            for reader in tensor.consumers
            if reader in stage_of and (graph.operators[reader].phase is Phase.FORWARD) == (phase is Phase.FORWARD)
        }
        if sender < 0 or phase not in KINDS_OF or len(plan.stages[sender].devices) > 1:
            continue
        for reader in readers:
            held = plan.stages[reader].devices
            crossing = sender, reader, phase
            if len(held) > 1 or held == plan.stages[sender].devices or (crossing, tensor.sum_group) in summed:
                continue
            if tensor.sum_group is not None:  # gradients that are added before they are sent
                summed.add((crossing, tensor.sum_group))
            nbytes[crossing] += tensor.nbytes.at(plan.stages[sender].micro_batch_size)
    return dict(nbytes)


def edges(crossing: Mapping[Crossing, float], iteration: Sequence[Sequence[TimedAction]]) -> list[Edge]:
    """Of every message of an iteration the ranks and how long after its sender's end its reader began, by their clocks.
    iteration: the actions of each rank."""
    ranks = {
        (one.action.stage, one.action.kind, one.action.micro_batch): (rank, one)
        for rank, each in enumerate(iteration)
        for one in each
    }
    return [
        (sender[0], reader[0], reader[1].start_us - sender[1].end_us)
        for sent, read, _ in _pairs(crossing, ranks)
        for sender, reader in [(ranks[sent], ranks[read])]
    ]


def messages(
    crossing: Mapping[Crossing, float], actions: Sequence[MeasuredAction], keys: Sequence[Key]
) -> Iterator[MeasuredMessage]:
    """The messages of one iteration: sent when their action ended, there when the action that reads them began; waited
    for where the reader had nothing else to do since. keys: of the actions."""
    at = dict(zip(keys, actions, strict=True))
    for number, (sent, read, nbytes) in enumerate(_pairs(crossing, at)):
        sender, reader = at[sent], at[read]
        waited = reader.wait_s > 0 and sender.end_s >= reader.start_s - reader.wait_s and reader.start_s > sender.end_s
        yield MeasuredMessage(
            number, read[2], sender.rank, reader.rank, reader.iteration, reader.action, round(nbytes),
            sender.end_s, max(reader.start_s, sender.end_s), waited,
        )  # fmt: skip


def _pairs(crossing: Mapping[Crossing, float], at: Mapping[Key, object]) -> Iterator[tuple[Key, Key, float]]:
    """(action that sends, action that reads, bytes) of every message of an iteration."""
    for stage, kind, micro_batch in at:
        for (sender, reader, phase), nbytes in crossing.items():
            if sender != stage or kind not in KINDS_OF[phase]:
                continue
            kinds = [other for other in KINDS_OF[phase] if (reader, other, micro_batch) in at]
            if kinds:
                yield (stage, kind, micro_batch), (reader, kinds[0], micro_batch), nbytes
