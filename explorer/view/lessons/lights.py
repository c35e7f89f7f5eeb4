"""What a lesson may light: settings that have a control, and parts of the page."""

from __future__ import annotations

from explorer.question.settings import declared

CONTROLS = {"model": "Model"} | {
    one.link: one.control.label or one.control.what for one in declared() if one.control is not None
}
"""Settings by the names that a link gives them, with what the page calls their controls."""

PARTS = (
    "throughput",
    "time",
    "bubble",
    "peak_memory",
    "bound",
    "graph",
    "schedule",
    "memory_curves",
    "why",
    "help",
    "run",
)
"""The five cards of key figures, then the pictures and the panels, and the tab of runs."""

LIGHTS = (*CONTROLS, *PARTS)
