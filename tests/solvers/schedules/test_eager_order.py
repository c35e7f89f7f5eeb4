"""The order of devices that run several stages, against looking at every action before each step."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from solvers.errors import InvalidPlan
from solvers.plan.plan import PHASES_OF, Action, Stage
from solvers.problem.problem import Pipeline, Problem
from solvers.schedules.ordering.eager_order import Waits, eager_order
from solvers.schedules.ordering.orders import kinds_of, stage_waits
from tests.random_problems import random_problem


def step_by_step(problem: Problem, stages: Sequence[Stage], waits: Waits, kinds: Sequence[str]) -> list[list[Action]]:
    """What `eager_order` promises, said plainly."""
    count = [problem.mini_batch // stage.micro_batch_size for stage in stages]
    ended: dict[tuple[int, str], list[float]] = {(s, k): [] for s in range(len(stages)) for k in "FB" if k in kinds[s]}
    free = [0.0] * len(problem.cluster)
    orders: list[list[Action]] = [[] for _ in free]

    def seconds(s: int, kind: str) -> float:
        stage, operators = stages[s], problem.graph.operators
        device = problem.cluster.devices[stage.devices[0]]
        times = problem.compute.at(device.kind, stage.micro_batch_size / len(stage.devices))
        shown = times[[o for o in stage.operators if operators[o].phase in PHASES_OF[kind]]].sum()
        return float(shown) + (seconds(s, "F") if kind == "B" and stage.recompute else 0.0)

    def start(s: int, kind: str) -> float | None:
        j = len(ended[s, kind])
        if j == count[s]:
            return None
        if kind == "F" and (s, "B") in ended and j - len(ended[s, "B"]) >= stages[s].in_flight:
            return None
        sources = [(x, k) for k in "FB" for x in waits[k, kind][s]]
        if kind == "B" and (s, "F") in ended:
            sources.append((s, "F"))
        times = [free[device] for device in stages[s].devices]
        for x, k in sources:
            needed = -(-(j + 1) * stages[s].micro_batch_size // stages[x].micro_batch_size)
            if len(ended[x, k]) < needed:
                return None
            times.append(ended[x, k][needed - 1])
        return max(times)

    for _ in range(sum(count[s] for s, _ in ended)):
        ready = [
            (
                when,
                (kind == "B") == (problem.pipeline is Pipeline.GPIPE),
                len(ended[s, kind]) * stages[s].micro_batch_size,
                -s if kind == "F" else s,
                s,
                kind,
            )
            for s, kind in ended
            if (when := start(s, kind)) is not None
        ]
        if not ready:
            raise InvalidPlan("stuck")
        when, *_, s, kind = min(ready)
        for device in stages[s].devices:
            free[device] = when + seconds(s, kind)
            orders[device].append(Action(s, kind, len(ended[s, kind])))
        ended[s, kind].append(when + seconds(s, kind))
    return orders


def stages_of(rng: random.Random, problem: Problem) -> list[Stage]:
    """The operators in order, or by the forward operator they mirror, in stages on any devices."""
    operators = problem.graph.operators
    parts = rng.randint(1, 5)
    home = [o if operator.forward_of is None else operator.forward_of for o, operator in enumerate(operators)]
    first = max(home) + 1
    label = [min(parts - 1, h * parts // first) for h in home]
    devices = range(len(problem.cluster))
    size = rng.choice([1, 2, 4])
    return [
        Stage(
            tuple(o for o in problem.graph.topological_order if label[o] == part),
            tuple(rng.sample(devices, rng.randint(1, min(2, len(devices))))),
            rng.choice([1, 2, 4]) if rng.random() < 0.2 else size,
            rng.randint(1, 4),
            rng.random() < 0.3,
        )
        for part in sorted(set(label))
    ]


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_the_order_is_that_of_looking_at_every_action(first: int) -> None:
    ran = stuck = 0
    for seed in range(first, first + 50):
        rng = random.Random(seed)
        p = random_problem(seed, largest=7, cpus=0)
        stages = stages_of(rng, p)
        try:
            waits = stage_waits(p.graph, [stage.operators for stage in stages])
        except InvalidPlan:
            continue
        kinds = [kinds_of(p, stage) for stage in stages]
        try:
            expected = step_by_step(p, stages, waits, kinds)
        except InvalidPlan:
            stuck += 1
            with pytest.raises(InvalidPlan, match="wait for each other"):
                eager_order(p, stages, waits, kinds)
            continue
        ran += 1
        assert eager_order(p, stages, waits, kinds) == expected
    assert ran > 25
