"""The page's callbacks. All run in the browser (assets/controls.js); the server is asked over the
websocket. Registered on the app that is given, never globally."""

from __future__ import annotations

from dash import ClientsideFunction, Dash, Input, Output, State

from explorer.question.settings import declared
from explorer.question.written.declaring import SWITCH
from explorer.web.contract import ids

CONTROLS = [one.control for one in declared() if one.control is not None]


def register(app: Dash) -> None:
    """Connect the controls of ``app``'s layout."""
    on_first = [
        (
            "controls",
            Output(ids.SESSION, "data"),
            Output(ids.DEVICES_VALUE, "children"),
            Output(ids.MEMORY_FIELD, "value"),
            Output(ids.GUARANTEE, "children"),
            *(Input(one.id, "checked" if one.shape == SWITCH else "value") for one in CONTROLS),
            *(Input(control, "value") for control in (ids.MODEL, ids.KIND_TWO, ids.KIND_TWO_COUNT)),
            Input(ids.LIVE, "checked"),
            State(ids.CATALOGUE, "data"),
            State(ids.MEMORY, "max"),
        ),
        (
            "theme",
            Output(ids.CHOSEN_THEME, "data"),
            Input(ids.THEME, "n_clicks"),
            State(ids.CHOSEN_THEME, "data"),
        ),
        ("tab", Input(ids.TABS, "value")),
    ]
    on_change = [
        (
            "kind",
            Output(ids.MEMORY, "max"),
            Output(ids.MEMORY, "value"),
            Input(ids.KIND, "value"),
            State(ids.MEMORY, "value"),
            State(ids.MEMORY, "max"),
        ),
        ("memoryField", Output(ids.MEMORY_FIELD, "error"), Input(ids.MEMORY_FIELD, "value")),
        ("solve", Input(ids.SOLVE, "n_clicks")),
        ("cancel", Input(ids.CANCEL, "n_clicks")),
        ("compare", Input(ids.COMPARE, "n_clicks"), State(ids.COMPARE_EVERY, "checked")),
        ("stopComparing", Input(ids.COMPARE_STOP, "n_clicks")),
        ("openRun", Output(ids.TABS, "value"), Input(ids.RUN_OPEN, "n_clicks")),
        (
            "run",
            Input(ids.RUN_START, "n_clicks"),
            State(ids.RUN_TARGET, "value"),
            State(ids.RUN_STEPS, "value"),
            State(ids.RUN_VERIFY, "checked"),
        ),
        ("cancelRun", Input(ids.RUN_STOP, "n_clicks")),
        ("runTarget", Input(ids.RUN_TARGET, "value")),
        ("share", Output(ids.SHARE, "children"), Input(ids.SHARE, "n_clicks")),
    ]
    for callbacks, at_first in ((on_first, True), (on_change, False)):
        for name, *parts in callbacks:
            app.clientside_callback(ClientsideFunction("explorer", name), *parts, prevent_initial_call=not at_first)
