"""Choices whose words depend on what is on the page."""

from __future__ import annotations

from explorer.question.settings import SETTINGS
from explorer.question.written.declaring import AUTO


def objectives(usual: str = "") -> list[dict[str, str]]:
    """usual: what the model is planned for where nobody chooses."""
    control = SETTINGS["objective"].control
    assert control is not None
    labels = {**control.labels}
    if usual in labels:
        labels[AUTO] = f"{labels[usual]}, as usual"
    return [{"value": key, "label": label} for key, label in labels.items()]
