"""Runs without processes: outcomes that a simulation with other costs makes up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from explorer.costs.profile import OperatorTimes, Profile, WholeTimes
from explorer.runner.bundles.bundle import Bundle
from explorer.runner.bundles.outcome import Agreement, Environment, MeasuredAction, Outcome, RunStatus
from explorer.runner.bundles.request import RunRequest
from explorer.runner.measuring.calibration import MODULE
from explorer.runner.targets.registry import Targets
from explorer.runner.targets.target import RunProgress
from explorer.runner.targets.target_file import RaySetup
from solvers.errors import RunError
from solvers.evaluation.simulation import simulate
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.plan_json import read_plan
from solvers.plan.plan import Plan
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.problem import ComputeTable, Problem

ITERATIONS = 3
NAMES = ("fake", "slow", "broken", "gone")
ADDRESS = "10.1.2.3:8265"
BUSY_S = 30.0


def slowed(problem: Problem) -> Problem:
    """The problem as it "really" is: operators 0.8 to 1.7 times as long as they are thought to be."""
    tables = {}
    for kind in problem.compute.seconds:
        table = problem.compute.seconds[kind].copy()
        for i in range(len(table)):
            table[i] *= 0.8 + 0.9 * (i * 7 % len(table)) / len(table)
        tables[kind] = table
    return replace(problem, compute=ComputeTable(problem.compute.samples, tables))


def outcome_of(problem: Problem, plan: Plan, verify: bool = False) -> Outcome:
    """What running the plan would have brought back, each stage a segment."""
    schedule = simulate(slowed(problem), plan)
    used = tuple(sorted(plan.devices_used()))
    actions = []
    for iteration in range(ITERATIONS):
        late = 1 + 0.01 * iteration
        ready = dict.fromkeys(used, 0.0)
        for span in schedule.spans:
            if span.is_transfer:
                continue
            start, end = span.start_s * late, span.end_s * late
            wait = max(0.0, start - ready[span.device])
            actions.append(MeasuredAction(used.index(span.device), iteration, span.action, start, end, wait))
            ready[span.device] = end
    return Outcome(
        RunStatus.DONE,
        environment=Environment(
            ("here",) * len(used), ("a processor",) * len(used), "gloo", "2.13.0", "3.11.9", 1, "2026-11-21T16:07:42Z",
            True,
        ),
        iterations_s=tuple(schedule.makespan_s * (1 + 0.01 * i) for i in range(ITERATIONS)),
        actions=tuple(actions),
        segments=tuple((i,) for i in range(len(plan.stages))),
        rank_devices=used,
        peak_bytes=tuple(1.08 * schedule.memory[d].peak_bytes for d in used),
        losses=(2.31, 2.29, 2.26),
        noise=0.012,
        agreement=Agreement(2e-8, 4e-7, 5e-7, "blocks.3.mlp.op7.weight", "float32") if verify else None,
    )  # fmt: skip


def profile_of(graph: OpGraph, ranks: int) -> Profile:
    """What a calibration would have measured: a third more time than the chain's problem says."""
    samples = (1, 2)
    operators = []
    for operator in graph.operators:
        one = 1.33e-4 if operator.phase is Phase.FORWARD else 2.66e-4
        operators.append(OperatorTimes(operator.name, tuple(one * n for n in samples), (0.01, 0.01)))
    hardware = ("a processor",) * ranks
    wholes = tuple(WholeTimes(n, 1.3e-2 * n, 2.6e-2 * n, 1.3e-2 * n, 2.6e-2 * n) for n in samples)
    return Profile(
        "chain", graph_hash(graph), True, "fp32", hardware, ("here",) * ranks, "gloo", "2.13.0", "3.11.9",
        "2026-11-21T16:07:42Z", 1, True, samples, tuple(operators), {"adam": {}, "sgd": {}}, wholes, (), 1e-5, 0.01,
        (64 * 2.0**30,) * ranks,
    )  # fmt: skip


class FakeTarget:
    """Pretends to run. "fake" does it at once, "slow" until it is cancelled; "broken" loses rank 1; "gone"
    cannot be reached."""

    def __init__(self, name: str, calibrates: bool = False) -> None:
        self.name, self.calibrates = name, calibrates

    def run(
        self,
        plan_text: str,
        request: RunRequest,
        ranks: int,
        folder: Path,
        on_progress: Callable[[RunProgress], None],
        should_stop: Callable[[], bool],
    ) -> Outcome:
        if self.name == "gone":
            raise RunError(f"{self.name}: {ADDRESS} does not answer; is the cluster up?")
        with Bundle(folder).log.open("w") as log:
            for phase, of in (("tracing", 0), ("building", 0), ("warming up", 2), ("measuring", request.steps)):
                for done in range(max(1, of)):
                    line = f"[rank 0] {phase} {done + 1}"
                    log.write(line + "\n")
                    on_progress(RunProgress(phase, done, of, line))
                    end = time.monotonic() + (BUSY_S if self.name == "slow" and done == 1 else 0.02)
                    while time.monotonic() < end and not should_stop():
                        time.sleep(0.02)
                    if should_stop():
                        return Outcome(RunStatus.CANCELLED, "cancelled while " + phase)
                    if self.name == "broken" and phase == "measuring":
                        log.write("rank 1: signal 9\n")
                        return Outcome(RunStatus.FAILED, "rank 1 was killed (signal 9), perhaps for its memory", 1)
        file = read_plan(plan_text)
        if self.calibrates:
            return Outcome(RunStatus.DONE, profile=profile_of(file.problem.graph, ranks))
        return outcome_of(file.problem, file.plan, request.verify)


class FakeTargets(Targets):
    """In place of the targets that a server's owner declares."""

    def __init__(self) -> None:
        super().__init__({name: RaySetup(name, f"http://{ADDRESS}") for name in NAMES}, {})

    def get(self, name: str, module: str = "") -> FakeTarget:
        self.setup(name)
        return FakeTarget(name, module == MODULE)
