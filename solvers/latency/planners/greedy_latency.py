"""Fill one accelerator after the other in topological order: the published baseline for latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solvers.kernels.arrays import Ints, members_of
from solvers.latency.model import LatencyModel, unsupported
from solvers.latency.planners.latency_common import blocks_of, models, offer_places, on_cpus
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor


@dataclass(frozen=True)
class GreedyLatency:
    """Blocks of operators that must stay together, in topological order, each on the accelerator that
    is being filled, or on the next one if it does not fit; blocks too large, and what is left when the
    last accelerator is full, on CPUs."""

    name: ClassVar[str] = "greedy-latency"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 6 (greedy)"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        block_of = blocks_of(problem)
        for model in models(problem, monitor):
            for place in greedy_places(model, block_of):
                monitor.check()
                offer_places(model, monitor, place)
        return False


def greedy_places(model: LatencyModel, block_of: Ints) -> list[Ints]:
    """The greedy placement; and one in which a block on a CPU ends the accelerator being filled, so that
    one piece per accelerator is enough, if that differs."""
    order = _blocks_in_order(model, block_of)
    members = members_of(block_of.tolist(), len(order))
    placements: list[Ints] = []
    for ends in (False, True):
        place = _fill(model, [members[block] for block in order], ends)
        if not any((place == other).all() for other in placements):
            placements.append(place)
    return placements


def _fill(model: LatencyModel, blocks: list[list[int]], cpu_ends: bool) -> Ints:
    place = on_cpus(model)
    accelerator, held = 0, 0.0
    for block in blocks:
        groups = sorted({int(model.group_of[o]) for o in block})
        nbytes = float(model.group_bytes[groups].sum())

        def takes(device: int, taken: float, groups: list[int] = groups, nbytes: float = nbytes) -> bool:
            return bool(model.allowed[groups, device].all()) and taken + nbytes <= model.caps[device]

        if accelerator < model.accelerators and takes(accelerator, held):
            place[block] = accelerator
            held += nbytes
        elif any(takes(device, 0.0) for device in range(accelerator + 1, model.accelerators)):
            while not takes(accelerator, held):
                accelerator, held = accelerator + 1, 0.0
            place[block] = accelerator
            held = nbytes
        elif cpu_ends and held > 0:
            accelerator, held = accelerator + 1, 0.0
    return place


def _blocks_in_order(model: LatencyModel, block_of: Ints) -> list[int]:
    """A topological order of the blocks that follows a branch to its end before it turns to the next."""
    graph = model.problem.graph
    blocks = block_of.tolist()
    after: list[list[int]] = [[] for _ in range(max(blocks) + 1)]
    waiting = np.zeros(len(after), np.int64)
    for operator in range(len(graph)):
        for tensor in graph.outputs[operator]:
            for reader in graph.tensors[tensor].consumers:
                if blocks[reader] != blocks[operator]:
                    after[blocks[operator]].append(blocks[reader])
                    waiting[blocks[reader]] += 1
    ready = [block for block in dict.fromkeys(blocks) if waiting[block] == 0]
    order = []
    while ready:
        block = ready.pop()
        order.append(block)
        for target in after[block]:
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    return order
