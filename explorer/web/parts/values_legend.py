"""What the colours of boxes mean while they show numbers of somebody's own."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.view.graph.node_data import BoxValues


def values_legend(values: BoxValues) -> list[Component]:
    stops = [
        html.Span([html.I(style={"backgroundColor": stop["fill"]}), html.Span(stop["label"])], className="stop")
        for stop in values["stops"]
    ]
    back = {"data-act": "drop-values", "aria-label": "Colour by device again", "title": "Colour by device again"}
    return [
        html.B(values["title"]),
        html.Span(stops, className="stops"),
        html.Span(values["note"], className="small quiet"),
        html.Button("×", className="tool", **back),
    ]
