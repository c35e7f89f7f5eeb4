"""Small problems whose runs are made up, and what is said of them."""

from __future__ import annotations

from explorer.runner.bundles.outcome import MeasuredAction, Outcome, RunStatus
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.graph import Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Objective, Problem
from solvers.schedules.assemble import assemble
from tests.instances import problem, training_graph


def two_devices(**options: object) -> tuple[Problem, Plan]:
    """a on device 0 and b on device 1, forward 1 s and backward 2 s a sample, messages 1 s, two micro-batches of
    one sample: 0F0 0F1 0B0 0B1 and 1F0 1B0 1F1 1B1, which take 11 s."""
    options = {"objective": Objective.ITERATION, "mini_batch": 2, "micro_batches": 2, **options}
    given = problem(training_graph([(0, 1)], 2, nbytes=1.0), [1, 1, 2, 2], 2, **options)
    return given, assemble(given, [(0,), (1,), (0,), (1,)], 2)


def one_operator(seconds: list[float], micro_batches: int = 1, **options: object) -> tuple[Problem, Plan]:
    """Forward, gradients of inputs and of parameters, and the update of one operator, on one device."""
    operators = (
        Operator("a", param_bytes=1.0),
        Operator("a.I", phase=Phase.BACKWARD_INPUT, forward_of=0),
        Operator("a.W", phase=Phase.BACKWARD_WEIGHT, forward_of=0),
        Operator("a.U", phase=Phase.UPDATE, forward_of=0),
    )
    graph = OpGraph(operators, (Tensor(0, (1, 2)), Tensor(2, (3,))))
    options = {"objective": Objective.ITERATION, "mini_batch": micro_batches, "micro_batches": micro_batches, **options}
    return problem(graph, seconds, 1, **options), Plan(
        (Stage((0, 1, 2, 3), (0,), 1, micro_batches, recompute=bool(options.get("recompute"))),),
        ((*(Action(0, k, j) for k in "FIW" for j in range(micro_batches)), Action(0, "U")),),
    )


def outcome(actions: str, lengths: tuple[float, ...] = (), **options: object) -> Outcome:
    """One rank on device 0 with one segment: "0F0 2 0B0 3 | ..." are actions with their seconds, an iteration
    after the other."""
    measured: list[MeasuredAction] = []
    ends = []
    for iteration, line in enumerate(actions.split("|")):
        words = line.split()
        end = 0.0
        for name, seconds in zip(words[::2], map(float, words[1::2]), strict=True):
            measured.append(MeasuredAction(0, iteration, name, end, end + seconds))
            end += seconds
        ends.append(end)
    return Outcome(RunStatus.DONE, iterations_s=lengths or tuple(ends), actions=tuple(measured), segments=((0,),),
                   rank_devices=(0,), **options)  # type: ignore[arg-type]  # fmt: skip
