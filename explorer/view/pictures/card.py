"""A small picture with a few facts around it, as HTML that any page may hold: no scripts, in light and dark."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from explorer.view.graph.palette import THEMES, Theme
from explorer.view.pictures.picture import Picture

TABLE = "font:inherit;border-collapse:collapse;margin:2px 0 4px"
CELL = "padding:1px 16px 1px 0;text-align:"
DARK = ("body[data-jp-theme-light=false]", "body.vscode-dark", "html.dark")
"""How notebooks say that they are dark."""
STYLE = (
    "<style>.pe-dark{display:none}"
    + ",".join(f"{page} .pe-dark" for page in DARK)
    + "{display:block!important}"
    + ",".join(f"{page} .pe-light" for page in DARK)
    + "{display:none!important}</style>"
)


def card(title: str, facts: Sequence[tuple[str, str]], picture: Picture | None = None, more: str = "") -> str:
    """facts: names and values. more: HTML below the picture."""
    head = f'<div style="font-weight:600;margin-bottom:4px">{escape(title)}</div>'
    items = "".join(
        '<span style="white-space:nowrap">'
        f'<span style="opacity:.65">{escape(name)}</span> <b>{escape(value)}</b></span>'
        for name, value in facts
    )
    row = f'<div style="display:flex;flex-wrap:wrap;gap:0 18px;margin-bottom:6px">{items}</div>' if facts else ""
    drawn = "" if picture is None else STYLE + "".join(image(picture, theme, f"pe-{theme}") for theme in THEMES)
    return (
        '<div style="border:1px solid rgba(128,128,128,.35);border-radius:8px;padding:10px 12px;max-width:660px;'
        f'font:13px/1.45 system-ui,sans-serif;font-variant-numeric:tabular-nums">{head}{row}{drawn}{more}</div>'
    )


def rows(columns: Sequence[str], lines: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table as HTML; its first ``texts`` columns are words, the others numbers."""
    sides = ["left" if i < texts else "right" for i in range(len(columns))]
    head = "".join(
        f'<th style="{CELL}{side};font-weight:500;opacity:.65">{escape(c)}</th>'
        for c, side in zip(columns, sides, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{CELL}{side}">{escape(v)}</td>' for v, side in zip(line, sides, strict=True))
        + "</tr>"
        for line in lines
    )
    return f'<table style="{TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def image(picture: Picture, theme: Theme, name: str = "") -> str:
    """A picture in a theme as HTML. name: its class; one of "pe-dark" is hidden where `STYLE` does not show it."""
    content = base64.b64encode(picture.svg(theme).encode()).decode()
    hidden = ";display:none" if name == "pe-dark" else ""
    return (
        f'<img class="{name}" alt="{escape(picture.title)}" src="data:image/svg+xml;base64,{content}"'
        f' style="max-width:100%;border-radius:4px{hidden}">'
    )
