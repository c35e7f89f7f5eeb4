"""The operators of one rank's segments, timed one by one in place after a run, with the tensors of the run."""

from __future__ import annotations

from explorer.runner.bundles.progress import tell
from explorer.runner.engine.machine import Machine
from explorer.runner.measuring.operator_times import Subject, measure
from solvers.problem.graph import OpGraph, Phase

BUDGET_S = 2.0
"""Of one rank, for all its segments; each is run a few times in any case."""


def operator_seconds(machine: Machine, graph: OpGraph) -> dict[str, float]:
    """Operator name -> seconds for one replica's share of a micro-batch; without updates. Every rank calls it:
    all measure at the same time, as they run. The parameters' gradients are not those of a run afterwards."""
    tell("measuring operators")
    for stage in machine.stages.values():
        stage.remembers = True
    machine.iterate()
    found: dict[str, float] = {}
    for number, stage in machine.stages.items():
        tell("measuring operators", len(found), len(graph))
        module = stage.program.module
        subject = Subject(
            graph,
            module,
            stage.remembered,
            machine.program.owners(module),
            machine.script.segments[number].share,
            machine.device,
        )
        measured = measure(subject, BUDGET_S / len(machine.stages))
        mine = set(machine.script.segments[number].operators)
        for position, operator in enumerate(graph.operators):
            home = position if operator.forward_of is None else operator.forward_of
            if home in mine and operator.phase is not Phase.UPDATE:
                found[operator.name] = measured.seconds[position]
        stage.remembers, stage.remembered = False, ()
    return found
