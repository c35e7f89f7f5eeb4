"""``python -m tests.fuzz.against_brute_force --hours 8``: planners against brute force, until a claim is false.

Random small problems, one a seed: every exact planner and some heuristics are asked, and brute force. A claim is
false if a bound is above a plan that somebody has, if a plan called optimal is beaten, if something called infeasible
has a plan, or if a plan breaks a rule of `check`, or the slow simulation in `tests.oracle` differs.
The first one ends it with status 1, and leaves a folder with the problem, the plan that shows it, and the seed.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from solvers.errors import UnsupportedProblem
from solvers.formats.plan_json import write_plan
from solvers.plan.plan import Plan
from solvers.plan.result import Result, Status
from solvers.planners.check import check
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import Execution, Objective, Pipeline, Problem, Transfers
from tests.oracle.compare import disagreement
from tests.oracle.pass_oracle import best_makespan_s, pass_problem
from tests.random_problems import random_problem, random_two_level_problem, with_unequal_devices

FORCE = "brute-force"
EXACT = tuple(name for name, planner in PLANNERS.items() if planner.guarantee == "exact" and name != FORCE)
OTHERS = tuple(name for name in PLANNERS if name not in EXACT and name not in (FORCE, "expert"))
HEURISTICS = 4
"""Asked of each problem."""
LIMIT_S = 5.0
"""Of each search."""
TOLERANCE = 1e-7
REPORT_EVERY_S = 30.0


class Claim(NamedTuple):
    """One that is false. plan: that shows it, if one does."""

    words: str
    plan: Plan | None = None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.against_brute_force", description="Until a false claim."
    )
    parser.add_argument("--hours", type=float, default=8.0, metavar="N", help="how long (8)")
    parser.add_argument("--problems", type=int, metavar="N", help="at most so many (as many as there is time for)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first problem (0)")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("false-claim"), metavar="FOLDER", help="for a false claim"
    )
    args = parser.parse_args(argv)
    began = shown = time.monotonic()
    seen: Counter[tuple[str, str]] = Counter()
    seed = args.seed
    while time.monotonic() - began < 3600 * args.hours and (args.problems is None or seed < args.seed + args.problems):
        problem = made(seed)
        claim = false_claim(problem, seed, seen)
        if claim is not None:
            _save(args.output, seed, problem, claim)
            print(f"seed {seed}: {claim.words}\nkept in {args.output}; again with --seed {seed} --problems 1")
            return 1
        seed += 1
        if time.monotonic() - shown > REPORT_EVERY_S:
            shown = time.monotonic()
            print(f"{seed - args.seed:,} problems, {seen.total():,} solves, no false claim", flush=True)
    print(f"{seed - args.seed:,} problems, {seen.total():,} solves, no false claim")
    for name in sorted({name for name, _ in seen}):
        print(f"  {name:20}", ", ".join(f"{status} {seen[name, status]:,}" for status in Status if seen[name, status]))
    return 0


def made(seed: int) -> Problem:
    """The problem of a seed: a pipeline, one on two levels of links, one with several kinds of accelerators and perhaps
    replicas, a pass of single operators, or a training step of calls that fetch and send for themselves."""
    rng = random.Random(seed)
    sort = rng.choice(("pipeline", "two levels", "kinds", "pass", "calls"))
    if sort == "pass":
        return pass_problem(seed)
    if sort == "calls":
        return random_problem(
            seed, 6, training=True, objective=Objective.MAKESPAN, execution=Execution.CALL,
            transfers=Transfers.BLOCKING,
        )  # fmt: skip
    if sort == "kinds":
        make = random_problem if rng.random() < 0.5 else random_two_level_problem
        options = {} if make is random_two_level_problem else {"max_replicas": rng.choice([1, 2, 3])}
        p = make(seed, 5, pipeline=rng.choice(list(Pipeline)), objective=Objective.MAX_LOAD, **options)
        return with_unequal_devices(p, seed, memories=rng.random() < 0.5)
    make = random_problem if sort == "pipeline" else random_two_level_problem
    return make(seed, 5, pipeline=rng.choice(list(Pipeline)))


def false_claim(
    problem: Problem, seed: int, seen: Counter[tuple[str, str]], solver: Callable[..., Result] = solve
) -> Claim | None:
    """The first claim about a problem that does not hold; None if all do. seen: counts the solves."""
    results: dict[str, Result] = {}
    for name in (FORCE, *EXACT, *random.Random(seed).sample(OTHERS, HEURISTICS)):
        if PLANNERS[name]().unsupported(problem) is not None:
            continue
        try:
            results[name] = solver(problem, name, time_limit_s=LIMIT_S, seed=seed % 5)
        except UnsupportedProblem:
            continue
        except Exception:  # whatever it is, it is what is looked for
            return Claim(f"{name} raised {traceback.format_exc()}")
        seen[name, results[name].status] += 1
    return next(_false(problem, results), None)


def _false(problem: Problem, results: dict[str, Result]) -> Iterator[Claim]:
    for name, result in results.items():
        if result.plan is not None:
            for violation in check(problem, result.plan):
                yield Claim(f"{name}: its plan breaks a rule: {violation}", result.plan)
            slow = problem.objective is not Objective.MAX_LOAD
            if slow and (words := disagreement(problem, result.plan, problem.objective)):
                yield Claim(f"{name}: its plan is told otherwise by the slow simulation: {words}", result.plan)
    with_plan = [(result.objective_s, name) for name, result in results.items() if result.plan is not None]
    best_s, by = min(with_plan, default=(math.inf, ""))
    plan = results[by].plan if by else None
    if problem.objective is Objective.MAKESPAN and len(problem.graph) <= 6:
        best_s, by, plan = min(
            (best_s, by, plan), (best_makespan_s(problem), "an enumeration", None), key=lambda x: x[0]
        )
    for name, result in results.items():
        if result.bound_s > best_s * (1 + TOLERANCE):
            yield Claim(f"{name}: a bound of {result.bound_s!r} s, and {by} has a plan of {best_s!r} s", plan)
        if result.status is Status.OPTIMAL and result.objective_s > best_s * (1 + TOLERANCE):
            yield Claim(f"{name}: {result.objective_s!r} s called optimal, and {by} has {best_s!r} s", plan)
        if result.status is Status.INFEASIBLE and math.isfinite(best_s):
            yield Claim(f"{name}: called infeasible, and {by} has a plan of {best_s!r} s", plan)


def _save(folder: Path, seed: int, problem: Problem, claim: Claim) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "claim.txt").write_text(f"seed {seed}\n{claim.words}\n\n{problem!r}\n")
    if claim.plan is not None:
        (folder / "plan.json").write_text(write_plan(problem, claim.plan, None, f"seed {seed}"))


if __name__ == "__main__":
    sys.exit(main())
