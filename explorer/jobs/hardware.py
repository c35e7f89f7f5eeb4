"""Whether a plan's costs are of the hardware that it is about to run on, as far as that is known before it runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from explorer.measured.notes import same_hardware
from explorer.runner.targets.target_file import LocalSetup, TargetSetup
from explorer.words import text
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem

GPUS = Path("/proc/driver/nvidia/gpus")
PROCESSORS = Path("/proc/cpuinfo")


def elsewhere(problem: Problem, plan: Plan, setup: TargetSetup) -> str:
    """ "This plan is for 4 H100-80GB, and local has a Xeon ...": one sentence, or "" where the costs may well be of
    that hardware. Only of this machine is anything known before a run."""
    if not isinstance(setup, LocalSetup):
        return ""
    gpus = _gpus()
    here = gpus[0] if gpus else _processor()
    kinds = Counter(problem.cluster.devices[device].kind for device in plan.devices_used())
    foreign = [
        kind for kind in kinds if not same_hardware(kind, here, problem.costs_from, "nccl" if gpus else "gloo")
    ]  # fmt: skip
    if not foreign:
        return ""
    wanted = text.listing([f"{count} {kind}" for kind, count in kinds.items()])
    return f"This plan is for {wanted}; {setup.name} has {here if gpus else f'no GPU ({here})'}."


def _gpus() -> list[str]:
    """Names of the GPUs here, as the driver tells them: no library need be loaded to ask."""
    found = []
    for told in sorted(GPUS.glob("*/information")) if GPUS.is_dir() else ():
        try:
            lines = told.read_text(errors="replace").splitlines()
        except OSError:
            continue
        found += [line.partition(":")[2].strip()[:80] for line in lines if line.startswith("Model:")]
    return found


def _processor() -> str:
    try:
        with PROCESSORS.open(errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()[:80]
    except OSError:
        pass
    return "a processor"
