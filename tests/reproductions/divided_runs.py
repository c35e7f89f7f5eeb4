"""Plans whose tensors are divided by chance, really run on up to four processes (along two axes, eight), against the
whole model: the worst relative errors, for docs/sharding.md.

    python -m tests.reproductions.divided_runs --plans 200
    python -m tests.reproductions.divided_runs --plans 20 --two-axes
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
from solvers.problem.collectives import Axis, axes_of
from solvers.problem.problem import Problem
from tests.explorer.runner.engine.divided_plans import Outer, random_plan
from tests.explorer.runner.launching import launched
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


EXPERTS = "tests.explorer.runner.model.mixtures:gpt"
AXES = {
    "gpt-small": (Axis.CONTEXT, Axis.EXPERT), "bert-small": (Axis.CONTEXT,), "transformer-small": (Axis.CONTEXT,),
    "llama-small": (Axis.CONTEXT,), "moe-small": (Axis.EXPERT,), EXPERTS: (Axis.EXPERT,),
}  # fmt: skip
"""What is divided beside tensors."""
Made = tuple[str, str, Problem, Plan]
"""Model, dtype, problem, plan."""


def plans() -> Iterator[Made]:
    """Of demo models, then of random ones."""
    for model, dtype in DEMOS.items():
        for seed in range(OF_DEMOS):
            degree, groups = GRIDS[seed % len(GRIDS)]
            if (made := random_plan(model, degree, groups, seed)) is not None:
                yield model, dtype, *made
    for seed in count():
        model, (degree, groups) = f"tests.explorer.runner.random_models:dag{seed // 4}", GRIDS[seed % len(GRIDS)]
        if (made := random_plan(model, degree, groups, seed)) is not None:
            yield model, "float64", *made


def plans_of_two_axes() -> Iterator[Made]:
    """Over 2 inner groups of 2, on one group and on two; rows of experts stay within one."""
    for seed in count():
        for model, axes in AXES.items():
            groups, axis = 1 if model == EXPERTS else 1 + seed % 2, axes[seed // 2 % len(axes)]
            if (made := random_plan(model, 2, groups, seed, Outer(axis), mini_batch=16)) is not None:
                yield model, DEMOS.get(model, "float64"), *made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--two-axes", action="store_true")
    question = parser.parse_args()
    folder, cases, dtypes = Path(tempfile.mkdtemp()), [], {}
    each = plans_of_two_axes() if question.two_axes else plans()
    for number, (model, dtype, problem, plan) in zip(range(question.plans), each, strict=False):
        axes = axes_of(problem.graph)
        over = " x ".join(f"{degree} ({axis})" for axis, degree in axes.items())
        name = f"{number} {model} over {over}, {len(plan.stages)} stages, {problem.pipeline}"
        reference = join_example(model, **{f"{axis.value}_parallel": degree for axis, degree in axes.items()})
        (folder / f"{number}.json").write_text(text(problem, plan, reference))
        request = {"verify": True, "dtype": dtype, "learning_rate": 0.05, "allow_model": True, "steps": 1, "warmup": 0}
        cases.append([name, processes(problem, plan), f"{number}.json", request, ""])
        dtypes[name] = dtype
    (folder / "cases.json").write_text(json.dumps(cases))
    measured = launched("tests.explorer.runner.engine.many", folder, "8" if question.two_axes else "4")
    for name, one in measured.items():
        print(f"{name}: loss {one['loss']:.1e}, gradients {one['gradient']:.1e}, parameters {one['parameter']:.1e}")
    for dtype in sorted(set(dtypes.values())):
        results = [measured[name] for name, each in dtypes.items() if each == dtype]
        worst = {what: f"{max(one[what] for one in results):.1e}" for what in ("loss", "gradient", "parameter")}
        print(f"{len(results)} plans in {dtype}, the worst errors: {worst}")


if __name__ == "__main__":
    main()
