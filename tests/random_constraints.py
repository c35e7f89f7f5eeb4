"""Questions in which devices are distinguished: seeded pins, groups kept together, caps by device and kinds."""

from __future__ import annotations

import random
from typing import Any

from explorer.question.problems import make_problem
from explorer.question.questions import Question
from solvers.formats.workload import Workload
from solvers.problem.problem import Problem

KINDS = ("H100-80GB", "A100-80GB", "V100-32GB", "L4-24GB")
FORMS = ("pins", "together", "caps", "kinds")


def constrained(workload: Workload, seed: int) -> tuple[Problem, str]:
    """A question about a workload, and what it asks for in words: one or two of `FORMS` on 2 to 4 accelerators. Some
    cannot be met."""
    rng = random.Random(seed)
    forms = rng.sample(FORMS, rng.choice((1, 1, 2)))
    count = rng.choice((2, 3, 4, 4))
    options: dict[str, Any] = {
        "devices": count,
        "micro_batches": rng.choice((2, 4, 8, 8)),
        "bandwidth": rng.choice(("25GB/s", "300GB/s")),
        "pipeline": rng.choice(("1f1b",) * 5 + ("interleaved",)),
    }
    modules = list(dict.fromkeys(o.module_path for o in workload.graph.operators if o.module_path))
    chosen = sorted(rng.sample(modules, min(len(modules), 4)), key=modules.index)
    if "pins" in forms:
        names = chosen[: rng.randint(1, 4)]
        devices = [rng.randrange(count) for _ in names]
        options["pins"] = dict(zip(names, sorted(devices) if rng.random() < 0.6 else devices, strict=True))
    if "together" in forms:
        first = rng.randrange(len(modules) - 8)
        options["together"] = [(modules[first], modules[first + rng.randint(2, 8)])]
    if "kinds" in forms:
        fast, slow = sorted(rng.sample(KINDS, 2), key=KINDS.index)
        kinds = [fast, slow, *(rng.choice((fast, fast, slow)) for _ in range(count - 2))]
        options["device_kind"] = tuple(rng.sample(kinds, count))
    if "caps" in forms:
        plain = make_problem(workload, Question(devices=1))
        whole = float(plain.static_bytes().sum())
        options["memory"] = [f"{int(whole * rng.uniform(0.5, 3.0)) + 2**20}B" for _ in range(count)]
    return make_problem(workload, Question(**options)), ", ".join(f"{k}={v}" for k, v in options.items())
