"""What is selected on a page: what it is, where it may be pinned, what it would cost elsewhere."""

from __future__ import annotations

from dataclasses import replace

from explorer.view.graph.inspect import Facts, box_facts, device_facts, operator_facts
from explorer.view.graph.pinning import members
from explorer.view.graph.stage_boxes import stage_facts
from explorer.web.contract import ids
from explorer.web.contract.messages import Props
from explorer.web.parts import panels, pin_panel, why_here_panel
from explorer.web.redraw import run_drawing
from explorer.web.state.page_state import About, PageState


def selected_operators(page: PageState) -> frozenset[int]:
    """The forward operators of what is selected."""
    if page.skeleton is None or page.view is None or page.selected is None:
        return frozenset()
    return members(*page.selected, page.view, page.skeleton, page.plan)


def about_selected(page: PageState) -> About | None:
    """What is asked about when somebody wants to know why the selection is where it is; None if nothing can be."""
    source = page.source
    if page.selected is None or page.selected[0] == "device" or not source.known or not page.current:
        return None
    return page.selected, source


def inspect(page: PageState) -> None:
    page.send({"type": "props", "props": inspector_props(page)})


def inspector_props(page: PageState) -> Props:
    """Facts on the selection, with the devices that it can be pinned to and its costs elsewhere, as far as known."""
    children = panels.inspector(_facts(page))
    operators = selected_operators(page)
    if operators and page.plan is not None:
        pinned = operators <= set(page.plan["pinned"])
        on = {device for i in operators for device in page.plan["placement"][i]} if pinned else set()
        children += pin_panel.choices(page.device_names, on)
    about = about_selected(page)
    if about is not None and operators:
        known = page.elsewhere.about == about
        children.append(why_here_panel.why_here(page.elsewhere) if known else why_here_panel.offer())
    return {ids.INSPECTOR: {"children": children}}


def _facts(page: PageState) -> Facts | None:
    """What is known of the selection; None for what is not there."""
    if page.selected is None or page.view is None or page.skeleton is None:
        return None
    kind, which = page.selected
    facts = None
    if kind == "box":
        facts = box_facts(which, page.view, page.skeleton, page.plan)
    elif page.plan is not None and which.isdecimal():
        number = int(which)
        if kind == "operator":
            facts = operator_facts(number, page.skeleton, page.plan)
        else:
            facts = stage_facts(number, page.plan) if kind == "stage" else device_facts(number, page.plan)
    if facts is None or page.measured is None:
        return facts
    return replace(facts, rows=(*facts.rows, *run_drawing.facts(kind, which, page.view, page.measured)))
