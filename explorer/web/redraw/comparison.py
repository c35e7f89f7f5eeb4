"""The comparison of planners on a page: its table, and what it comes to."""

from __future__ import annotations

from explorer.view.comparison import best_bound_s, family_story, left_out, table
from explorer.web.contract import ids
from explorer.web.contract.messages import Props
from explorer.web.parts.comparison_panel import comparison_table
from explorer.web.state.page_state import PageState
from explorer.words import text


def comparison_props(page: PageState) -> Props:
    """The panel, dimmed where its rows are of other settings than the page's."""
    comparing = page.comparing
    fits, going = comparing.fits(page.session), page.goes_on(comparing.turn)
    rows = table(comparing.rows, _shown(page))
    for row in rows:
        row["can_show"] = fits and comparing.plans[row["place"]] is not None
    several = comparing.every
    content = comparison_table(rows, left_out(comparing.rows), comparing.objective, several) if comparing.rows else []
    return {
        ids.COMPARISON: {"children": content, "className": "table-wrap" if fits else "table-wrap past"},
        ids.COMPARE_NOTE: {"children": _note(page, fits, going)},
        ids.COMPARE_STOP: {"disabled": not going or comparing.stopping},
    }


def show_comparison(page: PageState) -> None:
    page.send({"type": "props", "props": comparison_props(page)})


def _shown(page: PageState) -> tuple[str, str] | None:
    """Planner and contiguity of the plan on the page, if the comparison is of its settings."""
    if page.plan is None or not page.comparing.fits(page.drawn):
        return None
    return page.plan["planner"], page.plan["contiguity"]


def _note(page: PageState, fits: bool, going: bool) -> str:
    comparing = page.comparing
    rows = comparing.rows
    if comparing.wrong:
        return f"Internal error, please report it: {comparing.wrong[0]}."
    if not rows:
        return "" if going else "Runs every planner on these settings, each up to the time limit."
    if not fits:
        return "These rows are for other settings. Compare again, or go back to them."
    words = []
    if not going and len(rows) < comparing.runs:
        words.append(f"Stopped after {len(rows)} of {comparing.runs}.")
    story = family_story(rows)
    bound_s = best_bound_s(rows, rows[0].contiguity)
    if story:
        words.append(story[:1].upper() + story[1:] + ".")
    elif bound_s:
        words.append(f"Best bound proved: {text.seconds(bound_s)}.")
    return " ".join(words)
