"""Elements that several panels are made of."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component


def titled_table(
    caption: str, head: Sequence[tuple[str, str]], rows: Sequence[Component], name: str, **more: str
) -> Component:
    """A table for those who see it and those who hear it. head: title and class of each column; name: its own class."""
    titles = [html.Th(title, scope="col", className=side) for title, side in head]
    parts = [html.Caption(caption, className="sr"), html.Thead(html.Tr(titles)), html.Tbody(rows)]
    return html.Table(parts, className=name, **more)
