"""Why there is no plan, what causes it, and remedies, in words."""

from __future__ import annotations

from typing import TypedDict

from explorer.view.events import ResultEvent
from explorer.words import text

MOST_PARTS = 4
"""Of what is too large, that are named."""


class Cap(TypedDict):
    bytes: float
    words: str


class NoPlanWords(TypedDict):
    """cap: the least at which a plan was found, None if there is none."""

    title: str
    lines: list[str]
    cap: Cap | None


def no_plan_words(event: ResultEvent) -> NoPlanWords:
    """Of a result event without a plan."""
    why = event["infeasible"]
    assert why is not None
    cap = text.nbytes(why["cap_bytes"])
    if why["proved"]:
        title = f"No plan fits {text.plural(why['devices'], 'device')} of {cap}."
    elif event["stop_reason"] == "CANCELLED":
        title = "Cancelled before a plan was found."
    else:
        title = f"No plan was found in {text.seconds(event['runtime_s'])}."
    lines: list[str] = []
    if not why["bound_memory_bytes"]:
        lines += [note[:1].upper() + note[1:] + "." for note in why["notes"][:2]]
    lack = why["lack"]
    if lack:
        parts = ", ".join(f"{text.nbytes(part['bytes'])} {part['name']}" for part in lack["parts"][:MOST_PARTS])
        lines.append(
            f"An even split needs {text.nbytes(lack['needs_bytes'])} on {lack['device']}, which has"
            f" {text.nbytes(lack['cap_bytes'])}: {parts}."
        )
        if lack["modules"]:
            held = ", ".join(f"{m['name']} {text.nbytes(m['bytes'])}" for m in lack["modules"][:MOST_PARTS])
            lines.append(f"By module: {held}.")
    elif why["blame"]:
        names = text.listing([f"{text.short(b['name'], 36)} ({b['text']})" for b in why["blame"]], 3)
        total = text.nbytes(why["total_bytes"])
        lines.append(f"Static memory is {total} in all; the largest are {names}.")
    if why["bound_memory_bytes"]:
        lines.append(f"Proved: at least {text.nbytes(why['bound_memory_bytes'])} a device is needed.")
    fits = why["fits_memory_bytes"]
    least: Cap | None = None
    if fits:
        least = {"bytes": fits, "words": f"Set the cap to {text.nbytes(fits)}, where a plan was found"}
    return {"title": title, "lines": lines, "cap": least}
