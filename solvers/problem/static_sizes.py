"""The size of every operator on its device, as planners count it that know no time."""

from __future__ import annotations

from solvers.problem.problem import Problem


def static_sizes(problem: Problem) -> tuple[float, ...]:
    """Bytes of each operator: its parameters with gradients and optimizer states and, in training, what it saves
    of the whole mini-batch, whether or not all of it is ever held at once. For `Problem.stated_bytes`.

    What Pesto (Middleware 2021) and Baechi (SoCC 2020) hold against a device's memory: a sum over its operators.
    Workspace and buffers of transfers, which come and go, are not part of it.
    """
    saves = problem.has_backward()
    held = problem.held_by_kind().total().tolist()
    return tuple(
        parameters + saves * operator.saved_bytes.at(problem.mini_batch)
        for operator, parameters in zip(problem.graph.operators, held, strict=True)
    )
