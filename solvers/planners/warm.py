"""Compile kernels ahead of their first use: ``python -m solvers.planners.warm [family ...]``.

Nothing needs it: what a planner lacks is compiled when it first calls it.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace

import numpy as np

from solvers.bounds.combinatorial import improved_bound_s
from solvers.bounds.cover.diagram import diagram_of
from solvers.bounds.cover.model import model_of
from solvers.bounds.cover.pricing import Pricing
from solvers.coarsening.coarsen import Condensed, contract
from solvers.contiguous.pipedream_optimizer import optimise, profile_of
from solvers.contiguous.planners.downset_dp import DownsetDP
from solvers.evaluation.evaluate import judge
from solvers.joint.annealing.anneal import Search
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.simulator import Simulator
from solvers.kernels.interpreted import compile_at_once
from solvers.latency.bounds import order_of
from solvers.latency.model import LatencyModel
from solvers.latency.series_bound import series_bound
from solvers.noncontiguous.planners.annealing import Annealing
from solvers.noncontiguous.planners.local_search import LocalSearch
from solvers.noncontiguous.planners.non_contiguous import NonContiguous
from solvers.pipelines.descent.repair import repaired
from solvers.pipelines.descent.space import Space, parts_of
from solvers.pipelines.seating import Seating
from solvers.pipelines.timing.estimate import Estimator
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Stage
from solvers.planners.solve import solve
from solvers.problem.cluster import Device, two_level_cluster, uniform_cluster
from solvers.problem.graph import Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Pipeline, Problem, Transfers
from solvers.schedules.ordering.stage_actions import stage_actions
from solvers.schedules.realise import realise


def warm(families: Sequence[str] = ()) -> None:
    """Solve problems of three operators, which no bound settles. Fast once they are in numba's cache.

    families: names of FAMILIES; by default all. Kernels that run interpreted at first do so here too.
    """
    for family in families or FAMILIES:
        FAMILIES[family]()


def fill_cache(on_done: Callable[[str], None], families: Sequence[str] = (), processes: int | None = None) -> None:
    """Leave what ``families`` (by default all) need in numba's cache on disk, compiled in several processes at once.

    on_done: called with the family that is there. processes: by default one a core; each takes about 0.5 GB. The
    families PAGE and PLANS go first and alone, for others use their kernels.
    """
    names = list(families or FAMILIES)
    for family in (PAGE, PLANS):
        if family in names:
            names.remove(family)
            _compile(family)
            on_done(family)
    if not names:
        return
    count = min(len(names), processes or os.cpu_count() or 1)
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool:
        tasks = {pool.submit(_compile, name): name for name in names}
        for future in as_completed(tasks):
            future.result()
            on_done(tasks[future])


def _compile(family: str) -> None:
    if family != PAGE:
        compile_at_once()
    FAMILIES[family]()


def page() -> None:
    """What the page's first answer needs: `auto` for the iteration of a model with devices of one kind.

    Without the kernels that run interpreted until they are worth compiling, which are most of the work: see PLANS.
    """
    problem = _tiny(Objective.ITERATION)
    solve(problem)
    solve(replace(problem, training=True))


def plans() -> None:
    """What evaluates plans and estimates drafts."""
    page()
    _estimate()


def pipelines() -> None:
    """The other kernels of pipelines: orders, nodes, and the planners that are compared with."""
    for planner in ("graph-pipeline", "piper"):
        solve(_tiny(Objective.ITERATION), planner)
    _map()
    _order()
    _parted()
    _mend()


def passes() -> None:
    """The kernels of one pass, operator by operator."""
    operators = replace(_tiny(Objective.MAKESPAN), contiguity=Contiguity.NONE)
    for planner in ("m-etf", "heft", "layer-split"):
        solve(operators, planner)
    _bound()
    _pass()


def max_loads() -> None:
    """The kernels of sets of operators on devices."""
    chain = _tiny(Objective.MAX_LOAD)
    solve(chain)
    for planner in (DownsetDP(), LocalSearch(restarts=1), Annealing(steps=10, patience=1)):
        solve(chain, planner)
    solve(replace(chain, transfers=Transfers.DUPLEX), DownsetDP())
    solve(replace(chain, contiguity=Contiguity.NONE), NonContiguous(prove=False))
    _price()


def latencies() -> None:
    """The kernels of one sample through subgraphs, and those of PipeDream's optimiser."""
    latency = replace(_tiny(Objective.MAKESPAN), execution=Execution.CALL, transfers=Transfers.BLOCKING)
    for planner in ("latency-dp", "latency-search"):
        solve(latency, planner)
    solve(replace(latency, subgraphs_per_device=1), "latency-search")
    model = LatencyModel.of(latency)
    series_bound(model, order_of(model), lambda: None)
    optimise(profile_of(_tiny(Objective.MAX_LOAD), 1), 2, 1e9)


SAY_S = 5.0
"""How often the command line says that it goes on."""
PAGE = "page"
"""The family that a solving worker loads before its first job, or compiles when it is idle."""
PLANS = "plans"
"""The family that nearly all others use."""
FAMILIES: dict[str, Callable[[], None]] = {
    PAGE: page,
    PLANS: plans,
    "pipelines": pipelines,
    "passes": passes,
    "max-loads": max_loads,
    "latencies": latencies,
}
"""Hardly any kernel belongs to two but those of PAGE and PLANS, so that none is compiled twice; the longest first."""


def _bound() -> None:
    """What rules out makespans; the sum of the times is one plan's, so half of it is not refuted at once."""
    improved_bound_s(_tiny(Objective.MAKESPAN), 6.0, budget=1e4)


def _price() -> None:
    """What the child process of the covering bound calls; without its linear solver, which is slow to import."""
    model = model_of(contract(_tiny(Objective.MAX_LOAD), 1), 2, 0, np.inf, np.inf, overlapped=False)
    Pricing(model, diagram_of(model, 4.0), 4.0).best(np.array([1.0, 0.5, 0.25]), 0.0)


def _pass() -> None:
    """One pass of operators on two devices."""
    simulator = Simulator(pass_model(_tiny(Objective.MAKESPAN)))
    place = np.array([0, 1, 1])
    simulator.by_rank_s(place, simulator.placed_rank(place))
    simulator.fits()
    simulator.peak_bytes()
    search = Search(simulator.model, 0, lambda: None)
    search.start(place)
    list(search.run(20))


def _map() -> None:
    """The devices of stages on two nodes."""
    devices = tuple(Device(str(i), "gpu", node=i // 2) for i in range(4))
    problem = replace(_tiny(Objective.ITERATION), cluster=two_level_cluster(devices, 2e9, 0.0, 1e9, 0.0))
    realise(problem, Draft(tuple(DraftStage((operator,), 1) for operator in range(3))))


def _order() -> None:
    """The event simulation behind orders, and its replay."""
    stages = (Stage((0,), (0,)), Stage((1,), (1,)), Stage((2,), (0,)))
    actions = stage_actions(_tiny(Objective.ITERATION), stages, split=False)
    run = actions.run("FB", [1, 1, 1])
    if run is not None:
        actions.follow(actions.per_device(run))


def _parted() -> None:
    """What is held between the two parts of a backward."""
    parts = (Phase.FORWARD, Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT)
    operators = tuple(Operator(phase, phase=phase, forward_of=0 if i else None) for i, phase in enumerate(parts))
    graph = OpGraph(operators, (Tensor(0, (1, 2)),))
    problem = replace(_tiny(Objective.ITERATION), graph=graph, training=True, pipeline=Pipeline.ZERO_BUBBLE)
    judge(problem, realise(problem, Draft((DraftStage((0, 1, 2), 1),))))


def _mend() -> None:
    """Stages that are cut and joined for pins, and seated on devices of two kinds."""
    devices = tuple(Device(str(i), kind) for i, kind in enumerate(("gpu", "slow")))
    seconds = {"gpu": np.full((3, 1), 2.0), "slow": np.full((3, 1), 4.0)}
    problem = replace(
        _tiny(Objective.ITERATION),
        cluster=uniform_cluster(devices, 1e9),
        compute=ComputeTable((1,), seconds),
        pins={0: 0, 2: 1},
    )
    Seating(problem).kinds_of([2.0, 2.0], [1, 1], [None, None])
    draft = Draft(tuple(DraftStage((operator,), 1) for operator in range(3)))
    repaired(Space(Condensed(problem, ordered=True)), parts_of(draft))


def _estimate() -> None:
    """What searches over pipelines ask of drafts; two stages on one device take the order of what is ready."""
    problem = _tiny(Objective.ITERATION)
    draft = Draft(tuple(DraftStage((operator,), 1, host=None if operator < 2 else 0) for operator in range(3)))
    Estimator(Condensed(problem, ordered=True)).estimate(draft)
    realise(problem, draft)


def _tiny(objective: Objective) -> Problem:
    graph = OpGraph((Operator("a"), Operator("b"), Operator("c")), (Tensor(0, (1,)), Tensor(0, (2,))))
    cluster = uniform_cluster((Device("0", "gpu"), Device("1", "gpu")), 1e9)
    seconds = {"gpu": np.array([[2.0], [2.0], [2.0]])}
    transfers = Transfers.BLOCKING if objective is Objective.MAX_LOAD else Transfers.LINKS
    return Problem(graph, cluster, ComputeTable((1,), seconds), objective, transfers=transfers, training=False)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    families = "; ".join(f"{name}: {' '.join((family.__doc__ or '').split())}" for name, family in FAMILIES.items())
    parser = argparse.ArgumentParser(
        prog="python -m solvers.planners.warm", description="Compile kernels ahead of their first use.", epilog=families
    )
    parser.add_argument("families", nargs="*", metavar="family", help=f"{', '.join(FAMILIES)} (default: all)")
    parser.add_argument("--processes", type=int, metavar="N", help="at once (default: one a core)")
    args = parser.parse_args(argv)
    unknown = [name for name in args.families if name not in FAMILIES]
    if unknown:
        parser.error(f"there is no family {unknown[0]!r}; there are: {', '.join(FAMILIES)}")
    left = list(args.families or FAMILIES)

    def done(family: str) -> None:
        left.remove(family)
        print(f"  {family}: compiled", flush=True)

    with contextlib.suppress(KeyboardInterrupt), _saying(lambda: f"  compiling {', '.join(left)}"):
        fill_cache(done, args.families, args.processes)
        return 0
    return 130


@contextlib.contextmanager
def _saying(what: Callable[[], str]) -> Iterator[None]:
    """Print every SAY_S what goes on, and for how many seconds."""
    over, began = threading.Event(), time.monotonic()

    def print_status() -> None:
        while not over.wait(SAY_S):
            print(f"{what()} ... {time.monotonic() - began:.0f} s", flush=True)

    thread = threading.Thread(target=print_status, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    raise SystemExit(main())
