"""The table over degrees, beside the plan that was the best of them."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.view.pictures.degrees import DegreeCell, DegreeMap


def degree_panel(degrees: DegreeMap) -> list[Component]:
    head = html.Tr([html.Th("DP", scope="col"), *(html.Th(f"TP {t}", scope="col") for t in degrees.tensor)])
    body = [
        html.Tr([html.Th(str(data), scope="row"), *map(_cell, cells)])
        for data, cells in zip(degrees.data, degrees.cells, strict=True)
    ]
    why = [html.Li([html.B(f"{of}: "), reason]) for of, reason in degrees.reasons]
    return [
        html.H2("Degrees"),
        html.P("Best plan by replicas (DP) and devices that divide tensors (TP).", className="small"),
        html.Table([html.Thead(head), html.Tbody(body)], className="degrees"),
        html.Ul(why, className="small quiet degrees-why") if why else None,
    ]


def _cell(cell: DegreeCell | None) -> Component:
    if cell is None:
        return html.Td("")
    kind = "best" if cell.best else "none" if not cell.shade else ""
    return html.Td(cell.words, title=cell.title, className=f"shade{cell.shade} {kind}".strip())
