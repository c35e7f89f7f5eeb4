"""The dialog that helps: what one sees, which keys there are, and what the words mean."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.web.contract import ids
from explorer.web.contract.terms import TERMS
from explorer.words.glossary import PARTS

SEEN = (
    (
        "Left",
        "the question: model, GPUs, memory, how the mini-batch runs, which planner. Every change solves again.",
    ),
    ("Middle", "the answer: operators in the colour of their GPU, beside the schedule of one iteration; memory below."),
    ("Right", "why it takes as long as it does, what is proved, what would help, and what you selected."),
)
KEYS = (
    ("?", "this help"),
    ("/", "find an operator or module: words of its name, /regexp/, or type:, module:, shape: and one"),
    ("arrows, Enter, Esc", "between boxes, open one, deselect"),
    ("+ − 0", "zoom the schedule, show all of it"),
    ("space , .", "play the schedule, step back and forward"),
    ("m", "one part in place of all, and back"),
    ("w", "what an idle GPU waits for"),
    ("p, then a digit", "pin the selection to that GPU"),
    ("x", "let the selection's pin go"),
    ("t", "keep the selection on one GPU with the next"),
    ("Ctrl-Z, Ctrl-Shift-Z", "undo, redo"),
)


def guide() -> Component:
    """Empty: the page's scripts fill it with `guide_words`. As components, two hundred of them would hear of every
    change of every other one."""
    return html.Dialog(id=ids.GUIDE, className="dialog guide", **{"aria-label": "Help: keys and words"})


def guide_words() -> dict[str, object]:
    """JSON. seen and keys: pairs; parts: [heading, [[key, word, meaning], ...]]. Parts of the page point at the keys
    (`rail.with_tip`)."""
    parts = [[part, [[key, t.word, t.meaning] for key, t in TERMS.items() if t.part == part]] for part in PARTS]
    return {"seen": SEEN, "keys": KEYS, "parts": parts}
