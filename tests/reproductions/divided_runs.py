"""Plans whose tensors are divided by chance, really run on up to four processes, against the whole model: the worst
relative errors, for docs/sharding.md.

    python -m tests.reproductions.divided_runs --plans 200
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from explorer.question.models.example import join_example
from explorer.runner.scripts.executable import processes
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem
from tests.explorer.runner.engine.divided_plans import random_plan
from tests.explorer.runner.engine.test_ranks import launch
from tests.explorer.runner.plans import text

GRIDS = ((2, 2), (2, 1), (4, 1))
"""(members of a group, groups)."""
DEMOS = {
    "gpt-small": "float64", "bert-small": "float64", "multimodal-small": "float64", "gnmt-small": "float64",
    "transformer-small": "float64", "dlrm-small": "float64", "candle_uno-small": "float64", "llama-small": "float32",
    "moe-small": "float32",
}  # fmt: skip
"""Those with casts to fp32 inside are compared in it."""
OF_DEMOS = 4
"""Plans of each."""


def plans() -> Iterator[tuple[str, int, str, Problem, Plan]]:
    """(model, members of a group, dtype, problem, plan): of demo models, then of random ones."""
    for model, dtype in DEMOS.items():
        for seed in range(OF_DEMOS):
            degree, groups = GRIDS[seed % len(GRIDS)]
            if (made := random_plan(model, degree, groups, seed)) is not None:
                yield model, degree, dtype, *made
    for seed in count():
        model, (degree, groups) = f"tests.explorer.runner.random_models:dag{seed // 4}", GRIDS[seed % len(GRIDS)]
        if (made := random_plan(model, degree, groups, seed)) is not None:
            yield model, degree, "float64", *made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=200)
    question = parser.parse_args()
    folder, cases, dtypes = Path(tempfile.mkdtemp()), [], {}
    for number, (model, degree, dtype, problem, plan) in zip(range(question.plans), plans(), strict=False):
        name = f"{number} {model} over {degree}, {len(plan.stages)} stages, {problem.pipeline}"
        (folder / f"{number}.json").write_text(text(problem, plan, join_example(model, tensor_parallel=degree)))
        request = {"verify": True, "dtype": dtype, "learning_rate": 0.05, "allow_model": True, "steps": 1, "warmup": 0}
        cases.append([name, processes(problem, plan), f"{number}.json", request, ""])
        dtypes[name] = dtype
    (folder / "cases.json").write_text(json.dumps(cases))
    measured = launch(folder)
    for name, one in measured.items():
        print(f"{name}: loss {one['loss']:.1e}, gradients {one['gradient']:.1e}, parameters {one['parameter']:.1e}")
    for dtype in sorted(set(dtypes.values())):
        mine = [measured[name] for name, each in dtypes.items() if each == dtype]
        worst = {what: f"{max(one[what] for one in mine):.1e}" for what in ("loss", "gradient", "parameter")}
        print(f"{len(mine)} plans in {dtype}, the worst errors: {worst}")


if __name__ == "__main__":
    main()
