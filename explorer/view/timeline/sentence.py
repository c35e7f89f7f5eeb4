"""What one sees in the schedule of a plan, in a sentence for those who see one for the first time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.view.plan_types import used_devices
from explorer.view.timeline.phases import is_pipelined
from explorer.words import text


def sentence(plan: Mapping[str, Any]) -> str:
    """Of a plan's view."""
    used = used_devices(plan)
    on = text.plural(used, "device")
    if plan["objective"] == "makespan":
        return f"{plan['mini_batch']:,} samples pass once through {on}; the row that is never idle decides the time."
    if used == 1:
        return f"One device does all the work on {text.plural(plan['mini_batch'], 'sample')}."
    if not is_pipelined(plan):
        return f"The mini-batch passes {on} in one piece: most of them wait most of the time."
    sizes = {stage["micro_batch_size"] for stage in plan["stages"]}
    if len(sizes) > 1:
        pieces = "The mini-batch runs in pieces"
    else:
        size = sizes.pop()
        pieces = f"{plan['mini_batch'] // size:,} micro-batches of {text.plural(size, 'sample')} pass {on}"
    return (
        f"{pieces}: forwards (plain) fill the pipeline, backwards (hatched) follow, and"
        f" {text.percent(plan['metrics']['bubble'])} of the devices' time is idle."
    )
