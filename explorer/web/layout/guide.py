"""The dialog that helps: what one sees, which keys there are, and what the words mean."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.web.contract import ids
from explorer.words.glossary import PARTS, TERMS

SEEN = (
    ("Left", "the question: model, GPUs, their memory, how the mini-batch runs, who searches. Every change asks anew."),
    ("Middle", "the answer: operators in the colour of their GPU, beside the schedule of one iteration; memory below."),
    ("Right", "why it takes as long as it does, what is proved, what would help, and what you selected."),
)  # fmt: skip
KEYS = (
    ("?", "this help"),
    ("/", "find an operator or module"),
    ("arrows, Enter, Esc", "between boxes, open one, let go"),
    ("+ − 0", "zoom the schedule, show all of it"),
    ("space , .", "play the schedule, step back and forward"),
    ("w", "what an idle GPU waits for"),
    ("p, then a digit", "pin the selection to that GPU"),
    ("x", "let the selection's pin go"),
    ("t", "keep the selection on one GPU with the next"),
    ("Ctrl-Z, Ctrl-Shift-Z", "undo, redo"),
)


def guide() -> Component:
    """Terms are also what parts of the page point at (`rail.told`): their elements are found by ``data-word``."""
    return html.Dialog(
        [
            html.Div(
                [html.H2("Help"), html.Button("Close", className="tool", **{"data-close": "guide"})], className="spread"
            ),
            html.Dl([part for name, what in SEEN for part in (html.Dt(name), html.Dd(what))], className="kinds-list"),
            html.H3("Keys"),
            html.Dl([part for key, what in KEYS for part in (html.Dt(html.Kbd(key)), html.Dd(what))], className="keys"),
            html.Div(
                [
                    html.H3("Words"),
                    html.Div(id=ids.GUIDE_FIND),
                ],
                className="spread",
            ),
            html.Div([_part(part) for part in PARTS], className="words"),
            html.P("Every control and figure tells its own when it is pointed at.", className="small quiet"),
        ],
        id=ids.GUIDE,
        className="dialog guide",
        **{"aria-label": "Help: keys and words"},
    )


def _part(part: str) -> Component:
    terms = [(key, term) for key, term in TERMS.items() if term.part == part]
    entries = [
        html.Div([html.Dt(term.word), html.Dd(term.meaning, id=f"word-{key}")], className="word", **{"data-word": key})
        for key, term in terms
    ]
    return html.Section([html.H4(part), html.Dl(entries)])
