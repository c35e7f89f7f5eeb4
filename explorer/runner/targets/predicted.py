"""What a plan says of its own run. No torch here."""

from __future__ import annotations

from solvers.errors import PlacementError
from solvers.formats.plan_json import read_plan


def predicted_peak_bytes(plan_text: str, rank: int) -> float | None:
    """Bytes that the device of ``rank`` holds at most; None where the plan does not tell."""
    from solvers.evaluation.evaluate import evaluate

    try:
        file = read_plan(plan_text)
        devices = file.plan.devices_used()
        return evaluate(file.problem, file.plan).peak_memory_bytes[devices[rank]] if rank < len(devices) else None
    except PlacementError:
        return None
