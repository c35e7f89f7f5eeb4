"""Time against memory, with and without what may run again or go to the host: a table for docs/memory.md.

    python -m tests.reproductions.memory_curves gpt --devices 4 --time-limit 20
    python -m tests.reproductions.memory_curves llama --devices 8 --dtype bf16 --precision mixed

Every number is the iteration of the best plan that was found within the limit, judged by one simulator.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

from explorer.costs.regions import Recompute
from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.words import text
from solvers.errors import PlacementError
from solvers.evaluation.evaluate import evaluate
from solvers.formats.workload import Workload
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import Precision

SHARES = (1.0, 0.85, 0.7, 0.6, 0.5)
"""Of the peak of the best plan for endless memory."""
FREEDOMS: dict[str, dict[str, object]] = {
    "nothing": {"recompute": Recompute.NONE},
    "offload": {"recompute": Recompute.NONE, "offload": True},
    "layers": {"recompute": Recompute.LAYERS},
    "operators": {"recompute": Recompute.OPERATORS},
    "stage": {"recompute": Recompute.STAGE},
    "budget": {"recompute": Recompute.BUDGET},
    "both": {"recompute": Recompute.BUDGET, "offload": True},
    "optimizer": {"recompute": Recompute.NONE, "offload_optimizer": True},
}
"""Settings of each column. A search that its time limit ends may find less with more freedom."""


def iteration_s(workload: Workload, settings: Settings, time_limit_s: float) -> tuple[float, float]:
    """(seconds, peak bytes) of the best plan; inf and 0 where there is none, NaN where that may not be asked."""
    try:
        problem = make_problem(workload, settings)
    except PlacementError:
        return math.nan, 0.0
    result = solve(problem, time_limit_s=time_limit_s)
    if result.plan is None:
        return math.inf, 0.0
    assert check(result.problem, result.plan) == ()
    return result.objective_s, max(evaluate(result.problem, result.plan).peak_memory_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--time-limit", type=float, default=20.0, metavar="S")
    parser.add_argument("--dtype", choices=("bf16", "fp16"))
    parser.add_argument("--precision", type=Precision, default=Precision.PURE)
    parser.add_argument("--only", choices=FREEDOMS, nargs="+", default=list(FREEDOMS), help="some columns")
    args = parser.parse_args()
    freedoms = {name: FREEDOMS[name] for name in args.only}
    workload = load(args.model, dtype=args.dtype)
    settings = Settings(devices=args.devices, wiring="kind", precision=args.precision)
    seconds, peak = iteration_s(workload, replace(settings, memory_bytes=1e15), args.time_limit)
    print(f"{args.model} on {args.devices}: {text.seconds(seconds)} and {text.nbytes(peak)} with endless memory")
    print("| memory | " + " | ".join(freedoms) + " |")
    print("|---" * (1 + len(freedoms)) + "|")
    for share in SHARES:
        row = []
        for given in freedoms.values():
            options = replace(settings, memory_bytes=share * peak, **given)  # type: ignore[arg-type]
            iteration = iteration_s(workload, options, args.time_limit)[0]
            row.append(
                "not asked" if math.isnan(iteration) else "–" if math.isinf(iteration) else text.seconds(iteration)
            )
        print(f"| {text.nbytes(share * peak)} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
