"""What stages that offload send to their hosts and fetch back: by hand, computed twice, and with faults."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import HostTraffic, host_traffic, judge
from solvers.evaluation.simulation import run, simulate
from solvers.formats.plan_json import read_plan, write_plan
from solvers.plan.plan import Plan, Stage
from solvers.plan.schedule import Schedule
from solvers.problem.graph import Phase
from solvers.problem.problem import Objective, Pipeline, Problem, Transfers
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.instances import GPU, problem, training_graph
from tests.oracle.compare import disagreement
from tests.solvers.plan.test_alike import many
from tests.solvers.verify.valid_plans import Case, valid_cases


def example(speed: float = 6.0, **options: object) -> tuple[Problem, Plan]:
    """One stage that saves 6 bytes of each of 4 micro-batches, all forwards first: forwards take 1 s, backwards 2 s."""
    fields = {"mini_batch": 4, "micro_batches": 4, "pipeline": Pipeline.GPIPE, "host_links": {GPU: speed}, **options}
    p = problem(training_graph([], 1, saved=6.0), [1.0, 2.0], 1, **fields)  # type: ignore[arg-type]
    return p, offloading(p, assemble(p, [(0,), (0,)], 4))


def offloading(
    p: Problem, plan: Plan, only: Callable[[int, Stage], bool] = lambda _, stage: not stage.recompute
) -> Plan:
    """Stages for which ``only`` holds offload all."""
    forward = {o for o, operator in enumerate(p.graph.operators) if operator.phase is Phase.FORWARD}
    stages = (
        replace(stage, offload=tuple(o for o in stage.operators if o in forward and only(index, stage)))
        for index, stage in enumerate(plan.stages)
    )
    return replace(plan, stages=tuple(stages))


def lanes(schedule: Schedule) -> dict[str, list[tuple[float, float]]]:
    by_lane: dict[str, list[tuple[float, float]]] = {}
    for span in schedule.spans:
        if "host" in span.resource:
            by_lane.setdefault(span.resource, []).append((span.start_s, span.end_s))
    return by_lane


def test_the_example_of_the_docs() -> None:
    """Copies of 1 s; those back begin with the action before the backward, the first beside the last forward."""
    p, plan = example()
    simulation = simulate(p, plan)
    assert lanes(simulation) == {
        "to host 0": [(1, 2), (2, 3), (3, 4), (4, 5)],
        "from host 0": [(3, 4), (4, 5), (6, 7), (8, 9)],
    }
    assert simulation.makespan_s == 12
    assert simulation.peak_bytes() == (18,)
    assert verify(p, plan, simulation) == ()
    whole = replace(plan, stages=tuple(replace(stage, offload=()) for stage in plan.stages))
    assert simulate(p, whole).peak_bytes() == (24,)


def test_a_slow_link_is_waited_for() -> None:
    """Copies of 4 s: to the host 1-5, 5-9, 9-13, 13-17, back 5-9, 9-13, 13-17, 17-21; the last backward takes 2."""
    p, plan = example(1.5)
    simulation = simulate(p, plan)
    assert simulation.makespan_s == 23
    assert verify(p, plan, simulation) == ()
    assert host_traffic(p, plan) == HostTraffic(nbytes=24.0, busiest_s=32.0, exposed_s=11.0)


def test_what_is_needed_next_stays() -> None:
    p, _ = example(micro_batches=None)
    two = offloading(p, assemble(p, [(0,), (0,)], 2))
    assert lanes(simulate(p, two)) == {}
    assert simulate(p, two).peak_bytes() == (24,)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"host_links": {}}, "not allowed"),
        ({"host_links": {"other": 1.0}}, "device 0 has no link"),
        ({"objective": Objective.MAX_LOAD}, "training in micro-batches"),
        ({"stated_bytes": (1.0, 1.0)}, "training in micro-batches"),
    ],
)
def test_where_it_may_not_be(options: dict[str, object], why: str) -> None:
    p, plan = example()
    question = replace(p, **options)  # type: ignore[arg-type]
    assert why in judge(question, plan).violation
    assert verify(question, plan, simulate(p, plan))


def test_a_stage_does_not_both_recompute_and_offload() -> None:
    with pytest.raises(InvalidPlan, match="choose one"):
        Stage((0,), (0,), recompute=True, offload=(0,))


def test_a_file_gives_it_back_and_one_without_is_as_it_was() -> None:
    p, plan = example()
    text = write_plan(p, plan)
    file = read_plan(text)
    assert file.plan == plan
    assert file.problem.host_links == {GPU: 6.0}
    plain = replace(plan, stages=tuple(replace(stage, offload=()) for stage in plan.stages))
    assert "offload" not in (without := write_plan(replace(p, host_links={}), plain))
    assert "host_links" not in without


def cases(transfers: Transfers, seeds: int = 40) -> list[Case]:
    """Random pipelines whose every stage that may offload does."""
    drawn = []
    for number, case in enumerate(valid_cases("pipeline", transfers, seeds)):
        split = {a.stage for row in case.plan.order for a in row if a.kind in "IW"}
        speed = (0.5, 2.0, 20.0)[number % 3]
        p = replace(case.problem, host_links={d.kind: speed for d in case.problem.cluster.devices if not d.is_cpu})
        rng = random.Random(number)

        def may(index: int, stage: Stage) -> bool:
            return not stage.recompute and index not in split and not p.no_offload(stage.devices)  # noqa: B023

        plan = offloading(p, case.plan, may)
        if number % 2:  # half of what each stage could
            stages = (replace(s, offload=tuple(o for o in s.offload if rng.random() < 0.5)) for s in plan.stages)
            plan = replace(plan, stages=tuple(stages))
        if any(stage.offload for stage in plan.stages):
            drawn.append(Case(case.sort, p, replace(plan, messages=())))
    return drawn


@pytest.mark.parametrize("transfers", list(Transfers))
def test_the_oracle_and_verify_tell_the_same_of_random_plans(transfers: Transfers) -> None:
    copied = 0
    for case in cases(transfers):
        assert disagreement(case.problem, case.plan, Objective.ITERATION) == ""
        simulation = simulate(case.problem, case.plan)
        assert verify(case.problem, case.plan, simulation) == ()
        copied += bool(lanes(simulation))
    assert copied > 3


def faults(case: Case, true: Schedule, rng: random.Random) -> dict[str, Schedule]:
    """Schedules of other links, other stages, and with a copy of another length, size, place or none."""
    p, plan, c = case.problem, case.plan, true.columns
    at = rng.choice([i for i, r in enumerate(c.resource.tolist()) if "host" in true.resources[r]])
    slower = replace(p, host_links={kind: speed / 1.5 for kind, speed in p.host_links.items()})
    one = rng.choice([i for i, stage in enumerate(plan.stages) if stage.offload])
    most = max(plan.stages[one].offload, key=lambda o: p.graph.operators[o].saved_bytes.at(1))
    less = tuple(replace(stage, offload=tuple(o for o in stage.offload if o != most)) for stage in plan.stages)
    others = {"a slower link": simulate(slower, plan), "an operator less": simulate(p, replace(plan, stages=less))}

    def changed(**columns: np.ndarray) -> Schedule:
        return replace(true, columns=c._replace(**columns), critical=())

    longer, bytes_, elsewhere = c.end_s.copy(), c.nbytes.copy(), c.resource.copy()
    longer[at] = (c.start_s[at] + c.end_s[at]) / 2
    bytes_[at] *= 2
    names = (*true.resources, "to host 99")
    elsewhere[at] = len(true.resources)
    held = tuple(replace(m, nbytes=tuple(b + (i == 1) for i, b in enumerate(m.nbytes))) for m in true.memory)
    return others | {
        "shorter": changed(end_s=longer),
        "bytes": changed(nbytes=bytes_),
        "elsewhere": replace(true, columns=c._replace(resource=elsewhere), resources=names),
        "memory": replace(true, memory=held),
    }


def test_a_planted_fault_is_noticed() -> None:
    planted: Counter[str] = Counter()
    for number, case in enumerate(cases(Transfers.LINKS)):
        true = simulate(case.problem, case.plan)
        if not lanes(true):
            continue
        for name, expected in faults(case, true, random.Random(number)).items():
            same = (
                expected.makespan_s == true.makespan_s
                and expected.memory == true.memory
                and lanes(expected) == lanes(true)
            )
            if same and name in ("an operator less", "a slower link"):  # of one that copies nothing
                continue
            assert verify(case.problem, case.plan, expected), (number, name)
            planted[name] += 1
    assert min(planted.values()) > 4
    assert len(planted) == 6


def test_devices_that_do_the_same_copy_the_same() -> None:
    """Folded and not, a plan of 128 devices takes as long and holds as much."""
    p, plan = many()
    p, plan = replace(p, host_links={"gpu": 0.5}, pipeline=Pipeline.GPIPE), offloading(p, plan)
    folded, whole = run(p, plan), run(p, plan, fold=False)
    assert len(folded.groups) > 1
    assert folded.makespan_s == pytest.approx(whole.makespan_s)
    assert folded.peak_bytes() == pytest.approx(whole.peak_bytes())
    assert verify(p, plan, folded.schedule()) == ()
    assert lanes(folded.schedule())


def test_links_to_hosts_stay_where_devices_are_of_other_kinds() -> None:
    p, plan = example()
    devices = tuple(replace(device, kind="measured") for device in p.cluster.devices)
    assert p.links_on(p.host_links, devices) == {"measured": 6.0}
    compute = replace(p.compute, seconds={"measured": p.compute.seconds[GPU]})
    cluster = replace(p.cluster, devices=devices)
    anew = replace(p, cluster=cluster, compute=compute, host_links=p.links_on(p.host_links, devices))
    assert simulate(anew, plan).makespan_s == 12
