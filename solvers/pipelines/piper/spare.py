"""Devices that the best chain leaves over, spent on its longest stages.

Where one layer sets the bottleneck, a chain of few stages has it as well as one of many, but only the
program's objective calls them equal: an iteration also takes the time to fill and drain.
"""

from __future__ import annotations

from collections.abc import Iterator

from solvers.contiguous.downsets import Check
from solvers.pipelines.piper.costed import Costed, PiperStage

BETTER = 1 - 1e-9


def spend_spare_devices(costed: Costed, stages: tuple[PiperStage, ...], check: Check) -> tuple[PiperStage, ...]:
    """The chain after splitting its longest stages, or giving them more replicas, while devices are left, that
    makes them shorter and everything still fits. Calls ``check`` often.

    A stage is split into consecutive nodes; the second part has as many replicas as the first, or one.
    """
    done: set[tuple[int, ...]] = set()
    while True:
        spare = costed.most_devices - sum(int(costed.costs.devices[stage.option]) for stage in stages)
        waiting = [i for i, stage in enumerate(stages) if stage.nodes not in done]
        if spare <= 0 or not waiting:
            return stages
        longest = max(waiting, key=lambda i: stages[i].seconds)
        best, best_s = stages, stages[longest].seconds
        for parts in _ways(costed, stages[longest], spare):
            check()
            chain = _measured(costed, (*stages[:longest], *parts, *stages[longest + 1 :]))
            if chain is None:
                continue
            seconds = max(stage.seconds for stage in chain[longest : longest + len(parts)])
            if seconds < best_s * BETTER and max(s.seconds for s in chain) <= max(s.seconds for s in stages):
                best, best_s = chain, seconds
        if best is stages:
            done.add(stages[longest].nodes)
        stages = best


def _ways(costed: Costed, stage: PiperStage, spare: int) -> Iterator[tuple[PiperStage, ...]]:
    """What a stage may become with so many more devices; times are still to be measured."""
    own = int(costed.costs.devices[stage.option])

    def part(nodes: tuple[int, ...], option: int) -> PiperStage:
        return PiperStage(nodes, option, 0)

    for option, devices in enumerate(costed.costs.devices.tolist()):
        if own < devices <= own + spare:
            yield (part(stage.nodes, option),)
    for cut in range(1, len(stage.nodes)):
        for option in {stage.option, 0}:
            if costed.costs.devices[option] <= spare:
                yield part(stage.nodes[:cut], stage.option), part(stage.nodes[cut:], option)
                if option != stage.option:
                    yield part(stage.nodes[:cut], option), part(stage.nodes[cut:], stage.option)


def _measured(costed: Costed, stages: tuple[PiperStage, ...]) -> tuple[PiperStage, ...] | None:
    """The stages with the micro-batches in flight that the chain asks for; None if one does not fit."""
    measured: list[PiperStage] = []
    total = 0
    for stage in reversed(stages):
        degree = int(costed.costs.degrees[stage.option])
        total += degree
        flights = min(-(-total // degree), int(costed.costs.flights[stage.option]))
        known = stage if stage.flights == flights else costed.measured(stage.nodes, stage.option, flights)
        if known is None or total > costed.most_sum:
            return None
        measured.append(known)
    return tuple(reversed(measured))
