"""The schedule of a plan as a picture as large as a thumb, in both themes."""

from __future__ import annotations

import base64

from explorer.view.graph.palette import THEMES
from explorer.view.pictures.gantt import gantt_picture
from explorer.view.plan_types import PlanView

WIDTH = 420.0


def thumbnail(plan: PlanView) -> dict[str, str]:
    """Theme -> an address that holds the whole picture."""
    picture = gantt_picture(plan, rows="devices", links="off", width=WIDTH)
    return {
        theme: "data:image/svg+xml;base64," + base64.b64encode(picture.svg(theme).encode()).decode() for theme in THEMES
    }
