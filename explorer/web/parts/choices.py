"""Choices whose words depend on what is on the page."""

from __future__ import annotations

AUTO = "auto"
OBJECTIVES = {
    AUTO: "Usual for the model",
    "iteration": "Iteration time",
    "max-load": "Max-load (steady state)",
    "makespan": "Makespan (one pass)",
}


def objectives(usual: str = "") -> list[dict[str, str]]:
    """usual: what the model is planned for where nobody chooses."""
    told = f"{OBJECTIVES[usual]}, as usual" if usual in OBJECTIVES else OBJECTIVES[AUTO]
    return [{"value": key, "label": told if key == AUTO else label} for key, label in OBJECTIVES.items()]
